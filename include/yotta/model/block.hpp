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
// Of the 32 bytes that such a block of Llama 3 405B keeps for each number of x, 10 are outputs of
// norms and of the activation: drop_pointwise() drops them.
#pragma once

#include <memory>
#include <optional>

#include "yotta/nn/activations.hpp"
#include "yotta/nn/norm_layer.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
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

class Block : public Composite, public PointwiseParts {
 public:
  Block(std::string name, const BlockOptions& options, const ParameterOptions& made = {},
        const LayerAxes& axes = {})
      : Composite(std::move(name)),
        norm1_(this->name() + ".norm1", options.norm, made),
        attention_(this->name() + ".attention", options.attention, made, axes),
        norm2_(this->name() + ".norm2", options.norm, made),
        mlp_(make_mlp(this->name() + ".mlp", options, made, axes)),
        dtype_(made.dtype),
        cuts_(cuts_tokens(axes.tp, axes.sequence)),
        keeps_gathered_(cuts_ && axes.sequence.keeps_gathered),
        has_experts_(options.mixture) {}

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

  // What both norms give to their readers, and what the activation gives to mlp.down. What was
  // gathered stays, as messages would make it again, and so does all that experts keep.
  void drop_pointwise(Saved& saved) override {
    for (const bool second : {false, true})
      for (const Slot& each : norm_slots(second, saved)) each.in->take(each.name);
    if (!has_experts_) down(saved).take("x");
  }
  void make_pointwise(Saved& saved) override {
    for (const bool second : {false, true}) {
      const std::vector<Slot> slots = norm_slots(second, saved);
      if (slots.empty()) continue;
      Norm& norm = second ? norm2_ : norm1_;
      Saved again;
      const Tensor y = norm.forward(saved.child(norm.name()).get("x"), again);
      for (const Slot& each : slots) each.in->keep(each.name, as_type(y, dtype_));
    }
    if (has_experts_) return;
    Saved& mlp = saved.child(mlp_->name());
    const Tensor& h = mlp.get("h");
    const Tensor active = mlp.has("gate") ? swiglu(mlp.get("gate"), h) : gelu(h);
    down(saved).keep("x", as_type(as_rows(active), dtype_));
  }

 protected:
  std::vector<Layer*> parts() override { return {&norm1_, &attention_, &norm2_, mlp_.get()}; }

 private:
  struct Slot {
    Saved* in;
    const char* name;
  };
  // Where a norm's output is kept: by each of its readers, or as one shard for all of them.
  std::vector<Slot> norm_slots(bool second, Saved& saved) const {
    if (keeps_gathered_ || (second && has_experts_)) return {};
    const std::string& name = second ? mlp_->name() : attention_.name();
    Saved& own = saved.child(name);
    if (cuts_) return {{&own, "shard"}};
    std::vector<const char*> readers = {".q", ".k", ".v"};
    if (second) readers = {".up"};
    if (second && own.has("gate")) readers = {".gate", ".up"};
    std::vector<Slot> slots;
    for (const char* reader : readers) slots.push_back({&own.child(name + reader), "x"});
    return slots;
  }
  Saved& down(Saved& saved) const {
    return saved.child(mlp_->name()).child(mlp_->name() + ".down");
  }

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
  DType dtype_;   // of weights
  bool cuts_, keeps_gathered_, has_experts_;
};

}  // namespace yotta
