// Block walk: what a block costs a rank, forward and backward.
//
//     F    norm, gather over tp, q k v, rope, attention (over cp), o, sum over tp, add,
//          norm, gather, up and gate, swiglu, down, sum, add
//     I    the same way back
//     W    down, up, gate, norm, o, v, k, q, norm
//
// They go through the code of model/block.hpp, parallel/attention_layer.hpp, parallel/async_mlp.hpp
// line by line; attention_walk.hpp has attention itself.
// Contract: blockwise attention; no dropout. Letters: as in layer_walk.hpp.
#pragma once

#include "yotta/plan/layer_walk.hpp"

namespace yotta {

YOTTA_API LayerFigures block_figures(const LayerSizes& z, const PlanGroups& groups,
                                     const StepWalk& walk);
// Its forward pass is run again in I, which does W too.
YOTTA_API LayerFigures checkpointed_figures(const LayerFigures& block);
}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <numeric>

#include "yotta/nn/activations.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/rope.hpp"
#include "yotta/plan/attention_walk.hpp"

namespace yotta {

namespace detail {

class BlockWalk : public LayerWalk {
 public:
  using LayerWalk::LayerWalk;

  LayerFigures figures() {
    attention_forward();
    mlp_forward();
    end_forward(stream(), stream());
    mlp_input();
    attention_input();
    end_input();
    mlp_weight();
    attention_weight();
    return end_weight();
  }

 private:
  int64_t queries() const { return z_.H * z_.d; }
  int64_t keys() const { return z_.K * z_.d; }
  double heads(int64_t size) const { return bytes(z_.N * size); }  // all tokens'
  bool drops_gathered() const { return z_.shares_tokens && !z_.keeps_gathered; }

  double matmul(const char* name, int64_t rows, int64_t outputs, int64_t inputs) const {
    return walk_.seconds_of(linear_cost(name, z_.dtype, rows, outputs, inputs));
  }
  double with_bias(int64_t outputs) const {
    return z_.is_gpt2 ? walk_.seconds_of(add_bias_cost(z_.dtype, z_.n, outputs)) : 0;
  }

  // Layers that read one gathered x.
  void columns(std::initializer_list<int64_t> outputs) {
    double piece = 0;
    for (const int64_t each : outputs)
      piece += matmul("linear", z_.n, each, z_.C) + with_bias(each);
    if (in_pieces())
      return gather_in_pieces(piece, std::accumulate(outputs.begin(), outputs.end(), int64_t{0}));
    gather();
    for (const int64_t each : outputs) linear(z_.N, z_.C, each, z_.is_gpt2);
  }
  void columns_input(std::initializer_list<int64_t> outputs) {
    double piece = 0;
    for (const int64_t each : outputs) piece += matmul("linear_backward_input", z_.n, z_.C, each);
    if (in_pieces()) return reduce_in_pieces(piece);
    for (const int64_t each : outputs) linear_input(z_.N, z_.C, each);
    walk_.hold(whole());
    if (z_.tp > 1) reduce();
  }
  void gather_again(std::initializer_list<int64_t> outputs) {
    if (!drops_gathered()) return;
    double piece = 0;
    for (const int64_t each : outputs)
      piece += matmul("linear_backward_weight", z_.n, each, z_.C) +
               (z_.is_gpt2 ? walk_.seconds_of(bias_backward_cost(z_.dtype, z_.n, each)) : 0);
    if (!in_pieces()) return gather();
    weigh_in_pieces(piece, z_.C * std::accumulate(outputs.begin(), outputs.end(), int64_t{0}));
  }
  // A matrix whose gradient was made by pieces, but for the last of them.
  void column_weight(int64_t outputs) {
    const bool has_begun = in_pieces() && drops_gathered();
    if (has_begun) early_ -= sums(z_.C * outputs);
    linear_weight(has_begun ? z_.n : z_.N, z_.C, outputs, z_.is_gpt2);
    walk_.drop(heads(outputs));
  }

  // A layer whose sums all ranks of tp have parts of.
  void row(int64_t inputs) {
    if (in_pieces())
      return reduce_in_pieces(matmul("linear", z_.n, z_.C, inputs) + with_bias(z_.C));
    linear(z_.N, inputs, z_.C, z_.is_gpt2);
    if (z_.tp > 1) reduce();
  }
  void row_input(int64_t inputs) {
    const double piece = matmul("linear_backward_input", z_.n, inputs, z_.C);
    if (in_pieces()) return gather_in_pieces(piece, inputs);
    gather();
    linear_input(z_.N, inputs, z_.C);
    walk_.hold(heads(inputs));
  }

  void attention_forward() {
    norm();
    columns({queries(), keys(), keys()});
    if (!z_.is_gpt2) {
      walk_.op(rope_cost("rope", z_.dtype, z_.N * queries()));
      walk_.op(rope_cost("rope", z_.dtype, z_.N * keys()));
      walk_.hold(heads(queries() + keys()));
    }
    if (drops_gathered()) walk_.drop(whole());
    attend(z_, groups_.cp, walk_);
    row(queries());
    if (z_.shares_tokens && z_.keeps_gathered) walk_.drop(stream());  // what norm made
    if (!z_.is_gpt2) walk_.drop(heads(queries() + keys()));           // before rope
    add();
  }
  void mlp_forward() {
    norm();
    if (z_.is_gpt2) columns({z_.F});
    if (!z_.is_gpt2) columns({z_.F, z_.F});
    walk_.op(z_.is_gpt2 ? gelu_cost(z_.dtype, z_.N * z_.F) : swiglu_cost(z_.dtype, z_.N * z_.F));
    walk_.hold(heads(z_.F));
    row(z_.F);
    if (z_.shares_tokens) walk_.drop(z_.keeps_gathered ? stream() : whole());
    add();
  }

  void mlp_input() {
    const int inner = z_.is_gpt2 ? 1 : 2;
    row_input(z_.F);
    walk_.op(z_.is_gpt2 ? gelu_backward_cost(z_.dtype, z_.N * z_.F)
                        : swiglu_backward_cost(z_.dtype, z_.N * z_.F));
    walk_.hold(inner * heads(z_.F));
    if (!z_.is_gpt2) walk_.drop(heads(z_.F));  // gate
    if (z_.is_gpt2) columns_input({z_.F});
    if (!z_.is_gpt2) columns_input({z_.F, z_.F});
    walk_.drop(2 * heads(z_.F));  // h, and the gradient of what down read
    norm_input();
    add();
  }
  void attention_input() {
    row_input(queries());
    attend_back(z_, groups_.cp, walk_);
    if (!z_.is_gpt2) {
      walk_.op(rope_cost("rope_backward", z_.dtype, z_.N * queries()));
      walk_.op(rope_cost("rope_backward", z_.dtype, z_.N * keys()));
      walk_.touch(heads(queries()));
    }
    columns_input({queries(), keys(), keys()});
    walk_.drop(heads(queries()));  // the gradient of what o read
    norm_input();
    add();
    if (z_.shares_tokens) walk_.drop(stream());  // between the two halves; o has it gathered
  }

  void mlp_weight() {
    if (z_.is_gpt2) gather_again({z_.F});
    if (!z_.is_gpt2) gather_again({z_.F, z_.F});
    linear_weight(z_.N, z_.F, z_.C, z_.is_gpt2);
    walk_.drop(heads(z_.F) + whole());
    for (int matrix = 0; matrix < (z_.is_gpt2 ? 1 : 2); ++matrix) column_weight(z_.F);
    walk_.drop(z_.shares_tokens && !z_.keeps_gathered ? whole() + stream() : whole());
    norm_weight();
  }
  void attention_weight() {
    gather_again({queries(), keys(), keys()});
    linear_weight(z_.N, queries(), z_.C, z_.is_gpt2);
    walk_.drop(heads(queries()) + whole());
    for (const int64_t outputs : {keys(), keys(), queries()}) column_weight(outputs);
    norm_weight();
  }
};

}  // namespace detail

LayerFigures block_figures(const LayerSizes& z, const PlanGroups& groups, const StepWalk& walk) {
  return detail::BlockWalk(z, groups, walk).figures();
}

LayerFigures checkpointed_figures(const LayerFigures& block) {
  LayerFigures once = block;
  once.saved = once.in;
  once.kept = 0;
  once.input += block.forward;
  once.input += block.weight;
  once.weight = {};
  const double kept = block.saved - block.in;  // beside x, while it runs again
  once.input_peak = std::max(block.forward_peak, kept + block.input_peak);
  const double again = block.kept - block.in;
  once.again = true, once.again_kept = again;
  once.input_peak = std::max(once.input_peak, again + block.weight_peak);
  once.growing_peak += again, once.passing_peak += again;
  once.weight_peak = 0;
  return once;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
