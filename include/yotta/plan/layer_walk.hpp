// Layer walk: the pieces of which a transformer's layers are made, as a rank pays for them.
//
//     F    forward                   norm, linear, ..., and messages over tp
//     I    gradients of what flows   the same pieces, the last one first
//     W    gradients of weights      one linear_weight per matrix; each says when it is ready
//
// Each piece charges what the code of that name charges (nn/linear.hpp, nn/norm_layer.hpp,
// parallel/tensor_parallel.hpp, parallel/async_tp_layers.hpp), and holds what it keeps until its W.
// block_walk.hpp puts the pieces in the order of a block, an embedding and a head.
//
// Letters: N tokens of a microbatch on a rank of cp, n those of a rank of tp, C width, H heads, K
// key/value heads, d head size, F feed-forward width, V vocabulary.
#pragma once

#include <vector>

#include "yotta/nn/elementwise.hpp"
#include "yotta/plan/layer_sizes.hpp"
#include "yotta/plan/step_walk.hpp"

namespace yotta {

// A parameter whose gradient is ready.
struct WeightReady {
  int64_t numbers;
  bool expert = false;  // of a mixture
  bool table = false;   // of tokens, as embedding or as output matrix
};
YOTTA_API int64_t numbers_in(const std::vector<WeightReady>& weights);

struct LayerFigures {
  PartTime forward, input, weight;  // F, I, W
  double saved = 0, kept = 0;       // bytes from F to I; from I to W
  double in = 0, out = 0;           // bytes of what flows in and out, forward
  double forward_peak = 0, input_peak = 0, weight_peak = 0;  // above what was there before
  // The same of W if gradients are made in it, and stay; or if each one lasts for a moment.
  double growing_peak = 0, passing_peak = 0;
  bool again = false;     // checkpointed: W is a part of I, and has these peaks there
  double again_kept = 0;  // and begins with these bytes
  int64_t table = 0;      // numbers of a tied table: their gradient begins here, and ends elsewhere
  std::vector<WeightReady> weights = {};  // in the order of W

  int64_t parameters() const { return numbers_in(weights); }
  YOTTA_API int64_t experts() const;  // of these, the experts' of a mixture
};

class LayerWalk {
 public:
  LayerWalk(const LayerSizes& z, const PlanGroups& groups, const StepWalk& walk)
      : z_(z), groups_(groups), walk_(walk) {}

  double bytes(int64_t numbers) const { return static_cast<double>(numbers) * z_.width; }
  double sums(int64_t numbers) const { return static_cast<double>(numbers) * z_.wide; }
  double stream() const { return bytes(z_.n * z_.C); }  // what flows between layers
  double whole() const { return bytes(z_.N * z_.C); }   // the same of all tokens
  double statistics() const { return sums((z_.is_gpt2 ? 2 : 1) * z_.n); }
  bool in_pieces() const { return z_.pieces != Pieces::none; }

  // ---- norms and the residual stream ----
  YOTTA_API void norm();
  YOTTA_API void norm_input();
  YOTTA_API void norm_weight();
  void add() { walk_.op(add_cost(z_.dtype, z_.n * z_.C)); }

  // ---- linear layers, rows x inputs to rows x outputs on this rank ----
  YOTTA_API void linear(int64_t rows, int64_t inputs, int64_t outputs, bool bias);
  YOTTA_API void linear_input(int64_t rows, int64_t inputs, int64_t outputs);
  YOTTA_API void linear_weight(int64_t rows, int64_t inputs, int64_t outputs, bool bias);
  // A gradient is ready; x and dy are still there.
  YOTTA_API void ready(int64_t numbers, bool expert = false);

  // ---- over tp ----
  // With sequence parallelism this rank's tokens become all of them; else nothing.
  YOTTA_API void gather();
  // A partial sum of all tokens: summed in place, or into this rank's tokens.
  YOTTA_API void reduce();
  // Async-TP: a gather of tokens, or a sum of them, while `matmuls` seconds are spent on each piece
  // that is here. `all`: the last piece too.
  // `outputs`: numbers that all tokens' products have; `early`: gradients' that they add to.
  YOTTA_API void gather_in_pieces(double matmuls, int64_t outputs);
  YOTTA_API void weigh_in_pieces(double matmuls, int64_t early);
  YOTTA_API void reduce_in_pieces(double matmuls);

  // ---- the ends of F, I and W ----
  void end_forward(double flow_in, double flow_out) {
    figures_.in = flow_in, figures_.out = flow_out;
    figures_.forward = walk_.take_time();
    figures_.saved = walk_.live() + flow_in - flow_out;
    figures_.forward_peak = walk_.peak();
    walk_.restart_memory();
  }
  void end_input() {
    figures_.input = walk_.take_time();
    figures_.kept = figures_.saved + walk_.live() + figures_.out - figures_.in;
    figures_.input_peak = walk_.peak();
    walk_.restart_memory();
  }
  LayerFigures end_weight() {
    figures_.weight = walk_.take_time();
    figures_.weight_peak = walk_.peak();
    figures_.growing_peak = std::max(figures_.growing_peak, walk_.peak());
    figures_.passing_peak = std::max(figures_.passing_peak, walk_.peak());
    return std::move(figures_);
  }

 protected:
  const LayerSizes& z_;
  const PlanGroups& groups_;
  StepWalk walk_;
  LayerFigures figures_;
  double made_ = 0, early_ = 0;  // bytes of gradients in W; of those that are not ready yet

 private:
  YOTTA_API void go_round(double matmuls, bool all);
};

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/norm.hpp"
#include "yotta/parallel/async_tp.hpp"

namespace yotta {

void LayerWalk::ready(int64_t numbers, bool expert) {
  figures_.weights.push_back({numbers, expert});
  made_ += sums(numbers);
  figures_.growing_peak = std::max(figures_.growing_peak, walk_.live() + made_ + early_);
  figures_.passing_peak = std::max(figures_.passing_peak, walk_.live() + sums(numbers) + early_);
}

int64_t numbers_in(const std::vector<WeightReady>& weights) {
  int64_t sum = 0;
  for (const WeightReady& each : weights) sum += each.numbers;
  return sum;
}
int64_t LayerFigures::experts() const {
  int64_t sum = 0;
  for (const WeightReady& each : weights) sum += each.expert ? each.numbers : 0;
  return sum;
}

// ---- norms ----

void LayerWalk::norm() {
  walk_.op(z_.is_gpt2 ? layernorm_cost(z_.dtype, z_.n, z_.C) : rmsnorm_cost(z_.dtype, z_.n, z_.C));
  walk_.hold(stream() + statistics());
}
void LayerWalk::norm_input() {
  walk_.op(z_.is_gpt2 ? layernorm_backward_input_cost(z_.dtype, z_.n, z_.C)
                      : rmsnorm_backward_input_cost(z_.dtype, z_.n, z_.C));
  walk_.hold(stream());
}
void LayerWalk::norm_weight() {
  walk_.op(z_.is_gpt2 ? layernorm_backward_weight_cost(z_.dtype, z_.n, z_.C)
                      : rmsnorm_backward_weight_cost(z_.dtype, z_.n, z_.C));
  for (int vector = 0; vector < (z_.is_gpt2 ? 2 : 1); ++vector) ready(z_.C);
  walk_.drop(2 * stream() + statistics());  // x, dy
}

// ---- linear layers ----

void LayerWalk::linear(int64_t rows, int64_t inputs, int64_t outputs, bool bias) {
  walk_.op(linear_cost("linear", z_.dtype, rows, outputs, inputs));
  if (bias) walk_.op(add_bias_cost(z_.dtype, rows, outputs));
  walk_.hold(bytes(rows * outputs));
}
void LayerWalk::linear_input(int64_t rows, int64_t inputs, int64_t outputs) {
  walk_.op(linear_cost("linear_backward_input", z_.dtype, rows, inputs, outputs));
}
void LayerWalk::linear_weight(int64_t rows, int64_t inputs, int64_t outputs, bool bias) {
  walk_.op(linear_cost("linear_backward_weight", z_.dtype, outputs, inputs, rows));
  if (bias) {
    walk_.op(bias_backward_cost(z_.dtype, rows, outputs));
    ready(outputs);  // before the weight, as in a bucket
  }
  ready(inputs * outputs);
}

// ---- over tp ----

void LayerWalk::gather() {
  if (!z_.shares_tokens) return;
  walk_.all_gather(Exposed::tp, groups_.tp, whole());
  walk_.hold(whole());
}
void LayerWalk::reduce() {
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

void LayerWalk::gather_in_pieces(double matmuls, int64_t outputs) {
  go_round(matmuls, true);
  walk_.hold(bytes(z_.N * outputs));
  walk_.touch(bytes(z_.n * outputs));
}
void LayerWalk::weigh_in_pieces(double matmuls, int64_t early) {
  go_round(matmuls, false);
  early_ += sums(early);
}

// The steps of all_gather_in_pieces.
void LayerWalk::go_round(double matmuls, bool all) {
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
void LayerWalk::reduce_in_pieces(double matmuls) {
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
#endif  // YOTTA_BODIES
