// Block: one layer of a transformer. Two halves, each added to the residual stream.
//
//     x ──┬─────────────────────> + ── h ──┬───────────────────> + ──> y
//         └─> norm1 ─> attention ─┘        └─> norm2 ─> mlp ─────┘
//
//     backward: a sum hands its dy to both arms, so
//     dh = dy + (mlp's arm), dx = dh + (attention's arm)
//
// x and y are (B, T, C), the same on all ranks of tp. All of them hold and compute the norms. With
// sequence parallelism x and y are each rank's tokens (n, C), for the norms and both sums. The
// stream itself is never normalised (pre-norm), which is why deep stacks train.
// In a bf16 model the stream is bf16, too: each sum is computed in f32 and rounded. That is
// Megatron-LM's default (its option fp32_residual_connection keeps the stream in f32), and halves
// what checkpoints keep and what pipeline stages send.
#pragma once

#include <memory>
#include <optional>

#include "yotta/nn/norm_layer.hpp"
#include "yotta/parallel/async_mlp.hpp"
#include "yotta/parallel/attention_layer.hpp"
#include "yotta/parallel/expert_parallel.hpp"

namespace yotta {

struct BlockOptions {
  NormOptions norm;
  AttentionOptions attention;
  MlpOptions mlp;
  std::optional<MoeOptions> mixture = {};  // in place of mlp
};

class Block : public Composite {
 public:
  Block(std::string name, const BlockOptions& options, const ParameterOptions& made = {},
        const LayerAxes& axes = {})
      : Composite(std::move(name)),
        norm1_(this->name() + ".norm1", options.norm, made),
        attention_(this->name() + ".attention", options.attention, made, axes),
        norm2_(this->name() + ".norm2", options.norm, made),
        mlp_(make_mlp(this->name() + ".mlp", options, made, axes)) {}

  // x (B, T, C) -> (B, T, C); with sequence parallelism this rank's tokens, (n, C)
  Tensor forward(const Tensor& x, Saved& saved) override {
    Tensor h = run(attention_, run(norm1_, x, saved), saved);
    add_into(h, x);
    Tensor y = run(*mlp_, run(norm2_, h, saved), saved);
    add_into(y, h);
    return y;
  }

  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    Tensor dh = run_back(norm2_, run_back(*mlp_, dy, saved), saved);
    add_into(dh, dy);
    Tensor dx = run_back(norm1_, run_back(attention_, dh, saved), saved);
    add_into(dx, dh);
    return dx;
  }

 protected:
  std::vector<Layer*> parts() override { return {&norm1_, &attention_, &norm2_, mlp_.get()}; }

 private:
  static LayerPtr make_mlp(const std::string& name, const BlockOptions& o,
                           const ParameterOptions& made, const LayerAxes& axes) {
    if (!o.mixture) return std::make_unique<AsyncMlp>(name, o.mlp, made, axes.tp, axes.sequence);
    SequenceCut cut = axes.sequence;
    cut.pieces = Pieces::none;  // experts' tokens travel whole
    return std::make_unique<MoeMlp>(name, *o.mixture, made,
                                    MoeAxes{axes.tp, axes.ep, axes.routed, cut});
  }

  Norm norm1_;
  Attention attention_;
  Norm norm2_;
  LayerPtr mlp_;  // AsyncMlp, or MoeMlp
};

}  // namespace yotta
