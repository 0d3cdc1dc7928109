// The graded cases of exercise 21: tokens shared by 2 to 4 ranks, in f64, where they divide and
// where they do not.
#include <map>

#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"

using namespace yotta;
using exercise::expect;
using exercise::expect_equal;
using exercise::run;
using exercise::solution;

namespace {

constexpr int64_t B = 2, C = 3;
constexpr int all_ranks[] = {2, 3, 4};
constexpr int64_t all_lengths[] = {6, 5};  // 12 tokens, and 10: 3 and 4 ranks do not divide them

Tensor numbers(const Shape& shape, const char* name) {
  return exercise::normal_numbers(shape, 21, name);
}

// Rank r's rows of all tokens of a (B, T, C).
Tensor own(const Tensor& whole, int p, int r) {
  const int64_t N = whole.dim(0) * whole.dim(1);
  return as_rows(whole).rows(chunk_begin(N, p, r), chunk_begin(N, p, r + 1));
}

std::string case_of(const char* what, int64_t T, int p, int r) {
  return fmt::format("{} of {} tokens on rank {} of {}", what, B * T, r, p);
}

// What one all_gather or reduce_scatter of N rows sends, by all ranks.
int64_t bytes_of_one(int p, int64_t N) { return (p - 1) * p * ((N + p - 1) / p) * C * 8; }
int64_t sent(const std::vector<RankReport>& reports, const char* label) {
  int64_t sum = 0;
  for (const RankReport& rank : reports) sum += rank.ledger().traffic(label).bytes_sent;
  return sum;
}

}  // namespace

TEST_CASE("21.1: g gives every rank all tokens, where they divide and where they do not") {
  for (const int64_t T : all_lengths)
    for (const int p : all_ranks) {
      const Tensor whole = numbers({B, T, C}, "x");
      const int64_t N = B * T, k = chunk_count(N, p, 0);
      Tensor padded = Tensor::zeros({p * k, C}, DType::f64);  // as it arrives
      for (int r = 0; r < p; ++r) {
        const Tensor rows = own(whole, p, r);
        padded.rows(r * k, r * k + rows.dim(0)).copy_from(rows);
      }
      const auto reports = run(p, [&](Communicator& tp) {
        const Tensor all = solution.gather(own(whole, p, tp.rank()), tp, T);
        expect_equal(all, whole, case_of("g", T, p, tp.rank()), p,
                     {{"the runs with the rows of zeros still between them: leave these out",
                       padded.rows(0, N).values()}});
      });
      expect(sent(reports, "sp.forward") == bytes_of_one(p, N),
             fmt::format("right, but {} bytes were sent under \"sp.forward\", and one all_gather "
                         "of runs of {} rows sends {}",
                         sent(reports, "sp.forward"), k, bytes_of_one(p, N)));
    }
}

TEST_CASE("21.2: every rank gets the sums of its tokens") {
  for (const int64_t T : all_lengths)
    for (const int p : all_ranks) {
      const auto part = [&](int r) { return numbers({B, T, C}, r % 2 == 0 ? "even" : "odd"); };
      Tensor sum = Tensor::zeros({B, T, C}, DType::f64);
      for (int r = 0; r < p; ++r) {
        const Tensor term = part(r);
        for (int64_t i = 0; i < sum.numel(); ++i) sum.data<double>()[i] += term.data<double>()[i];
      }
      Tensor twice = sum.clone();
      for (double& number : twice.span<double>()) number *= p;
      const auto reports = run(p, [&](Communicator& tp) {
        const int r = tp.rank();
        expect_equal(
            solution.gather_backward(part(r), tp, T), own(sum, p, r), case_of("the sums", T, p, r),
            p,
            {{"the sums added up once more: an all_reduce and then a reduce_scatter add up twice",
              own(twice, p, r).values()},
             {"this rank's own part: nothing was added up", own(part(r), p, r).values()}});
      });
      expect(sent(reports, "sp.backward") == bytes_of_one(p, B * T),
             fmt::format("right, but {} bytes were sent under \"sp.backward\", and one "
                         "reduce_scatter sends {}",
                         sent(reports, "sp.backward"), bytes_of_one(p, B * T)));
    }
}

TEST_CASE("21.2: the sums have the type of the parts") {
  const std::string text = exercise::error_of([] {
    run(2, [](Communicator& tp) {
      const Tensor sums = solution.gather_backward(Tensor::full({B, 5, C}, 1), tp, 5);
      for (const double sum : sums.values())
        exercise::require(sum == 2, fmt::format("1 of each of 2 ranks is {}, expected 2", sum));
    });
  });
  expect(text.empty(),
         "parts of f32: whatever is padded has parts.dtype(), as padded_to(k, run) has. It said: " +
             text);
}

namespace {

// Two layers, of 4 and 2 outputs, that read the same gathered x.
Readers two_readers(DType dtype) {
  Readers both;
  both.add(std::make_unique<Linear>("q", LinearOptions{C, 4}, ParameterOptions{1, dtype}));
  both.add(std::make_unique<Linear>("k", LinearOptions{C, 2}, ParameterOptions{1, dtype}));
  return both;
}

}  // namespace

TEST_CASE("21.3: after the forward pass the shard is left, and not what was gathered") {
  for (const int p : all_ranks)
    run(p, [&](Communicator& tp) {
      const Tensor whole = numbers({B, 5, C}, "x"), x = own(whole, p, tp.rank()).clone();
      Readers readers = two_readers(DType::f64);
      Saved saved;
      readers.forward(whole, saved);
      solution.drop_gathered(std::move(readers), x, saved, tp, 5);
      const bool kept = saved.child("q").has("x") || saved.child("k").has("x");
      if (kept)
        fail(Where::current(),
             "a reader still holds an \"x\": {} bytes are kept on rank {} of {}, and its {} tokens "
             "have {}. take() gives a tensor out and forgets it; gather_again will keep an \"x\"",
             saved.bytes(), tp.rank(), p, x.dim(0), x.nbytes());
      if (!saved.has("x")) fail(Where::current(), "there is no \"x\", the shard, in saved itself");
      expect_equal(saved.get("x"), x, "the shard", p);
      if (saved.get("x").shares_memory(whole))
        fail(Where::current(),
             "the shard is a view of the gathered x, so all {} bytes of that stay. Keep x, or a "
             "copy",
             whole.nbytes());
    });
  CHECK(true);  // nothing was thrown
}

TEST_CASE("21.3: the shard has the type that the readers keep") {
  run(2, [&](Communicator& tp) {
    const Tensor whole = Tensor::full({B, 5, C}, 1);
    Readers readers = two_readers(DType::bf16);
    Saved saved;
    readers.forward(whole, saved);
    solution.drop_gathered(std::move(readers), own(whole, 2, tp.rank()), saved, tp, 5);
    const DType type = saved.has("x") ? saved.get("x").dtype() : DType::u8;
    if (type != DType::bf16)
      fail(Where::current(),
           "the readers have bf16 weights and keep x in bf16, but the shard is {}: what is "
           "gathered again would be of another type",
           name(type));
  });
  CHECK(true);
}

TEST_CASE("21.4: the readers have all tokens again, with one all_gather") {
  for (const int p : all_ranks) {
    const Tensor whole = numbers({B, 5, C}, "x");
    const auto reports = run(p, [&](Communicator& tp) {
      const Tensor x = own(whole, p, tp.rank());
      Saved saved;  // as the library's drop_gathered leaves it
      saved.keep("x", x);
      solution.gather_again(two_readers(DType::f64), saved, tp, 5);
      for (const char* reader : {"q", "k"}) {
        Saved& own_saved = saved.child(reader);
        if (!own_saved.has("x"))
          fail(Where::current(), "'{}' has no \"x\" for its weight gradient", reader);
        expect_equal(own_saved.get("x"), as_rows(whole),
                     fmt::format("the \"x\" of '{}' on rank {} of {}", reader, tp.rank(), p), p);
      }
      if (saved.has("x")) fail(Where::current(), "the shard is kept although it is used up");
    });
    const int64_t again = sent(reports, "sp.again"), one = bytes_of_one(p, B * 5);
    expect(again > 0, "right values, but nothing was sent under \"sp.again\": g takes a label");
    expect(again == one,
           fmt::format("right, but {} bytes were sent under \"sp.again\", and one all_gather "
                       "sends {}: gather once, for all that read it",
                       again, one));
  }
}

TEST_CASE("21.5: the ranks together drop what one rank drops") {
  struct Place {
    BatchPosition position;
    const char* what;
  };
  const Place places[] = {{{21, 3, 0, {}, true}, "the first sequences"},
                          {{21, 3, 6, {}, true}, "sequences 6 and 7 of a batch"},
                          {{21, 3, 0, {4, 16}, true}, "positions in two runs, as of cp"}};
  for (const Place& place : places)
    for (const int p : all_ranks) {
      const Tensor x = Tensor::full({B, 10, C}, 1, DType::f64);
      Saved whole(place.position), first_rows(place.position);
      const Tensor y = Dropout("d", 0.5).forward(x, whole);
      run(p, [&](Communicator& tp) {
        const int r = tp.rank();
        Saved saved(place.position);
        const Tensor mine = solution.make_dropout("d", 0.5, tp, 10)->forward(own(x, p, r), saved);
        const Tensor of_first = as_rows(y).rows(0, mine.dim(0));
        std::vector<Suspect> suspects;
        if (r > 0)
          suspects.push_back(
              {"what the first rank's tokens lose: the mask is the same on all ranks",
               of_first.values()});
        expect_equal(mine, own(y, p, r),
                     fmt::format("dropout of {} on rank {} of {}", place.what, r, p), p, suspects);
      });
    }
  CHECK(true);
}

namespace {

struct Named {
  const char* name;
  bool is_own;
};
constexpr Named of_a_model[] = {{"embedding.token.weight", false},
                                {"embedding.position.weight", true},
                                {"layers.0.norm1.weight", true},
                                {"layers.0.norm1.bias", true},
                                {"layers.0.attention.q.weight", false},
                                {"layers.0.attention.o.bias", false},
                                {"layers.0.norm2.weight", true},
                                {"layers.0.mlp.down.bias", false},
                                {"norm.weight", true},
                                {"norm.bias", true}};

std::vector<ParameterPtr> parameters_of_a_model() {
  std::vector<ParameterPtr> all;
  int64_t length = 2;
  for (const Named& each : of_a_model) {
    all.push_back(make_parameter(each.name, {1, length++}, false, ones(), 1, DType::f64));
    all.back()->gradient();
  }
  return all;
}

// Whole numbers that differ by parameter and by place, times `factor`.
std::vector<double> gradient_of(const Parameter& parameter, double factor) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < parameter.grad.numel(); ++i)
    numbers.push_back(factor * static_cast<double>(100 * parameter.grad.numel() + i));
  return numbers;
}
void fill_gradient(Parameter& parameter, double factor) {
  const std::vector<double> numbers = gradient_of(parameter, factor);
  std::copy(numbers.begin(), numbers.end(), parameter.grad.data<double>());
}

}  // namespace

TEST_CASE("21.6: norms' gradients are the sums over the ranks, in one all_reduce") {
  for (const int p : all_ranks) {
    int64_t all = 0;
    const auto reports = run(p, [&](Communicator& tp) {
      const std::vector<ParameterPtr> parameters = parameters_of_a_model();
      for (const ParameterPtr& each : parameters) fill_gradient(*each, tp.rank() + 1);
      solution.reduce_gradients(parameters, tp);
      int64_t summed = 0;
      for (const ParameterPtr& each : parameters) {
        const bool is_norm = each->name.find("norm1") != std::string::npos ||
                             each->name.find("norm2") != std::string::npos;
        const bool is_whole = each->name.find("attention") != std::string::npos ||
                              each->name.find("mlp") != std::string::npos;
        if (solution.sees_own_tokens(*each)) summed += each->grad.numel();
        if (!is_norm && !is_whole) continue;  // of the others 21.7 decides
        const std::vector<double> got = each->grad.values();
        const std::vector<double> alone = gradient_of(*each, tp.rank() + 1);
        const std::vector<double> sum = gradient_of(*each, p * (p + 1) / 2.0);
        if (is_norm && got == alone)
          fail(Where::current(),
               "{} on rank {} of {} is still the gradient of this rank's tokens: not reduced over "
               "tp, or the sum was not copied back. Each rank would step its norms by its own "
               "gradient, and they would drift apart",
               each->name, tp.rank(), p);
        if (is_whole && got != alone)
          fail(Where::current(),
               "{} on rank {} of {} was changed, but every rank had the whole gradient: it begins "
               "with {} instead of {}",
               each->name, tp.rank(), p, got.front(), alone.front());
        if (is_norm && got != sum)
          fail(Where::current(),
               "{} on rank {} of {} begins and ends with {} and {}, expected {} "
               "and {}",
               each->name, tp.rank(), p, got.front(), got.back(), sum.front(), sum.back());
      }
      if (tp.rank() == 0) all = summed;
    });
    const auto messages = reports[0].ledger().traffic("sp.gradients").messages_sent;
    expect(messages == 2 * (p - 1),
           fmt::format("right, but rank 0 of {} sent {} messages under \"sp.gradients\", and one "
                       "all_reduce of all {} numbers together sends {}",
                       p, messages, all, 2 * (p - 1)));
  }
}

TEST_CASE("21.6: a norm that has no gradient on one rank") {
  const std::string text = exercise::error_of([] {
    run(2, [](Communicator& tp) {
      const std::vector<ParameterPtr> parameters = parameters_of_a_model();
      for (const ParameterPtr& each : parameters) fill_gradient(*each, 1);
      const ParameterPtr& norm = parameters[2];
      if (tp.rank() == 1) norm->grad = {};
      solution.reduce_gradients(parameters, tp);
      exercise::require(norm->grad.defined() && norm->grad.values() == gradient_of(*norm, 1),
                        fmt::format("{} on rank {} is not the sum, which is rank 0's gradient",
                                    norm->name, tp.rank()));
    });
  });
  expect(text.empty(),
         "rank 1 had no token for a norm, and has no gradient of it: gradient() makes "
         "zeros, so that all ranks send equally many numbers. It said: " +
             text);
}

TEST_CASE("21.6: parameters without a norm") {
  const std::string text = exercise::error_of([] {
    run(2, [](Communicator& tp) {
      const std::vector<ParameterPtr> all = parameters_of_a_model();
      solution.reduce_gradients({all[4], all[7]}, tp);
    });
  });
  expect(text.empty(),
         "none of them sees its rank's tokens alone, so there is nothing to join and "
         "nothing to send: return then. It said: " +
             text);
}

TEST_CASE("21.7: every parameter that sees its rank's tokens alone is found, and no other") {
  for (const Named& each : of_a_model) {
    Parameter parameter;
    parameter.name = each.name;
    const bool found = solution.sees_own_tokens(parameter);
    expect(found || !each.is_own,
           fmt::format("{} is passed over: its gradient stays that of each rank's own tokens, and "
                       "the ranks' copies drift apart",
                       each.name));
    expect(!found || each.is_own,
           fmt::format("{} would be added up, but every rank has its whole gradient, or a part of "
                       "the weight of its own",
                       each.name));
  }
}
