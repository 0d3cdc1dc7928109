// The graded cases of exercise 12. Gradients are compared with difference quotients of a loss, in
// f64, through the library's forward passes; and where they differ, with what the usual mistakes
// give.
#include <functional>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/norm.hpp"

using namespace yotta;
using exercise::expect;
using exercise::solution;

namespace {

constexpr double tolerance = 1e-7;  // of difference quotients; a mistake is off by far more

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Random numbers, and NaN behind them: what reads more than there is gets that.
Tensor numbers(const Shape& shape, const char* name, double size = 1) {
  const int64_t count = product(shape);
  Tensor made = Tensor::full({2 * count + 8}, nan, DType::f64).rows(0, count).reshape(shape);
  const Random random(exercise::seed(12), name);
  for (uint64_t i = 0; double& value : made.span<double>()) value = size * random.normal(i++);
  return made;
}

exercise::Matrix matrix(const Tensor& x) { return row_major(x.data<double>(), x.dim(0), x.dim(1)); }
exercise::Array array(const Tensor& x) { return x.span<double>(); }

// A (rows, columns) result, with room behind it: indices that are swapped stay in this memory.
class Result {
 public:
  Result(int64_t rows, int64_t columns, double before)
      : rows_(rows),
        columns_(columns),
        numbers_(static_cast<size_t>(rows * columns + (std::max(rows, columns) + 1) * columns),
                 before) {}
  exercise::MatrixOut matrix() { return row_major(numbers_.data(), rows_, columns_); }
  exercise::ArrayOut array() { return {numbers_.data(), size()}; }
  Numbers values() const { return Numbers(numbers_.data(), numbers_.data() + size()); }
  // Is what lies behind it as it was?
  bool ends_where_it_ends(double before) const {
    return std::all_of(numbers_.begin() + static_cast<std::ptrdiff_t>(size()), numbers_.end(),
                       [&](double number) { return number == before; });
  }

 private:
  size_t size() const { return static_cast<size_t>(rows_ * columns_); }
  int64_t rows_, columns_;
  Numbers numbers_;
};

// (loss(x + h e_i) - loss(x - h e_i)) / 2h for every number of x, from two step sizes h, so that
// the error in h^2 cancels.
Numbers difference_quotients(Tensor x, const std::function<double()>& loss) {
  Numbers slopes;
  for (double& value : x.span<double>()) {
    const double kept = value;
    const auto slope = [&](double h) {
      value = kept + h;
      const double above = loss();
      value = kept - h;
      return (above - loss()) / (2 * h);
    };
    slopes.push_back(4.0 / 3 * slope(1e-3) - 1.0 / 3 * slope(2e-3));
    value = kept;
  }
  return slopes;
}

// The sum of y dy: a loss whose gradient with respect to y is dy.
double loss_of(const Tensor& y, const Tensor& dy) {
  const Numbers a = y.values(), b = dy.values();
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Numbers plus(Numbers a, double before) {
  for (double& number : a) number += before;
  return a;
}
Numbers times(Numbers a, double factor) {
  for (double& number : a) number *= factor;
  return a;
}

struct Expected {
  std::string what;
  Numbers gradient;
  double before = 0;  // what the result held
  bool added = true;  // to it, or written over it
  std::vector<Suspect> suspects = {};
};

// Compares with difference quotients. Suspects are gradients: what was there before is added here.
void expect_gradient(const Result& result, Expected expected) {
  const double base = expected.added ? expected.before : 0;
  Clues clues;
  clues.what = expected.what + ", beside difference quotients";
  for (Suspect& suspect : expected.suspects)
    clues.suspects.push_back({suspect.name, plus(std::move(suspect.values), base)});
  if (expected.added)
    clues.suspects.push_back(
        {"the gradient alone, written over what was there: this one is added (+=)",
         expected.gradient});
  else
    clues.suspects.push_back({"dx added to what was there: this one is overwritten (=)",
                              plus(expected.gradient, expected.before)});
  const Numbers values = result.values();
  clues.before = Numbers(values.size(), expected.before);
  expect(compare(values, plus(expected.gradient, base), tolerance, clues));
  expect(result.ends_where_it_ends(expected.before),
         expected.what +
             " is right, and what lies behind it in memory is written over: does a loop "
             "run once too often?");
}

// ---- linear -------------------------------------------------------------------------------------

struct Linear {
  int64_t N, I, O;
  Tensor x = numbers({N, I}, "x"), w = numbers({O, I}, "w"), b = numbers({O}, "b"),
         dy = numbers({N, O}, "dy");
  double loss() const { return loss_of(linear(x, w, b), dy); }
  std::string sizes() const { return fmt::format("with N = {}, I = {}, O = {}", N, I, O); }
};
// The square one first: there a transpose is a matrix of the right size.
std::vector<Linear> linears() { return {{3, 4, 4}, {3, 5, 2}, {1, 2, 6}, {6, 1, 3}}; }

// ---- rmsnorm ------------------------------------------------------------------------------------

struct Row {  // what the formula of dx is made of, for one row
  double r, mean_g, sum_gn, mean_gn, mean_gx, mean_dyn;
};

struct Rmsnorm {
  int64_t N = 3, C = 5;
  Tensor x = numbers({N, C}, "norm.x", 2), w = numbers({C}, "norm.w"),
         dy = numbers({N, C}, "norm.dy");
  double eps = 0.05;
  RmsnormOutput y() const { return rmsnorm(x, w, eps); }
  double loss() const { return loss_of(y().y, dy); }

  // dx from a formula of one number: of(g, n, the row, dy, x).
  template <class Of>
  Numbers dx(Of of) const {
    const Numbers X = x.values(), W = w.values(), D = dy.values(), r = y().rstd.values();
    const auto width = static_cast<size_t>(C);
    Numbers all;
    for (size_t n = 0; n < static_cast<size_t>(N); ++n) {
      Row row{r[n], 0, 0, 0, 0, 0};
      for (size_t c = 0; c < width; ++c) {
        const double d = D[n * width + c], g = d * W[c], of_x = X[n * width + c];
        row.mean_g += g / static_cast<double>(C);
        row.sum_gn += g * of_x * r[n];
        row.mean_gx += g * of_x / static_cast<double>(C);
        row.mean_dyn += d * of_x * r[n] / static_cast<double>(C);
      }
      row.mean_gn = row.sum_gn / static_cast<double>(C);
      for (size_t c = 0; c < width; ++c) {
        const double d = D[n * width + c], of_x = X[n * width + c];
        all.push_back(of(d * W[c], of_x * r[n], row, d, of_x));
      }
    }
    return all;
  }
  // dw from a formula of one number, summed over the rows: of(dy, x, r, w).
  template <class Of>
  Numbers dw(Of of) const {
    const Numbers X = x.values(), W = w.values(), D = dy.values(), r = y().rstd.values();
    const auto width = static_cast<size_t>(C);
    Numbers sum(width);
    for (size_t i = 0; i < X.size(); ++i)
      sum[i % width] += of(D[i], X[i], r[i / width], W[i % width]);
    return sum;
  }
};

struct RmsnormResult {
  Result dx, dw;
};
RmsnormResult run(const Rmsnorm& norm, double before) {
  RmsnormResult result{{norm.N, norm.C, before}, {1, norm.C, before}};
  solution.rmsnorm_backward(matrix(norm.dy), matrix(norm.x), array(norm.w), array(norm.y().rstd),
                            result.dx.matrix(), result.dw.array());
  return result;
}

// ---- cross-entropy ------------------------------------------------------------------------------

struct Logits {
  int64_t N = 3, V = 5;
  double size = 1, scale = 0.25;
  std::vector<int64_t> targets = {4, 0, 2};
  Tensor z = numbers({N, V}, "z", size);

  Tensor whole_targets() const {
    Tensor made = Tensor::empty({N}, DType::i32);
    std::copy(targets.begin(), targets.end(), made.data<int32_t>());
    return made;
  }
  double loss() const { return cross_entropy(z, whole_targets(), scale).loss; }
  // The probability of each logit, times scale.
  Numbers scaled_softmax() const {
    Numbers all = difference_quotients(z, [&] { return loss(); });
    for (size_t n = 0; n < targets.size(); ++n)
      all[n * static_cast<size_t>(V) + static_cast<size_t>(targets[n])] += scale;
    return all;
  }
};

struct LogitsResult {
  double loss;
  Result dz;
};
LogitsResult run(const Logits& at, double before) {
  Result dz(at.N, at.V, before);
  const double loss = solution.cross_entropy(matrix(at.z), at.targets, at.scale, dz.matrix());
  return {loss, dz};
}

// ---- attention ----------------------------------------------------------------------------------

struct Head {
  int64_t T = 6, d = 4;
  Tensor q = numbers({T, d}, "q", 1.5), k = numbers({T, d}, "k", 1.5), v = numbers({T, d}, "v"),
         dout = numbers({T, d}, "dout");

  Tensor one_head(const Tensor& x) const { return x.reshape({1, T, 1, d}); }
  FlashAttention out() const {
    FlashAttention whole = flash_attention(one_head(q), one_head(k), one_head(v));
    return {whole.o.reshape({T, d}), whole.log_sum_exp.reshape({T})};
  }
  double loss() const { return loss_of(out().o, dout); }
  double score(int64_t t, int64_t j) const {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c) sum += matrix(q)(t, c) * matrix(k)(j, c);
    return sum / std::sqrt(static_cast<double>(d));
  }
};

// The online softmax with one thing left out.
enum class Left { scaling_of_o, scaling_of_l, both, what_was_there };
Numbers online_without(const Head& head, int64_t block, Left left) {
  Numbers all;
  for (int64_t t = 0; t < head.T; ++t) {
    double m = -std::numeric_limits<double>::infinity(), l = 0;
    Numbers o(static_cast<size_t>(head.d));
    for (int64_t first = 0; first <= t; first += block) {
      const int64_t end = std::min(first + block, t + 1);
      double most = m;
      for (int64_t j = first; j < end; ++j) most = std::max(most, head.score(t, j));
      const double kept = std::exp(m - most);
      if (left == Left::what_was_there) {
        l = 0;
        std::fill(o.begin(), o.end(), 0);
      }
      if (left == Left::scaling_of_o) l *= kept;
      if (left == Left::scaling_of_l)
        for (double& number : o) number *= kept;
      for (int64_t j = first; j < end; ++j) {
        const double e = std::exp(head.score(t, j) - most);
        l += e;
        for (int64_t c = 0; c < head.d; ++c) o[static_cast<size_t>(c)] += e * matrix(head.v)(j, c);
      }
      m = most;
    }
    for (const double number : o) all.push_back(number / l);
  }
  return all;
}

struct Online {
  Numbers o, L;
};
// The keys come from here, `block` at a time: no more are there to be looked at.
Online run_online(const Head& head, int64_t block) {
  Result o(head.T, head.d, 0);
  Numbers L;
  for (int64_t t = 0; t < head.T; ++t) {
    double m = -std::numeric_limits<double>::infinity(), l = 0;
    for (int64_t first = 0; first <= t; first += block) {
      Numbers s;
      for (int64_t j = first; j < std::min(first + block, t + 1); ++j)
        s.push_back(head.score(t, j));
      solution.add_keys(s, matrix(head.v), t, first, m, l, o.matrix());
    }
    for (int64_t c = 0; c < head.d; ++c) o.matrix()(t, c) /= l;
    L.push_back(m + std::log(l));
  }
  expect(o.ends_where_it_ends(0), "what lies behind o in memory is written over");
  return {o.values(), L};
}

// o and L of all keys at once.
void expect_online(const Head& head, int64_t block) {
  const Online found = run_online(head, block);
  const FlashAttention whole = head.out();
  Clues clues;
  clues.what = fmt::format("o of {} tokens, {} keys at a time", head.T, block);
  clues.suspects = {
      {"what o is if it is not scaled when a larger score turns up: what was summed before is "
       "worth e^(m - m_new) of itself",
       online_without(head, block, Left::scaling_of_o)},
      {"what o is if l is not scaled when a larger score turns up: l is a sum of e^(s - m) too",
       online_without(head, block, Left::scaling_of_l)},
      {"what o is if neither l nor o is scaled when a larger score turns up",
       online_without(head, block, Left::both)},
      {"what o is of the last keys alone: m, l and o hold those before, which have gone. Add to "
       "them",
       online_without(head, block, Left::what_was_there)}};
  expect(compare(found.o, whole.o.values(), 1e-12, clues));
  clues = {};
  clues.what = fmt::format("L = m + log l of {} tokens, {} keys at a time", head.T, block);
  expect(compare(found.L, whole.log_sum_exp.values(), 1e-12, clues));
}

void expect_finite(const Online& found, const std::string& what, const std::string& why) {
  for (const Numbers& some : {found.o, found.L})
    for (const double number : some)
      expect(std::isfinite(number), fmt::format("{}: one number is {}. {}", what,
                                                std::isnan(number) ? "NaN" : "infinite", why));
}

// dQ, dK and dV by the formulas, with one thing wrong.
struct Mistake {
  bool D = true, L = true, mask = true;
  int scales = 1;
};
struct Gradients {
  Numbers dq, dk, dv;
};
Gradients gradients(const Head& head, const Mistake& mistake) {
  const exercise::Matrix q = matrix(head.q), k = matrix(head.k), v = matrix(head.v),
                         dout = matrix(head.dout);
  const FlashAttention whole = head.out();
  const Tensor o = whole.o, L = whole.log_sum_exp;
  const double scale = std::pow(1 / std::sqrt(static_cast<double>(head.d)), mistake.scales);
  Gradients g{Numbers(static_cast<size_t>(head.T * head.d)), {}, {}};
  g.dk = g.dv = g.dq;
  const auto place = [&](int64_t t, int64_t c) { return static_cast<size_t>(t * head.d + c); };
  for (int64_t t = 0; t < head.T; ++t)
    for (int64_t j = 0; j < (mistake.mask ? t + 1 : head.T); ++j) {
      const double p =
          std::exp(head.score(t, j) - (mistake.L ? array(L)[static_cast<size_t>(t)] : 0));
      double dp = 0, D = 0;
      for (int64_t c = 0; c < head.d; ++c) {
        dp += dout(t, c) * v(j, c);
        D += dout(t, c) * matrix(o)(t, c);
      }
      const double ds = p * (dp - (mistake.D ? D : 0));
      for (int64_t c = 0; c < head.d; ++c) {
        g.dv[place(j, c)] += p * dout(t, c);
        g.dq[place(t, c)] += scale * ds * k(j, c);
        g.dk[place(j, c)] += scale * ds * q(t, c);
      }
    }
  return g;
}

struct AttentionResult {
  Result dq, dk, dv;
};
AttentionResult run(const Head& head, double before) {
  const Result empty(head.T, head.d, before);
  AttentionResult result{empty, empty, empty};
  const FlashAttention whole = head.out();
  solution.attention_backward(matrix(head.dout), matrix(head.q), matrix(head.k), matrix(head.v),
                              matrix(whole.o), array(whole.log_sum_exp), result.dq.matrix(),
                              result.dk.matrix(), result.dv.matrix());
  return result;
}

}  // namespace

TEST_CASE("12.1: dx of a linear layer is what difference quotients say") {
  for (const Linear& at : linears()) {
    Result dx(at.N, at.I, 7);
    solution.linear_backward_input(matrix(at.dy), matrix(at.w), dx.matrix());
    Expected expected{"dx (N, I) " + at.sizes(),
                      difference_quotients(at.x, [&] { return at.loss(); }), 7, false};
    if (at.I == at.O)
      expected.suspects = {
          {"dy W', with W transposed: w has a row for each output, so the sum over o of dy(n, o) "
           "goes down a column of w",
           linear(at.dy, at.w).values()}};
    expect_gradient(dx, expected);
  }
}

TEST_CASE("12.2: dw of a linear layer is what difference quotients say, added to what is there") {
  for (const Linear& at : linears()) {
    Result dw(at.O, at.I, 0.5), db(1, at.O, 0.5);
    solution.linear_backward_weight(matrix(at.dy), matrix(at.x), dw.matrix(), db.array());
    Expected expected{"dw (O, I) " + at.sizes(),
                      difference_quotients(at.w, [&] { return at.loss(); }), 0.5};
    expected.suspects = {{"the mean over the N rows: a weight's gradient is their sum",
                          times(expected.gradient, 1 / static_cast<double>(at.N))}};
    if (at.I == at.O) {
      Tensor transposed_dw = Tensor::zeros({at.I, at.O}, DType::f64);
      linear_backward_weight(at.x, at.dy, transposed_dw);
      expected.suspects.push_back(
          {"x' dy, the transpose of dw: w (O, I) has a row for each output, and so has dw = dy' x",
           transposed_dw.values()});
    }
    expect_gradient(dw, expected);
  }
}

TEST_CASE("12.2: db is the sum of the rows of dy, added to what is there") {
  for (const Linear& at : linears()) {
    Result dw(at.O, at.I, 0.5), db(1, at.O, 0.5);
    solution.linear_backward_weight(matrix(at.dy), matrix(at.x), dw.matrix(), db.array());
    Expected expected{"db (O) " + at.sizes(), difference_quotients(at.b, [&] { return at.loss(); }),
                      0.5};
    expected.suspects = {{"the sum of all rows I times: one += a row and an output is enough",
                          times(expected.gradient, static_cast<double>(at.I))}};
    expect_gradient(db, expected);
  }
}

TEST_CASE("12.3: dx of rmsnorm is what difference quotients say") {
  const Rmsnorm at;
  const RmsnormResult result = run(at, 7);
  Expected expected{"dx of rmsnorm", difference_quotients(at.x, [&] { return at.loss(); }), 7,
                    false};
  using D = double;
  expected.suspects = {
      {"r g: the mean term is missing. r depends on x too, so x(n, c) reaches every output of its "
       "row",
       at.dx([](D g, D, const Row& row, D, D) { return row.r * g; })},
      {"r (g - n sum(g n)): the term along n is a mean over the row, divide by C",
       at.dx([](D g, D n, const Row& row, D, D) { return row.r * (g - n * row.sum_gn); })},
      {"r (g - mean(g) - n mean(g n)), layernorm's: rmsnorm subtracts no mean of x, so no mean of "
       "g leaves",
       at.dx([](D g, D n, const Row& row, D, D) {
         return row.r * (g - row.mean_g - n * row.mean_gn);
       })},
      {"r (dy - n mean(dy n)): the weight is missing, g = dy w",
       at.dx([](D, D n, const Row& row, D dy, D) { return row.r * (dy - n * row.mean_dyn); })},
      {"g - n mean(g n): the factor r is missing, n = x r and so dn/dx has it",
       at.dx([](D g, D n, const Row& row, D, D) { return g - n * row.mean_gn; })},
      {"r (g - x mean(g x)): x is in the place of the normalised n = x r",
       at.dx([](D g, D, const Row& row, D, D x) { return row.r * (g - x * row.mean_gx); })}};
  expect_gradient(result.dx, expected);
}

TEST_CASE("12.3: dw of rmsnorm is what difference quotients say, added to what is there") {
  const Rmsnorm at;
  const RmsnormResult result = run(at, 0.5);
  Expected expected{"dw of rmsnorm", difference_quotients(at.w, [&] { return at.loss(); }), 0.5};
  using D = double;
  expected.suspects = {
      {"the sum over rows of dy x: y = n w, so dw is the sum of dy times the normalised n = x r",
       at.dw([](D dy, D x, D, D) { return dy * x; })},
      {"the sum over rows of dy n w: y = n w, so dy/dw is n alone",
       at.dw([](D dy, D x, D r, D w) { return dy * x * r * w; })}};
  expect_gradient(result.dw, expected);
}

TEST_CASE("12.4: the loss is the scaled sum of -log P of what came next") {
  const Logits at;
  const double found = run(at, 0).loss, expected = at.loss();
  double probabilities = 0;
  const Numbers softmax = at.scaled_softmax();
  for (size_t n = 0; n < at.targets.size(); ++n)
    probabilities += softmax[n * static_cast<size_t>(at.V) + static_cast<size_t>(at.targets[n])];
  const auto near = [&](double a) { return std::abs(found - a) < tolerance; };
  std::string why;
  if (near(-probabilities))
    why = ": the sum of -P of the targets, without the logarithm: the loss is -log P";
  if (near(expected / at.scale)) why = ": the sum over the rows, not times scale";
  if (near(-expected)) why = ": the sign is turned round, P below 1 has a negative logarithm";
  expect(near(expected), fmt::format("loss of 3 rows with scale {}: expected {:.6f}, got {:.6f}{}",
                                     at.scale, expected, found, why));
}

TEST_CASE("12.4: dz is what difference quotients of the loss say") {
  const Logits at;
  const Numbers gradient = difference_quotients(at.z, [&] { return at.loss(); });
  Expected expected{"dz (N, V)", gradient, 7, false};
  expected.suspects = {
      {"the probabilities: nothing is subtracted at the target, whose own logit lowers the loss",
       at.scaled_softmax()},
      {"the target minus the probability: the sign is turned round, and a step against it makes "
       "the loss larger",
       times(gradient, -1)},
      {"the gradient without scale: the loss is scaled, and so is dz",
       times(gradient, 1 / at.scale)},
      {"scale twice", times(gradient, at.scale)}};
  expect_gradient(run(at, 7).dz, expected);
}

TEST_CASE("12.4: a vocabulary of one token") {
  const Logits at{.N = 2, .V = 1, .targets = {0, 0}};
  const LogitsResult found = run(at, 7);
  expect(std::abs(found.loss) < tolerance,
         fmt::format("its probability is 1 and the loss 0, yours is {}", found.loss));
  expect_gradient(found.dz, {"dz (2, 1)", Numbers(2), 7, false});
}

TEST_CASE("12.4: large logits do not overflow") {
  for (const double sign : {1.0, -1.0}) {
    Logits at;
    for (double& number : at.z.span<double>()) number += sign * 900;
    const LogitsResult found = run(at, 0);
    const std::string what = fmt::format(
        "logits near {}: {{}} is not finite. e^900 is infinite and e^-900 is 0, so take the row's "
        "largest logit out of every exponent",
        sign * 900);
    expect(std::isfinite(found.loss), fmt::format(fmt::runtime(what), "the loss"));
    for (const double number : found.dz.values())
      expect(std::isfinite(number), fmt::format(fmt::runtime(what), "a number of dz"));
    expect(std::abs(found.loss - at.loss()) < tolerance,
           fmt::format("logits near {}: expected a loss of {:.6f}, got {:.6f}", sign * 900,
                       at.loss(), found.loss));
  }
  Logits apart;  // rows near 900, 0 and -900
  for (int64_t i = 0; double& number : apart.z.span<double>())
    number += 900.0 * static_cast<double>(1 - i++ / apart.V);
  const double found = run(apart, 0).loss;
  expect(std::abs(found - apart.loss()) < tolerance,
         fmt::format("rows of logits near 900, 0 and -900: expected a loss of {:.6f}, got {:.6f}. "
                     "Each row has a largest logit of its own: with another row's its exponents "
                     "are all 0",
                     apart.loss(), found));
  Logits unlikely;  // what came next is e^-900 as probable as another one
  for (size_t n = 0; n < unlikely.targets.size(); ++n)
    unlikely.z.span<double>()[n * 5 + static_cast<size_t>(unlikely.targets[n] + 1) % 5] += 900;
  const double surprised = run(unlikely, 0).loss;
  expect(std::abs(surprised - unlikely.loss()) < tolerance,
         fmt::format("targets with logits 900 below another one: expected a loss of {:.6f}, got "
                     "{:.6f}. Their probability is 0 in a double, and its logarithm infinite: take "
                     "log P = z - m - log(sum) from the logits",
                     unlikely.loss(), surprised));
}

TEST_CASE("12.5: o and L are those of all keys at once, however many keys come at a time") {
  const Head head;
  for (const int64_t block : {int64_t{2}, int64_t{1}, int64_t{4}, head.T})
    expect_online(head, block);
}

TEST_CASE("12.5: large scores, early or late, do not overflow") {
  for (const double sign : {-1.0, 1.0}) {
    Head head;  // scores of 900 and more, with either sign
    for (double& number : head.q.span<double>()) number = 30;
    for (int64_t j = 0; j < head.T; ++j)
      for (int64_t c = 0; c < head.d; ++c)
        head.k.data<double>()[j * head.d + c] =
            sign * static_cast<double>(j < head.T / 2 ? 15 : -15);
    const std::string why =
        sign > 0 ? "The first scores are 900 and the last -900: e^(900 - m) must never be computed "
                   "with a smaller m, so m never falls: m_new is the larger of m and the block's "
                   "largest score"
                 : "The first scores are -900 and the last 900; e^-900 is 0 and e^900 is infinite: "
                   "take m, the largest score so far, out of every exponent";
    for (const int64_t block : {1, 2}) {
      expect_finite(run_online(head, block),
                    fmt::format("scores of {} and {}, {} key{} at a time", 900 * sign, -900 * sign,
                                block, block == 1 ? "" : "s"),
                    why);
      expect_online(head, block);
    }
  }
}

TEST_CASE("12.6: dq, dk and dv are what difference quotients say, added to what is there") {
  const Head head;
  const AttentionResult result = run(head, 0.5);
  const Gradients no_D = gradients(head, {.D = false}), no_L = gradients(head, {.L = false}),
                  no_mask = gradients(head, {.mask = false}),
                  unscaled = gradients(head, {.scales = 0}), twice = gradients(head, {.scales = 2});
  const auto check = [&](const char* what, const Tensor& x, const Result& found,
                         Numbers Gradients::*pick) {
    Expected expected{what, difference_quotients(x, [&] { return head.loss(); }), 0.5};
    if (x.data<double>() != head.v.data<double>())
      expected.suspects = {
          {"what dS = P o dP gives: D is missing. A larger score takes probability from all others "
           "of its "
           "row, and D(t), the sum over j of P dP, is what that costs",
           no_D.*pick},
          {"the gradient without 1 / sqrt(d): S = Q K' / sqrt(d), so dQ and dK have the factor too",
           unscaled.*pick},
          {"the gradient with 1 / sqrt(d) twice: scale either dS or dQ and dK, not both",
           twice.*pick}};
    expected.suspects.push_back({"what P = e^S gives, without L: P = e^(S - L)", no_L.*pick});
    expected.suspects.push_back(
        {"the gradient without the mask: query t sees keys 0 to t and no others", no_mask.*pick});
    expect_gradient(found, expected);
  };
  check("dv", head.v, result.dv, &Gradients::dv);
  check("dq", head.q, result.dq, &Gradients::dq);
  check("dk", head.k, result.dk, &Gradients::dk);
}

TEST_CASE("12.6: one token, one number per head, and large scores") {
  for (const auto& [T, d] : {std::pair{1, 4}, std::pair{5, 1}}) {
    const Head head{.T = T, .d = d};
    const AttentionResult result = run(head, 0);
    expect_gradient(result.dq, {fmt::format("dq of {} tokens, d = {}", T, d),
                                difference_quotients(head.q, [&] { return head.loss(); })});
  }
  Head head;
  for (double& number : head.q.span<double>()) number *= 400;
  const Gradients expected = gradients(head, {});
  for (const double number : run(head, 0).dk.values())
    expect(std::isfinite(number),
           "dk of scores beyond 1000 is not finite: subtract L from the score before e is raised "
           "to it");
  Clues clues;
  clues.what = "dk of scores beyond 1000";
  expect(compare(run(head, 0).dk.values(), expected.dk, 1e-9, clues));
}

// The library's linear layer runs, and the ledger counts.
TEST_CASE("12.7: the FLOPs of a linear layer's step, as the ledger counts them") {
  for (const auto& [N, I, O] : {std::array{5, 3, 4}, {1, 7, 2}, {16, 8, 32}}) {
    const Tensor x = numbers({N, I}, "x"), w = numbers({O, I}, "w"), dy = numbers({N, O}, "dy");
    Tensor dw = Tensor::zeros({O, I}, DType::f64);
    const double before = context().ledger.total_flops();
    linear(x, w);
    const double forward = context().ledger.total_flops() - before;
    linear_backward_input(dy, w);
    linear_backward_weight(dy, x, dw);
    const double step = context().ledger.total_flops() - before;
    const auto got = static_cast<double>(solution.linear_step_flops(N, I, O));
    std::string why;
    if (got == forward) why = ": that is the forward pass; dx and dw are a matmul each";
    if (2 * got == step) why = ": a product and its addition are two FLOPs";
    if (got == 2 * forward) why = ": backward is two matmuls, dx and dw";
    expect(got == step, fmt::format("{} tokens, {} inputs, {} outputs: {:.0f} FLOPs predicted, the "
                                    "ledger counts {:.0f}{}",
                                    N, I, O, got, step, why));
  }
  const int64_t large = solution.linear_step_flops(8192, 8192, 28'672);
  expect(large == int64_t{6} * 8192 * 8192 * 28'672,
         fmt::format("8192 tokens, 8192 inputs, 28672 outputs: {} FLOPs predicted, {} are right: "
                     "numbers of an int end at 2147483647, and those of an int64_t far later",
                     large, int64_t{6} * 8192 * 8192 * 28'672));
}
