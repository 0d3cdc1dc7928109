// The bodies of plan/layer_walk.hpp.
#pragma once

#include "yotta/plan/layer_walk.hpp"

#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/norm.hpp"
#include "yotta/parallel/async_tp.hpp"

namespace yotta {

YOTTA_INLINE void LayerWalk::ready(int64_t numbers, bool expert) {
  figures_.weights.push_back({numbers, expert});
  made_ += sums(numbers);
  figures_.growing_peak = std::max(figures_.growing_peak, walk_.live() + made_ + early_);
  figures_.passing_peak = std::max(figures_.passing_peak, walk_.live() + sums(numbers) + early_);
}

YOTTA_INLINE int64_t numbers_in(const std::vector<WeightReady>& weights) {
  int64_t sum = 0;
  for (const WeightReady& each : weights) sum += each.numbers;
  return sum;
}
YOTTA_INLINE int64_t LayerFigures::experts() const {
  int64_t sum = 0;
  for (const WeightReady& each : weights) sum += each.expert ? each.numbers : 0;
  return sum;
}

// ---- norms ----

YOTTA_INLINE void LayerWalk::norm() {
  walk_.op(z_.is_gpt2 ? layernorm_cost(z_.dtype, z_.n, z_.C) : rmsnorm_cost(z_.dtype, z_.n, z_.C));
  walk_.hold(stream() + statistics());
}
YOTTA_INLINE void LayerWalk::norm_input() {
  walk_.op(z_.is_gpt2 ? layernorm_backward_input_cost(z_.dtype, z_.n, z_.C)
                      : rmsnorm_backward_input_cost(z_.dtype, z_.n, z_.C));
  walk_.hold(stream());
}
YOTTA_INLINE void LayerWalk::norm_weight() {
  walk_.op(z_.is_gpt2 ? layernorm_backward_weight_cost(z_.dtype, z_.n, z_.C)
                      : rmsnorm_backward_weight_cost(z_.dtype, z_.n, z_.C));
  for (int vector = 0; vector < (z_.is_gpt2 ? 2 : 1); ++vector) ready(z_.C);
  walk_.drop(2 * stream() + statistics());  // x, dy
}

// ---- linear layers ----

YOTTA_INLINE void LayerWalk::linear(int64_t rows, int64_t inputs, int64_t outputs, bool bias) {
  walk_.op(linear_cost("linear", z_.dtype, rows, outputs, inputs));
  if (bias) walk_.op(add_bias_cost(z_.dtype, rows, outputs));
  walk_.hold(bytes(rows * outputs));
}
YOTTA_INLINE void LayerWalk::linear_input(int64_t rows, int64_t inputs, int64_t outputs) {
  walk_.op(linear_cost("linear_backward_input", z_.dtype, rows, inputs, outputs));
}
YOTTA_INLINE void LayerWalk::linear_weight(int64_t rows, int64_t inputs, int64_t outputs,
                                           bool bias) {
  walk_.op(linear_cost("linear_backward_weight", z_.dtype, outputs, inputs, rows));
  if (bias) {
    walk_.op(bias_backward_cost(z_.dtype, rows, outputs));
    ready(outputs);  // before the weight, as in a bucket
  }
  ready(inputs * outputs);
}

// ---- over tp ----

YOTTA_INLINE void LayerWalk::gather() {
  if (!z_.shares_tokens) return;
  walk_.all_gather(Exposed::tp, groups_.tp, whole());
  walk_.hold(whole());
}
YOTTA_INLINE void LayerWalk::reduce() {
  walk_.touch(ring_scratch(groups_.tp, whole()) + (z_.shares_tokens ? stream() : 0));
  if (!z_.shares_tokens) return walk_.all_reduce(Exposed::tp, groups_.tp, whole());
  walk_.reduce_scatter(Exposed::tp, groups_.tp, whole());
  walk_.hold(stream());
  walk_.drop(whole());
}

namespace detail {
// Computes while a piece makes a hop in one direction, or in both by one port.
inline void hop_beside(StepWalk& walk, const PlanGroup& group, double piece, int directions,
                       double here) {
  const double latency = directions == 0 ? 0 : group.link.alpha;
  walk.beside(Exposed::tp, here, latency, directions * piece * group.link.beta);
}
}  // namespace detail

YOTTA_INLINE void LayerWalk::gather_in_pieces(double matmuls, int64_t outputs) {
  go_round(matmuls, true);
  walk_.hold(bytes(z_.N * outputs));
  walk_.touch(bytes(z_.n * outputs));
}
YOTTA_INLINE void LayerWalk::weigh_in_pieces(double matmuls, int64_t early) {
  go_round(matmuls, false);
  early_ += sums(early);
}

// The steps of all_gather_in_pieces.
YOTTA_INLINE void LayerWalk::go_round(double matmuls, bool all) {
  const Reach reach = reach_of(z_.tp, z_.pieces);
  for (int step = 0; step <= reach.right; ++step) {
    const int pieces = 0 < step && step <= reach.left ? 2 : 1;
    const double here = matmuls * (pieces - (!all && step == reach.right ? 1 : 0));
    detail::hop_beside(walk_, groups_.tp, stream(), (step < reach.right) + (step < reach.left),
                       here);
  }
  walk_.hold(whole());
}

// The steps of reduce_scatter_in_pieces.
YOTTA_INLINE void LayerWalk::reduce_in_pieces(double matmuls) {
  const Reach reach = reach_of(z_.tp, z_.pieces);
  const double sum = walk_.seconds_of(add_cost(z_.dtype, z_.n * z_.C));
  int directions = 0;  // in which sums are on their way
  for (int d = reach.right; d >= 0; --d) {
    const double here = (0 < d && d <= reach.left ? 2 : 1) * matmuls;
    detail::hop_beside(walk_, groups_.tp, stream(), directions, here);
    walk_.compute(((d < reach.right) + (d < reach.left)) * sum);
    directions = 1 + (d <= reach.left);
  }
  walk_.touch(4 * stream());
  walk_.hold(stream());
}

}  // namespace yotta
