// The graded cases of exercise 20. Everything is compared with layers of one rank, in double:
// outputs, dx, every weight and its gradient; and what was sent with what one all_reduce sends.
#include "course/shared/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

using namespace yotta;
using exercise::expect;
using exercise::expect_equal;
using exercise::run;
using exercise::solution;

namespace {

constexpr int64_t N = 4, C = 6,
                  F = 24;  // tokens, width, feed-forward width: 1 to 4 ranks divide C and F
const ParameterOptions in_f64{1, DType::f64};

Tensor numbers(const Shape& shape, const char* name) {
  return exercise::normal_numbers(shape, 20, name);
}

// The part of a whole (rows, columns) matrix, or vector, that begins at (row, column).
Tensor part_of_whole(const Tensor& whole, const ShardRange& part, const Shape& shape) {
  Tensor held = Tensor::empty(shape, DType::f64);
  take_shard(whole, part, held);
  return held;
}
// Columns [rank F/p, ...) of a whole (N, F).
Tensor own_columns(const Tensor& whole, int p, int rank) {
  const int64_t all = whole.dim(1), held = all / p;
  return part_of_whole(whole, {N, held, 0, rank * held, N, all}, {N, held});
}

// A layer's parameters, its biases set to values that show if one is added twice.
std::vector<ParameterPtr> parameters_of(Layer& layer) {
  std::vector<ParameterPtr> all;
  layer.add_parameters(all);
  for (const ParameterPtr& each : all)
    if (!each->is_matrix)
      for (int64_t i = 0; i < each->value.numel(); ++i)
        each->value.data<double>()[i] =
            Random(exercise::seed(2), each->name)
                .normal(static_cast<uint64_t>(each->range.first_column + i));
  return all;
}

// What rank `rank` of p holds of a whole parameter: some rows of a weight and some of the bias if
// the layer is cut by columns (a weight has a row for each output), some columns and the whole bias
// if it is cut by rows.
ShardRange expected_part(const Parameter& whole, bool by_columns, int p, int rank) {
  const int64_t rows = whole.is_matrix ? whole.value.dim(0) : 1, columns = whole.value.dim(-1);
  if (whole.is_matrix && by_columns) return {rows / p, columns, rank * rows / p, 0, rows, columns};
  if (whole.is_matrix || by_columns)
    return {rows, columns / p, 0, rank * columns / p, rows, columns};
  return {rows, columns, 0, 0, rows, columns};
}

// A part knows how large the whole is: initial values, checkpoints and norms go by it.
void expect_whole(const Parameter& own, const Parameter& whole, int p, int rank) {
  const ShardRange &part = own.range, &all = whole.range;
  if (part.all_rows() != all.all_rows() || part.all_columns() != all.all_columns())
    fail(Where::current(),
         "{} on rank {} of {} says that the whole layer's is ({}, {}), and it is ({}, {}): "
         "whole_outputs and whole_inputs are the numbers before the cut",
         own.name, rank, p, part.all_rows(), part.all_columns(), all.all_rows(), all.all_columns());
}

// On each rank: own parameters (or their gradients) against their parts of the serial layer's.
void expect_parts(const std::vector<ParameterPtr>& own, const std::vector<ParameterPtr>& whole,
                  Tensor Parameter::*pick, const char* what, int p, int rank) {
  for (size_t i = 0; i < own.size(); ++i) {
    const bool by_columns = own[i]->name.find("down") == std::string::npos;
    const ShardRange part = expected_part(*whole[i], by_columns, p, rank);
    const ShardRange first = expected_part(*whole[i], by_columns, p, 0);
    const Tensor &mine = (*own[i]).*pick, &all = (*whole[i]).*pick;
    if (mine.numel() != part.rows * part.columns)
      fail(Where::current(), "{} on rank {} of {} is {}, expected {} numbers of {}", own[i]->name,
           rank, p, mine.describe(), part.rows * part.columns, all.describe());
    if (own[i]->range.is_whole() != part.is_whole())
      fail(Where::current(),
           "{} on rank {} of {} takes itself for {}: whole_outputs and whole_inputs say how large "
           "the whole layer is",
           own[i]->name, rank, p, part.is_whole() ? "a part" : "the whole");
    expect_whole(*own[i], *whole[i], p, rank);
    std::vector<Suspect> suspects;
    if (rank > 0)
      suspects.push_back({"those that rank 0 holds: a rank begins where the one before ends",
                          part_of_whole(all, first, mine.shape()).values()});
    expect_equal(mine, part_of_whole(all, part, mine.shape()),
                 fmt::format("{} of {} on rank {} of {}", what, own[i]->name, rank, p), p,
                 suspects);
  }
}

constexpr BatchPosition place{20, 1, 0, 0, true};

struct Outcome {
  Tensor y, dx;
};
Outcome forward_backward(Layer& layer, const Tensor& x, const Tensor& dy) {
  Saved saved(place);
  Outcome out;
  out.y = layer.forward(x, saved).clone();
  out.dx = layer.backward_input(dy, saved);
  layer.backward_weight(saved);
  return out;
}

// act(x A) B, and its gradients, from layers of one rank.
class SerialMlp {
 public:
  explicit SerialMlp(const exercise::MlpSizes& sizes)
      : sizes_(sizes),
        gate_("m.gate", {sizes.width, sizes.hidden, sizes.bias, normal(0.5)}, in_f64),
        up_("m.up", {sizes.width, sizes.hidden, sizes.bias, normal(0.5)}, in_f64),
        down_("m.down", {sizes.hidden, sizes.width, sizes.bias, normal(0.5)}, in_f64),
        dropout_("m.dropout", sizes.dropout) {
    for (Layer* layer : layers())
      for (const ParameterPtr& each : parameters_of(*layer)) whole.push_back(each);
  }
  Outcome operator()(const Tensor& x, const Tensor& dy) {
    Saved saved(place);
    const Tensor h = up_.forward(x, saved.child("up"));
    const Tensor gate = sizes_.swiglu ? gate_.forward(x, saved.child("gate")) : Tensor();
    const Tensor active = sizes_.swiglu ? swiglu(gate, h) : gelu(h);
    Outcome out{
        dropout_.forward(down_.forward(active, saved.child("down")), saved.child("dropout")), {}};
    const Tensor dsum = dropout_.backward_input(dy, saved.child("dropout"));
    const Tensor dactive = down_.backward_input(dsum, saved.child("down"));
    if (sizes_.swiglu) {
      const SwigluGradients d = swiglu_backward(dactive, gate, h);
      dx_of_up = up_.backward_input(d.dup, saved.child("up"));
      dx_of_gate = gate_.backward_input(d.dgate, saved.child("gate"));
      out.dx = add(dx_of_up, dx_of_gate);
      y_of_swapped = linear(swiglu(h, gate), whole.back()->value);
      gate_.backward_weight(saved.child("gate"));
    } else {
      out.dx = up_.backward_input(gelu_backward(dactive, h), saved.child("up"));
    }
    up_.backward_weight(saved.child("up"));
    down_.backward_weight(saved.child("down"));
    return out;
  }
  // What comes out if A is cut by rows: act of each rank's part of the sum, added up afterwards.
  Tensor rows_first(const Tensor& x, int p) const {
    const Tensor A = whole[0]->value;  // (F, C): a row an output
    Tensor active = Tensor::zeros({N, F}, DType::f64);
    for (int r = 0; r < p; ++r) {
      const int64_t held = C / p;
      const Tensor x_r = own_columns(x, p, r);
      const Tensor A_r = part_of_whole(A, {F, held, 0, r * held, F, C}, {F, held});
      const Tensor h = r == 0 ? linear(x_r, A_r, whole[1]->value) : linear(x_r, A_r);
      add_into(active, gelu(h));
    }
    return linear(active, whole[2]->value, whole[3]->value);
  }

  std::vector<ParameterPtr> whole;  // (gate,) up, down: weight and bias
  // Of swiglu without biases, what mistakes would make: one of the two parts of dx; swiglu(h,
  // gate).
  Tensor dx_of_up, dx_of_gate, y_of_swapped;

 private:
  std::vector<Layer*> layers() {
    return sizes_.swiglu ? std::vector<Layer*>{&gate_, &up_, &down_}
                         : std::vector<Layer*>{&up_, &down_};
  }
  exercise::MlpSizes sizes_;
  Linear gate_, up_, down_;
  Dropout dropout_;
};

// Without tensor parallelism there is no group at all: what goes in comes out.
void expect_alone(Tensor (*f_or_g)(Tensor, const Communicator&), const char* what) {
  const Tensor x = numbers({N, C}, "alone");
  Tensor y;
  const std::string text = exercise::error_of([&] { y = f_or_g(x.clone(), Communicator{}); });
  expect(text.empty(),
         fmt::format("{} without a group, an axis that nothing is split over: {}. Send only if "
                     "axis_size(tp_) is more than 1",
                     what, text));
  expect_equal(y, x, fmt::format("{} without a group", what), 1);
}

// 10 outputs or inputs on 4 ranks: part_of must be asked.
void expect_refused(const LinearOptions& whole, const char* what,
                    LinearOptions (*cut)(const LinearOptions&, const Communicator&,
                                         const std::string&)) {
  try {
    run(4, [&](const Communicator& tp) { cut(whole, tp, "layer"); });
    expect(false, fmt::format("10 {} on 4 ranks were accepted, and two of them are on no rank; "
                              "part_of(...) refuses them",
                              what));
  } catch (const RankFailed& error) {
    expect(std::string(error.what()).find("cannot be divided") != std::string::npos, error.what());
  }
}

// What was sent has the label that the profiler shows it under.
void expect_label(const std::vector<RankReport>& reports, const char* label) {
  for (const RankReport& rank : reports) {
    const int64_t all = rank.ledger().total_traffic().bytes_sent,
                  labelled = rank.ledger().traffic(label).bytes_sent;
    expect(all > 0 && all == labelled,
           fmt::format("right, but of the {} bytes that a rank sends {} have the label \"{}\", "
                       "under which the ledger counts them: all_reduce(x, ReduceOp::sum, {{.label "
                       "= \"{}\"}})",
                       all, labelled, label, label));
  }
}

// All that p ranks sent, in numbers, over what one all_reduce of N C numbers sends.
double all_reduces_sent(const std::vector<RankReport>& reports) {
  int64_t bytes = 0;
  for (const RankReport& rank : reports) bytes += rank.ledger().total_traffic().bytes_sent;
  const auto p = static_cast<int64_t>(reports.size());
  return static_cast<double>(bytes) / static_cast<double>(2 * (p - 1) * N * C * 8);
}

}  // namespace

TEST_CASE("20.1: f adds up the ranks' gradients, and sends nothing forward") {
  for (const int p : {1, 2, 3, 4})
    run(p, [&](const Communicator& tp) {
      Tensor expected = Tensor::zeros({N, C}, DType::f64);
      const auto of_rank = [](int r) { return numbers({N, C}, fmt::format("dx {}", r).c_str()); };
      for (int r = 0; r < p; ++r) add_into(expected, of_rank(r));
      std::vector<Suspect> suspects;
      if (p > 1)
        suspects.push_back(
            {"this rank's own dx, not reduced: x was read by every rank's part of A, and the sum "
             "over "
             "ranks equals the serial dx",
             of_rank(tp.rank()).values()});
      expect_equal(solution.f_backward(of_rank(tp.rank()), tp), expected,
                   fmt::format("f's backward on rank {} of {}", tp.rank(), p), p, suspects);
    });
  CHECK(true);  // nothing was thrown
}

TEST_CASE("20.1: what f sends is labelled") {
  expect_label(run(2,
                   [](const Communicator& tp) {
                     solution.f_backward(numbers({N, C}, "dx"), tp);
                   }),
               "tp.backward");
}

TEST_CASE("20.1: without a group f's backward sends nothing: there is nobody to send to") {
  expect_alone(solution.f_backward, "f's backward");
  CHECK(true);  // nothing was thrown
}

TEST_CASE("20.2: g adds up the ranks' parts") {
  for (const int p : {1, 2, 3, 4})
    run(p, [&](const Communicator& tp) {
      Tensor expected = Tensor::zeros({N, C}, DType::f64);
      const auto of_rank = [](int r) { return numbers({N, C}, fmt::format("y {}", r).c_str()); };
      for (int r = 0; r < p; ++r) add_into(expected, of_rank(r));
      std::vector<Suspect> suspects;
      if (p > 1)
        suspects.push_back(
            {"this rank's own part: nothing was added up", of_rank(tp.rank()).values()});
      expect_equal(solution.g_forward(of_rank(tp.rank()), tp), expected,
                   fmt::format("g's forward on rank {} of {}", tp.rank(), p), p, suspects);
    });
  CHECK(true);  // nothing was thrown
}

TEST_CASE("20.2: what g sends is labelled") {
  expect_label(run(2,
                   [](const Communicator& tp) {
                     solution.g_forward(numbers({N, C}, "y"), tp);
                   }),
               "tp.forward");
}

TEST_CASE("20.2: without a group g's forward sends nothing: there is nobody to send to") {
  expect_alone(solution.g_forward, "g's forward");
  CHECK(true);  // nothing was thrown
}

TEST_CASE("20.3: the ranks' columns are the whole matrix's, each once") {
  const LinearOptions whole{C, F, true, normal(0.5)};
  for (const int p : {1, 2, 3, 4})
    run(p, [&](const Communicator& tp) {
      const LinearOptions part = solution.cut_by_columns(whole, tp, "up");
      if (part.inputs != C || part.outputs != F / p)
        fail(
            Where::current(),
            "a cut by columns keeps all {} inputs and takes {} of {} outputs on {} ranks; this one "
            "has {} inputs and {} outputs",
            C, F / p, F, p, part.inputs, part.outputs);
      Linear serial("up", whole, in_f64);
      const LayerPtr own = solution.make_columns("up", whole, in_f64, tp);
      expect_parts(parameters_of(*own), parameters_of(serial), &Parameter::value, "values", p,
                   tp.rank());
    });
  expect_refused({C, 10}, "outputs", solution.cut_by_columns);
}

TEST_CASE("20.4: inputs that do not divide are refused") {
  expect_refused({10, C}, "inputs", solution.cut_by_rows);
}

TEST_CASE("20.4: rows: every rank's part of the sum, and the bias once") {
  const LinearOptions whole{F, C, true, normal(0.5)};
  const Tensor h = numbers({N, F}, "h"), dy = numbers({N, C}, "dy");
  Linear serial("down", whole, in_f64);
  const std::vector<ParameterPtr> all = parameters_of(serial);
  const Outcome expected = forward_backward(serial, h, dy);
  for (const int p : {1, 2, 3, 4})
    run(p, [&](const Communicator& tp) {
      const LinearOptions part = solution.cut_by_rows(whole, tp, "down");
      if (part.inputs != F / p || part.outputs != C)
        fail(Where::current(),
             "a cut by rows takes {} of {} inputs on {} ranks and keeps all {} outputs; this one "
             "has "
             "{} inputs and {} outputs",
             F / p, F, p, C, part.inputs, part.outputs);
      const LayerPtr layer = solution.make_rows("down", whole, in_f64, tp);
      const std::vector<ParameterPtr> own = parameters_of(*layer);
      expect_parts(own, all, &Parameter::value, "values", p, tp.rank());
      const Outcome out = forward_backward(*layer, own_columns(h, p, tp.rank()), dy);
      Tensor extra = expected.y.clone(), none = expected.y.clone();
      for (int64_t i = 0; i < extra.numel(); ++i) {
        const double bias = all[1]->value.item({i % C});
        extra.data<double>()[i] += (p - 1) * bias;
        none.data<double>()[i] -= bias;
      }
      std::vector<Suspect> suspects = {
          {"the sum without the bias: nobody added it", none.values()}};
      if (p > 1)
        suspects.push_back(
            {"the right sum, off by (tp-1) x bias: every rank added the bias, and g "
             "added those up",
             extra.values()});
      expect_equal(out.y, expected.y, fmt::format("y on rank {} of {}", tp.rank(), p), p, suspects);
      expect_equal(out.dx, own_columns(expected.dx, p, tp.rank()),
                   fmt::format("dx on rank {} of {}", tp.rank(), p), p);
      expect_parts(own, all, &Parameter::grad, "the gradient", p, tp.rank());
    });
  CHECK(true);  // nothing was thrown
}

TEST_CASE("20.5: the MLP's output is the serial one, with one all_reduce") {
  const Tensor x = numbers({N, C}, "x"), dy = numbers({N, C}, "dy");
  for (const exercise::MlpSizes& sizes :
       {exercise::MlpSizes{false, C, F, true}, exercise::MlpSizes{true, C, F, false}}) {
    SerialMlp serial(sizes);
    const Tensor expected = serial(x, dy).y;
    for (const int p : {2, 1, 3, 4}) {
      const auto reports = run(p, [&](const Communicator& tp) {
        const LayerPtr mlp = solution.make_mlp("m", sizes, in_f64, tp);
        parameters_of(*mlp);
        std::vector<Suspect> suspects;
        if (p > 1 && !sizes.swiglu)
          suspects.push_back(
              {"what parts of sums give, and gelu(a) + gelu(b) is not gelu(a + b): the "
               "first matrix is cut by columns, so that each rank has whole sums before "
               "the activation",
               serial.rows_first(x, p).values()});
        if (sizes.swiglu)
          suspects.push_back(
              {"what swiglu(h, gate) gives: the gate's output comes first, swiglu(gate, h)",
               serial.y_of_swapped.values()});
        Saved saved(place);
        expect_equal(mlp->forward(x, saved), expected,
                     fmt::format("{} MLP, y on rank {} of {}", sizes.swiglu ? "swiglu" : "gelu",
                                 tp.rank(), p),
                     p, suspects);
      });
      if (p == 1) continue;
      const double sent = all_reduces_sent(reports);
      expect(
          sent >= 1 - 1e-9 && sent <= 1 + 1e-9,
          fmt::format("right, but {}: {} ranks sent {:.3g} times what one all_reduce of y sends. "
                      "Between the two matrices nothing needs to be sent, since rank r's rows of B "
                      "want just the numbers that its columns of A have made",
                      sent > 1 ? "two collectives" : "no collective", p, sent));
    }
  }
}

// The library's forward keeps no more than backward needs.
TEST_CASE("20.5: what the way back needs is kept") {
  const Tensor x = numbers({N, C}, "x");
  for (const bool swiglu : {false, true})
    run(2, [&](const Communicator& tp) {
      const MlpOptions options{swiglu ? MlpKind::swiglu : MlpKind::gelu, C, F};
      Saved kept(place), needed(place);
      solution.make_mlp("m", {swiglu, C, F, true}, in_f64, tp)->forward(x, kept);
      Mlp("m", options, in_f64, tp).forward(x, needed);
      const int64_t missing = needed.bytes() - kept.bytes(), of_h = 8 * N * F / 2;
      if (missing > 0)
        fail(Where::current(), "{} MLP: forward keeps {} bytes, and the way back needs {}. {}",
             swiglu ? "swiglu" : "gelu", kept.bytes(), needed.bytes(),
             missing == of_h ? "As many as h, or gate's output, has: saved.keep(\"h\", h)"
                             : "h and gate's output are kept with saved.keep(\"h\", h)");
    });
  CHECK(true);  // nothing was thrown
}

TEST_CASE("20.6: dx and every gradient are the serial ones, with one all_reduce more") {
  const Tensor x = numbers({N, C}, "x"), dy = numbers({N, C}, "dy");
  for (const exercise::MlpSizes& sizes :
       {exercise::MlpSizes{false, C, F, true}, exercise::MlpSizes{true, C, F, false}}) {
    SerialMlp serial(sizes);
    const Outcome expected = serial(x, dy);
    for (const int p : {1, 2, 3, 4}) {
      std::vector<Numbers> parts(static_cast<size_t>(p));
      std::vector<Tensor> dx(static_cast<size_t>(p));
      const auto reports = run(p, [&](const Communicator& tp) {
        const auto r = static_cast<size_t>(tp.rank());
        const LayerPtr mlp = solution.make_mlp("m", sizes, in_f64, tp);
        const std::vector<ParameterPtr> own = parameters_of(*mlp);
        dx[r] = forward_backward(*mlp, x, dy).dx;
        if (!dx[r].defined()) fail(Where::current(), "backward_input returned an undefined tensor");
        parts[r] = dx[r].values();
        expect_parts(own, serial.whole, &Parameter::grad, "the gradient", p, tp.rank());
      });
      Numbers sum(parts[0].size());
      for (const Numbers& part : parts)
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      const bool unreduced = p > 1 && compare(sum, expected.dx.values(), 1e-12).equal;
      expect(!unreduced,
             "each rank's dx is its own part, not reduced: the sum over ranks equals the serial "
             "dx. f's "
             "backward belongs at the end of backward_input");
      for (int r = 0; r < p; ++r) {
        Clues clues;
        clues.what = fmt::format("dx on rank {} of {}", r, p);
        clues.ranks = p;
        if (sizes.swiglu)
          clues.suspects = {
              {"what gate gives alone: up has begun dx, and add_backward_input adds gate's part",
               serial.dx_of_gate.values()},
              {"what up gives alone: gate has read x too, and adds its part",
               serial.dx_of_up.values()}};
        expect(compare(parts[static_cast<size_t>(r)], expected.dx.values(), 1e-12, clues));
      }
      const double sent = p > 1 ? all_reduces_sent(reports) : 2;
      expect(sent >= 2 - 1e-9 && sent <= 2 + 1e-9,
             fmt::format(
                 "right, but forward and backward sent {:.3g} times what one all_reduce sends; "
                 "2 are enough: with gate and up, one f after both have added to dx",
                 sent));
    }
  }
}

TEST_CASE("20.6: with dropout the gradients are the serial ones too") {
  const Tensor x = numbers({1, N, C}, "x"), dy = numbers({1, N, C}, "dy");
  for (const double dropout : {0.0, 0.3}) {
    const exercise::MlpSizes sizes{false, C, F, true, dropout};
    SerialMlp serial(sizes);
    const Outcome expected = serial(x, dy);
    for (const int p : {1, 2})
      run(p, [&](const Communicator& tp) {
        const LayerPtr mlp = solution.make_mlp("m", sizes, in_f64, tp);
        parameters_of(*mlp);
        Clues clues;
        clues.what = fmt::format("dx on rank {} of {}", tp.rank(), p);
        const Verdict verdict =
            compare(forward_backward(*mlp, x, dy).dx, expected.dx, 1e-12, clues);
        if (!verdict)
          fail(Where::current(), "{}{}",
               dropout > 0 ? "differs only with dropout: what goes back through down_ is dsum, the "
                             "gradient before dropout, and not dy\n    "
                           : "",
               verdict.text);
      });
  }
  CHECK(true);  // nothing was thrown
}
