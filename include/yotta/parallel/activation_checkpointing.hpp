// Activation checkpointing: drop what layers have kept for their backward pass, and compute it
// again when it is needed. Memory for FLOPs.
//
//     layers            0  1  2  3  4  5  6  7  8  9 10 11    n = 12
//     none              ■  ■  ■  ■  ■  ■  ■  ■  ■  ■  ■  ■    ■ a layer's Saved, kept
//     every 4           x           x           x             x the input of a slice, kept
//     back to layer 8   x           x           ■  ■  ■  ■    its slice once more, from x
//     back to layer 4   x           ■  ■  ■  ■                and so on
//
// A checkpointed slice is a layer. forward keeps its input x and runs with a Saved of its own,
// which is dropped; backward_input runs it again from x, and then backward. The microbatch's
// BatchPosition says where it is in the whole run, so dropout draws the same masks again: the
// gradients are the same to the last bit.
//
// Courses count in two ways. For n equal layers and k = n / C checkpoints, one every C layers:
//     Chen et al., here    a slice is run again once, and kept meanwhile: n forwards more for any C
//                          memory k x + C Saved, least at C = sqrt(n)             Checkpoint
//     as lectures count    each layer starts again from its checkpoint, one Saved at a time:
//                          of the order of n^2 / k more forwards          Replay(restart_schedule)
//     the best possible    s checkpoints, one Saved, fewest forwards      Replay(revolve_schedule)
// "Full" recomputation in papers is C = 1: of each layer only x stays. "Selective" drops only
// attention's (T, T) arrays: much memory for few FLOPs; it stands around attention's core.
// "Pointwise" drops what no matrix product has made, the outputs of norms and activations. They are
// made again without a message.
//
// Contract: backward_input of what is run again does both halves, I and W, layer by layer, so that
// nothing computed again outlives the call; its backward_weight has nothing left to do.
// References: Chen et al. (2016), Training Deep Nets with Sublinear Memory Cost; Griewank and
// Walther (2000), Revolve; Korthikanti et al. (2022), Reducing Activation Recomputation in Large
// Transformer Models.
#pragma once

#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/replay.hpp"

namespace yotta {

// The C for which ceil(n / C) checkpoints and C Saved are together fewest.
constexpr int64_t square_root_of(int64_t n) {
  int64_t C = 1;
  while (C * C < n) ++C;
  return C;
}

// A slice of which only the input is kept.
class Checkpoint : public Sequential {
 public:
  using Sequential::Sequential;
  Tensor forward(const Tensor& x, Saved& saved) override {
    Tensor y = x;
    saved.keep("x", x);
    for (const LayerPtr& layer : layers()) y = run_and_forget(*layer, y, saved.position());
    return y;
  }

  // The recomputed Saved is freed layer by layer, as each weight gradient uses its part up.
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    Saved again(saved.position(), saved.name());
    yotta::forward(layers(), saved.take("x"), again);
    return yotta::backward(layers(), dy, again);
  }
  void backward_weight(Saved&) override {}
};

// Entries first to last - 1 of the stack.
inline Layers slice_of(Layers stack, int64_t first, int64_t last) {
  return stack.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first));
}

// Entries [first, last), `every` of them in a Checkpoint; 0: the square root of all.
inline std::vector<LayerPtr> checkpoint_every(Layers stack, int64_t first, int64_t last,
                                              int64_t every) {
  std::vector<LayerPtr> made;
  const int64_t C = every == 0 ? square_root_of(last - first) : every;
  for (int64_t begin = first; begin < last; begin += C)
    made.push_back(std::make_unique<Checkpoint>(slice_of(stack, begin, std::min(last, begin + C))));
  return made;
}

// A core that keeps no probabilities (B, H, T, T) and no mask of them: its backward pass makes both
// again from q, k and v. It stands around another core, which keeps them (PlainCore); blockwise
// attention never does.
class RecomputedCore : public AttentionCore {
 public:
  explicit RecomputedCore(std::unique_ptr<AttentionCore> core) : core_(std::move(core)) {}
  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, Saved& saved) override {
    const Tensor o = core_->forward(q, k, v, saved);
    saved.take("probabilities");
    if (saved.has("mask")) saved.take("mask");
    return o;
  }
  AttentionGradients backward(const Tensor& dout, Saved& saved) override {
    const Tensor q = saved.take("q"), k = saved.take("k"), v = saved.take("v");
    {
      const PhaseScope phase(Phase::recompute);
      core_->forward(q, k, v, saved);
    }
    return core_->backward(dout, saved);
  }

 private:
  std::unique_ptr<AttentionCore> core_;
};
// Puts it around the core of every block with plain attention, also of blocks in slices; once.
inline void recompute_attention(Layers layers) {
  for (const LayerPtr& layer : layers) {
    if (auto* const slice = dynamic_cast<Sequential*>(layer.get()))
      recompute_attention(slice->layers());
    auto* const block = dynamic_cast<Block*>(layer.get());
    if (block == nullptr) continue;
    std::unique_ptr<AttentionCore>& core = block->attention.core;
    if (dynamic_cast<PlainCore*>(core.get()) != nullptr)
      core = std::make_unique<RecomputedCore>(std::move(core));
  }
}

// Drops, after a block's forward, what its norms give to their readers and what the activation
// gives to mlp.down; and makes it again, before its backward_input, from what has stayed. In a
// block of Llama 3 405B that is 10 bytes of 32 for each number of x.
inline void drop_pointwise(Block& block, Saved& saved) {
  const auto drop = [](const Readers& readers, Saved& own) {
    for (Saved* each : readers.keeping_x(own)) each->take("x");
  };
  drop(*block.attention.qkv, saved.child(block.attention.name()));
  auto* const mlp = dynamic_cast<Mlp*>(block.mlp.get());
  if (mlp == nullptr) return;  // all that experts keep stays
  Saved& own = saved.child(mlp->name());
  drop(*mlp->in, own);
  own.child(mlp->down->name()).take("x");
}
inline void make_pointwise(Block& block, Saved& saved) {
  const PhaseScope phase(Phase::recompute);
  const auto rows_as = [](const Linear& reader, const Tensor& x) {  // as the reader keeps them
    return as_type(as_rows(x), reader.weight_parameter().value.dtype());
  };
  const auto make = [&](Norm& norm, const Readers& readers, Saved& own) {
    const std::vector<Saved*> keeping = readers.keeping_x(own);
    if (keeping.empty()) return;
    Saved again;
    const Tensor y = norm.forward(saved.child(norm.name()).get("x"), again);
    for (Saved* each : keeping) each->keep("x", rows_as(readers[0], y));
  };
  make(block.norm1, *block.attention.qkv, saved.child(block.attention.name()));
  auto* const mlp = dynamic_cast<Mlp*>(block.mlp.get());
  if (mlp == nullptr) return;
  Saved& own = saved.child(mlp->name());
  make(block.norm2, *mlp->in, own);
  own.child(mlp->down->name()).keep("x", rows_as(*mlp->down, mlp->active(own)));
}

// A slice whose blocks do so. Other layers stay as they are.
class PointwiseCheckpoint : public Sequential {
 public:
  using Sequential::Sequential;
  Tensor forward(const Tensor& x, Saved& saved) override {
    Tensor y = x;
    for (const LayerPtr& layer : layers()) {
      y = run(*layer, y, saved);
      if (auto* const block = dynamic_cast<Block*>(layer.get()))
        drop_pointwise(*block, saved.child(layer->name()));
    }
    return y;
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    Tensor dx = dy;
    for (size_t i = layers().size(); i-- > 0;) {
      Layer& layer = *layers()[i];
      if (auto* const block = dynamic_cast<Block*>(&layer))
        make_pointwise(*block, saved.child(layer.name()));
      dx = run_back(layer, dx, saved);
    }
    return dx;
  }
};

enum class Recompute : uint8_t { none, attention, all, revolve, pointwise };

struct CheckpointOptions {
  Recompute what = Recompute::all;
  int64_t every = 1;  // all: layers per slice; 1 is "full" recomputation; 0: the square root of all
  int64_t snapshots = 1;  // revolve: checkpoints that there is room for
};

// The same model with entries [first, last) of its stack checkpointed; last -1: to its end. The
// others (an embedding, a head) stay as they are. The result refers to `stack`, which must outlive
// it. Recompute::attention replaces the cores of the blocks themselves.
inline std::vector<LayerPtr> checkpointed(Layers stack, const CheckpointOptions& options,
                                          int64_t first = 0, int64_t last = -1,
                                          Where where = Where::current()) {
  if (last == -1) last = std::ssize(stack);
  if (first < 0 || last < first || last > std::ssize(stack))
    fail(where, "checkpoints in entries {} to {} of a stack of {}: give a range within it", first,
         last, stack.size());
  if (options.every < 0 || options.snapshots < 1)
    fail(where, "a checkpoint every {} layers, {} snapshots: every >= 0, snapshots >= 1",
         options.every, options.snapshots);
  std::vector<LayerPtr> made;
  const auto slice = [&](int64_t begin, int64_t end) { return slice_of(stack, begin, end); };
  const auto as_they_are = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      made.push_back(std::make_unique<Sequential>(slice(i, i + 1)));
  };
  const int64_t n = last - first;
  as_they_are(0, first);
  if (options.what == Recompute::attention) recompute_attention(slice(first, last));
  if (options.what == Recompute::none || options.what == Recompute::attention)
    as_they_are(first, last);
  if (options.what == Recompute::pointwise)
    for (int64_t i = first; i < last; ++i)
      made.push_back(std::make_unique<PointwiseCheckpoint>(slice(i, i + 1)));
  if (options.what == Recompute::revolve)
    made.push_back(std::make_unique<Replay>(slice(first, last),
                                            revolve_schedule(n, options.snapshots, where)));
  if (options.what == Recompute::all)
    for (LayerPtr& each : checkpoint_every(stack, first, last, options.every))
      made.push_back(std::move(each));
  as_they_are(last, std::ssize(stack));
  return made;
}

// ---- costs, for a chain of n equal layers ----

// Layers that are run forward a second time.
constexpr int64_t recomputed_forwards(const CheckpointOptions& o, int64_t n) {
  if (o.what == Recompute::all) return n;
  return o.what == Recompute::revolve && n > 0 ? revolve_steps(n, o.snapshots) : 0;
}

// The most that is held at once: so many inputs of slices, and so many Saved of layers.
struct HeldAtPeak {
  int64_t inputs = 0, saved = 0;
};
constexpr HeldAtPeak held_at_peak(const CheckpointOptions& o, int64_t n) {
  if (n == 0) return {};
  if (o.what == Recompute::revolve) return {std::min(o.snapshots, n), 1};
  if (o.what != Recompute::all) return {0, n};
  const int64_t C = std::min(n, o.every == 0 ? square_root_of(n) : o.every);
  return {n / C, C};  // on the way back a shorter last slice is gone before the next one is run
}

}  // namespace yotta
