// The graded cases of exercise 20. Everything is compared with layers of one rank, in double:
// outputs, dx, every weight and its gradient; and what was sent with what one all_reduce sends.
#include "course/cases/graded_ranks.hpp"
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
         "the last two numbers of a ShardRange are those before the cut",
         own.name, rank, p, part.all_rows(), part.all_columns(), all.all_rows(), all.all_columns());
}

// down and o are cut by rows, all else by columns.
bool is_cut_by_columns(const Parameter& parameter) {
  return parameter.name.find("down") == std::string::npos &&
         parameter.name.find(".o.") == std::string::npos;
}

// On each rank: own parameters (or their gradients) against their parts of the serial layer's.
void expect_parts(const std::vector<ParameterPtr>& own, const std::vector<ParameterPtr>& whole,
                  Tensor Parameter::*pick, const char* what, int p, int rank) {
  for (size_t i = 0; i < own.size(); ++i) {
    const bool by_columns = is_cut_by_columns(*own[i]);
    const ShardRange part = expected_part(*whole[i], by_columns, p, rank);
    const ShardRange first = expected_part(*whole[i], by_columns, p, 0);
    const Tensor &mine = (*own[i]).*pick, &all = (*whole[i]).*pick;
    if (mine.numel() != part.rows * part.columns)
      fail(Where::current(), "{} on rank {} of {} is {}, expected {} numbers of {}", own[i]->name,
           rank, p, mine.describe(), part.rows * part.columns, all.describe());
    if (own[i]->range.is_whole() != part.is_whole())
      fail(Where::current(),
           "{} on rank {} of {} takes itself for {}: the last two numbers of a ShardRange say how "
           "large the whole layer is",
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

// An MLP of one rank, its gradients, and what mistakes make of it.
MlpOptions mlp_options_of(MlpKind kind, double dropout = 0) {
  return {kind, C, F, kind == MlpKind::gelu, dropout, normal(0.5), normal(0.5)};
}

// 10 outputs or inputs on 4 ranks: part_of must be asked.
void expect_refused(const LinearOptions& whole, const char* what,
                    exercise::Call<void(Linear&, const Communicator&)> cut) {
  try {
    run(4, [&](const Communicator& tp) {
      Linear layer("layer", whole);
      cut(layer, tp);
    });
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

TEST_CASE("20.3: the ranks' columns are the whole matrix's, each once") {
  const LinearOptions whole{C, F, true, normal(0.5)};
  for (const int p : {1, 2, 3, 4})
    run(p, [&](const Communicator& tp) {
      Linear serial("up", whole, in_f64), own("up", whole, in_f64);
      const std::vector<ParameterPtr> all = parameters_of(serial), parts = parameters_of(own);
      solution.cut_by_columns(own, tp);
      expect_parts(parts, all, &Parameter::value, "values", p, tp.rank());
    });
  expect_refused({C, 10}, "outputs", solution.cut_by_columns);
}

TEST_CASE("20.3: a layer without a bias") {
  for (const int p : {1, 2})
    run(p, [&](const Communicator& tp) {
      Linear layer("up", {C, F, false, normal(0.5)}, in_f64);
      solution.cut_by_columns(layer, tp);
      if (layer.weight_parameter().value.dim(0) != F / p)
        fail(Where::current(), "up.weight of a layer without a bias is {} on rank {} of {}",
             layer.weight_parameter().value.describe(), tp.rank(), p);
    });
  CHECK(true);  // nothing was thrown
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
      Linear cut("down", whole, in_f64);
      const std::vector<ParameterPtr> own = parameters_of(cut);
      solution.cut_by_rows(cut, tp);
      const LayerPtr layer = solution.with_g(std::move(cut), tp);
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

TEST_CASE("20.5: the MLP cut: y, dx and every gradient, with one all_reduce each way") {
  const Tensor x = numbers({N, C}, "x"), dy = numbers({N, C}, "dy");
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu}) {
    const MlpOptions options = mlp_options_of(kind);
    Mlp serial("m", options, in_f64);
    const std::vector<ParameterPtr> whole = parameters_of(serial);
    const Outcome expected = forward_backward(serial, x, dy);
    for (const int p : {2, 1, 3, 4}) {
      std::vector<Outcome> made(static_cast<size_t>(p));
      const auto reports = run(p, [&](const Communicator& tp) {
        Mlp mlp("m", options, in_f64);
        const std::vector<ParameterPtr> own = parameters_of(mlp);
        solution.cut_mlp(mlp, tp);
        expect_parts(own, whole, &Parameter::value, "values", p, tp.rank());
        made[static_cast<size_t>(tp.rank())] = forward_backward(mlp, x, dy);
        expect_parts(own, whole, &Parameter::grad, "the gradient", p, tp.rank());
      });
      Tensor y = Tensor::zeros({N, C}, DType::f64), dx = Tensor::zeros({N, C}, DType::f64);
      for (const Outcome& each : made) add_into(y, each.y), add_into(dx, each.dx);
      const auto adds_up = [&](const Tensor& sum, const Tensor& whole_sum) {
        return p > 1 && compare(sum, whole_sum, 1e-12).equal;
      };
      expect(!adds_up(y, expected.y),
             "each rank's y is its own part of every sum, and nobody added them up: g stands "
             "behind down, a RowParallelLinear");
      expect(!adds_up(dx, expected.dx),
             "each rank's dx is its own part, not reduced: the sum over ranks equals the serial "
             "dx. f stands in front of what reads x, a ColumnParallel");
      for (int r = 0; r < p; ++r) {
        const Outcome& of_rank = made[static_cast<size_t>(r)];
        expect_equal(of_rank.y, expected.y, fmt::format("y on rank {} of {}", r, p), p);
        expect_equal(of_rank.dx, expected.dx, fmt::format("dx on rank {} of {}", r, p), p);
      }
      const double sent = p > 1 ? all_reduces_sent(reports) : 2;
      expect(sent >= 2 - 1e-9 && sent <= 2 + 1e-9,
             fmt::format(
                 "right, but forward and backward sent {:.3g} times what one all_reduce sends; "
                 "2 are enough: gate and up have one f, in front of both",
                 sent));
    }
  }
}

namespace {

// 12 heads, for 2, 3 and 4 ranks.
TransformerConfig twelve_heads(AttentionKind kind, TransformerConfig c) {
  c.attention = kind, c.deviation = 0.5, c.dtype = DType::f64, c.seed = 1;
  return c;
}

// Attention on 1 to 4 ranks against one rank's. `why` is what another y comes from.
void expect_cut_attention(const TransformerConfig& c, const char* why) {
  const Tensor x = numbers({2, N, c.width}, "x"), dy = numbers({2, N, c.width}, "dy");
  Attention serial("a", c);
  const std::vector<ParameterPtr> whole = parameters_of(serial);
  const Outcome expected = forward_backward(serial, x, dy);
  for (const int p : {1, 2, 3, 4})
    run(p, [&](const Communicator& tp) {
      Attention attention("a", c);
      const std::vector<ParameterPtr> own = parameters_of(attention);
      solution.cut_attention(attention, tp);
      expect_parts(own, whole, &Parameter::value, "values", p, tp.rank());
      const Outcome out = forward_backward(attention, x, dy);
      const std::string rank = fmt::format("on rank {} of {}", tp.rank(), p);
      Clues clues;
      clues.what = "y " + rank;
      if (const Verdict verdict = compare(out.y, expected.y, 1e-12, clues); !verdict)
        fail(Where::current(), "{}{}", why, verdict.text);
      expect_equal(out.dx, expected.dx, "dx " + rank, p);
      expect_parts(own, whole, &Parameter::grad, "the gradient", p, tp.rank());
    });
}

}  // namespace

TEST_CASE("20.6: attention cut: whole heads, y, dx and every gradient") {
  TransformerConfig c = gpt2_config(1, 24, 12, 8, 1);
  expect_cut_attention(twelve_heads(AttentionKind::blockwise, c), "");
  expect_cut_attention(twelve_heads(AttentionKind::plain, c), "");
  c.attention_dropout = 0.4;
  expect_cut_attention(twelve_heads(AttentionKind::plain, c),
                       "differs only with dropout of the probabilities: a head's mask is that of "
                       "its number in the whole layer, first_head and on of all_heads\n    ");
  CHECK(true);  // nothing was thrown
}

TEST_CASE("20.6: a head's slope is that of its number in the whole layer") {
  TransformerConfig c = llama_config(1, 24, 8, 12, 12, 8, 1);
  c.mask.alibi = true;
  expect_cut_attention(twelve_heads(AttentionKind::flex, c),
                       "flex attention with ALiBi: each head has a slope of its own, by its number "
                       "in the whole layer: FlexCore's first_head and on\n    ");
  CHECK(true);  // nothing was thrown
}

TEST_CASE("20.6: half a head is refused, also one of keys") {
  const TransformerConfig c = llama_config(1, 16, 8, 4, 2, 8, 1);  // 4 heads share 2 of keys
  const auto said = [&](int ranks) {
    return exercise::error_of([&] {
      run(ranks, [&](const Communicator& tp) {
        Attention attention("a", c);
        solution.cut_attention(attention, tp);
      });
    });
  };
  expect(said(8).find("4 heads cannot be divided") != std::string::npos,
         "4 heads on 8 ranks: part_of(c.heads, ...) refuses them. It said: " + said(8));
  expect(said(4).find("2 key/value heads cannot be divided") != std::string::npos,
         "2 key/value heads on 4 ranks were cut into halves: their width divides, they do not. "
         "part_of(c.kv_heads, ...) refuses them. It said: " +
             said(4));
}
