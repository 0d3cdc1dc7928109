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
int64_t numbers_in(const std::vector<WeightReady>& weights);

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
  int64_t experts() const;  // of these, the experts' of a mixture
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
  void norm();
  void norm_input();
  void norm_weight();
  void add() { walk_.op(add_cost(z_.dtype, z_.n * z_.C)); }

  // ---- linear layers, rows x inputs to rows x outputs on this rank ----
  void linear(int64_t rows, int64_t inputs, int64_t outputs, bool bias);
  void linear_input(int64_t rows, int64_t inputs, int64_t outputs);
  void linear_weight(int64_t rows, int64_t inputs, int64_t outputs, bool bias);
  // A gradient is ready; x and dy are still there.
  void ready(int64_t numbers, bool expert = false);

  // ---- over tp ----
  // With sequence parallelism this rank's tokens become all of them; else nothing.
  void gather();
  // A partial sum of all tokens: summed in place, or into this rank's tokens.
  void reduce();
  // Async-TP: a gather of tokens, or a sum of them, while `matmuls` seconds are spent on each piece
  // that is here. `all`: the last piece too.
  // `outputs`: numbers that all tokens' products have; `early`: gradients' that they add to.
  void gather_in_pieces(double matmuls, int64_t outputs);
  void weigh_in_pieces(double matmuls, int64_t early);
  void reduce_in_pieces(double matmuls);

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
  void go_round(double matmuls, bool all);
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/layer_walk.ipp"
#endif
