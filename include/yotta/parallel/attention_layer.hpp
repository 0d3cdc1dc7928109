// Attention: a transformer block's first half. Every token looks at all tokens before it.
//
//     x (B, T, C) ─┬─> q ─> (B, T, H, d) ─> rope ─┐
//                  ├─> k ─> (B, T, K, d) ─> rope ─┼─> attention ─> (B, T, H d) ─> o ─> dropout ─> y
//                  └─> v ─> (B, T, K, d) ─────────┘
//
// Keeps x, q, k, v, the attention's output, and: `plain` the probabilities (B, H, T, T),
// `blockwise` one number per row (B, H, T). The formulas are in nn/attention.hpp and
// nn/attention_blockwise.hpp. FLOPs forward: 2 per weight and token; attention 4 T^2 d per head
// (plain), half of it (blockwise).
//
// Tensor parallelism: heads do not see each other, so a rank holds H/tp and K/tp of them, whole,
// with their rows of the weights of q, k and v (column cuts) and their inputs of o (a row cut): one
// all_reduce forward, in o, and one backward, of the three dx together. Query heads and the keys
// they share stay together.
//     tp 2, H 4, K 2:    rank 0: q0 q1 with k0      rank 1: q2 q3 with k1
// Context parallelism: T is this rank's part of the sequence, and attention goes round the ring of
// cp (ring_attention.hpp), or exchanges heads for tokens and keeps q, k, v and o in that form
// (ulysses.hpp); the BatchPosition says which positions the columns have (context_parallel.hpp).
// With sequence parallelism x and y are this rank's tokens (n, C); q, k and v read all of them,
// in pieces if they travel so (async_tp_layers.hpp).
// Letters: B batch, T sequence, C width, H heads, K key/value heads, d numbers per head.
// Reference: Shoeybi et al. (2019), Megatron-LM, figure 3b.
#pragma once

#include <array>

#include "yotta/comm/mesh.hpp"
#include "yotta/nn/attention.hpp"
#include "yotta/nn/rope.hpp"
#include "yotta/nn/rope_frequencies.hpp"
#include "yotta/parallel/async_tp_layers.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/tensor_parallel.hpp"
#include "yotta/parallel/ulysses.hpp"

namespace yotta {

struct AttentionGradients;  // dq, dk, dv (nn/attention.hpp)

struct AttentionOptions {
  int64_t width = 1, heads = 1, kv_heads = 1, head_size = 1;  // C, H, K, d, of the whole layer
  AttentionKind kind = AttentionKind::blockwise;
  bool bias = true;
  double rope_theta = 0;  // 0: no rope
  RopeScaling rope_scaling = {};
  double dropout = 0;              // of the output
  double probability_dropout = 0;  // of the probabilities; plain only
  Initial initial = normal(0.02);
  Initial initial_o = normal(0.02);  // of what is added to the residual stream
};

class Attention : public Composite {
 public:
  Attention(std::string name, const AttentionOptions& o, const ParameterOptions& init = {},
            const LayerAxes& axes = {})
      : Composite(std::move(name)),
        options_(o),
        heads_(part_of(o.heads, axes.tp, this->name(), "heads")),
        kv_heads_(part_of(o.kv_heads, axes.tp, this->name(), "key/value heads")),
        first_head_(axis_rank(axes.tp) * heads_),
        tp_(axes.tp),
        cp_(axes.cp),
        cut_(axes.sequence),
        context_(axes.context),
        f_(axes.tp, axes.sequence),
        q_(this->name() + ".q", {o.width, o.heads * o.head_size, o.bias, o.initial}, init, axes.tp),
        k_(this->name() + ".k", {o.width, o.kv_heads * o.head_size, o.bias, o.initial}, init,
           axes.tp),
        v_(this->name() + ".v", {o.width, o.kv_heads * o.head_size, o.bias, o.initial}, init,
           axes.tp),
        o_(this->name() + ".o", {o.heads * o.head_size, o.width, o.bias, o.initial_o}, init,
           axes.tp, axes.sequence),
        dropout_(this->name() + ".dropout", o.dropout, axes.tp, axes.sequence) {
    if (o.probability_dropout > 0 && o.kind != AttentionKind::plain)
      fail(Where::current(), "{}: dropout of probabilities needs plain attention", this->name());
    if (axis_size(axes.cp) > 1 && o.kind == AttentionKind::plain)
      fail(Where::current(), "{}: context parallelism needs blockwise attention", this->name());
  }

  // x (B, T, C) -> (B, T, C)
  Tensor forward(const Tensor& x, Saved& saved) override {
    const std::vector<Tensor> read = project(x, saved);
    saved.keep("q", rotated(read[0], heads_, saved));
    saved.keep("k", rotated(read[1], kv_heads_, saved));
    saved.keep("v", in_heads(read[2], kv_heads_));
    f_.tokens().drop_gathered(std::array<Layer*, 3>{&q_, &k_, &v_}, x, saved);
    const Tensor o = attend(saved);  // (B, T, H/tp, d)
    return run(dropout_, run(o_, o.reshape({o.dim(0), o.dim(1), -1}), saved), saved);
  }

  // dy (B, T, C) -> dx (B, T, C)
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    const Tensor dout = run_back(o_, run_back(dropout_, dy, saved), saved);  // (B, T, H d/tp)
    const auto flat = [&](const Tensor& d) { return d.reshape({dout.dim(0), dout.dim(1), -1}); };
    AttentionGradients d = attend_back(in_heads(dout, heads_), saved);
    if (options_.rope_theta > 0) {
      const RopeFrequencies frequencies{options_.rope_theta, options_.rope_scaling};
      d.dq = rope_backward(d.dq, saved.position().positions, frequencies);
      d.dk = rope_backward(d.dk, saved.position().positions, frequencies);
    }
    return project_back({flat(d.dq), flat(d.dk), flat(d.dv)}, saved);
  }
  void backward_weight(Saved& saved) override {
    f_.tokens().gather_again(std::array<Layer*, 3>{&q_, &k_, &v_}, saved);
    Composite::backward_weight(saved);
  }

 protected:
  std::vector<Layer*> parts() override { return {&q_, &k_, &v_, &o_, &dropout_}; }

 private:
  // What q_, k_ and v_ make of x, (B, T, heads d/tp) each; f is in front of them.
  std::vector<Tensor> project(const Tensor& x, Saved& saved) {
    if (in_pieces(tp_, cut_)) return async_forward({&q_, &k_, &v_}, x, tp_, cut_, saved);
    const Tensor shared = f_.forward(x);
    return {run(q_, shared, saved), run(k_, shared, saved), run(v_, shared, saved)};
  }
  Tensor project_back(const std::vector<Tensor>& d, Saved& saved) {
    if (in_pieces(tp_, cut_)) return async_backward({&q_, &k_, &v_}, d, tp_, cut_, saved);
    Tensor dx = run_back(q_, d[0], saved);
    k_.add_backward_input(dx, d[1], saved.child(k_.name()));
    v_.add_backward_input(dx, d[2], saved.child(v_.name()));
    return f_.backward(dx);
  }

  // (B, T, heads * d) -> (B, T, heads, d)
  Tensor in_heads(const Tensor& x, int64_t heads) const {
    return x.reshape({x.dim(0), x.dim(1), heads, options_.head_size});
  }
  Tensor rotated(const Tensor& x, int64_t heads, const Saved& saved) const {
    const Tensor split = in_heads(x, heads);
    if (options_.rope_theta == 0) return split;
    return rope(split, saved.position().positions, {options_.rope_theta, options_.rope_scaling});
  }

  // Throws unless the columns are those that this rank of cp must hold.
  void expect_positions(int64_t columns, const Positions& positions) const {
    if (axis_size(cp_) == 1) return;
    const Positions own = context_positions(columns * axis_size(cp_), cp_);
    if (positions != own)
      fail(Where::current(),
           "{}: the microbatch's columns stand at {} and on, but rank {} of {} holds chunks that "
           "begin at {} and {}: give its BatchPosition context_positions(T, cp)",
           name(), positions.first, axis_rank(cp_), axis_size(cp_), own.first, own.second);
  }

  // The attention itself, from q, k and v in `saved`; keeps there what its backward pass needs.
  Tensor attend(Saved& saved) const {
    const Tensor &q = saved.get("q"), &k = saved.get("k"), &v = saved.get("v");
    if (options_.kind == AttentionKind::blockwise) {
      expect_positions(q.dim(1), saved.position().positions);
      if (context_ == ContextParallel::ulysses) return exchange(saved);
      const BlockwiseAttention out = ring_attention(q, k, v, cp_);
      saved.keep("o", out.o);
      saved.keep("log_sum_exp", out.log_sum_exp);
      return out.o;
    }
    const BatchPosition& place = saved.position();
    const PlainAttention out =
        attention_plain(q, k, v,
                        {.p = place.training ? options_.probability_dropout : 0,
                         .random = mask_random(place, name()),
                         .first_sequence = place.first_sequence,
                         .first_head = first_head_,
                         .heads = options_.heads});
    saved.keep("probabilities", out.probabilities);
    if (out.mask.defined()) saved.keep("mask", out.mask);
    return out.o;
  }

  // The same by Ulysses: this rank's heads of the whole sequence take the place of q, k and v.
  Tensor exchange(Saved& saved) const {
    UlyssesSaved heads;
    const Tensor o =
        ulysses_attention(saved.take("q"), saved.take("k"), saved.take("v"), cp_, heads);
    saved.keep("q", heads.q);
    saved.keep("k", heads.k);
    saved.keep("v", heads.v);
    saved.keep("o", heads.attention.o);
    saved.keep("log_sum_exp", heads.attention.log_sum_exp);
    return o;
  }
  AttentionGradients attend_back(const Tensor& dout, Saved& saved) const {
    const bool plain = options_.kind == AttentionKind::plain;
    if (plain && !saved.has("probabilities")) attend(saved);  // a checkpoint has dropped them
    const Tensor q = saved.take("q"), k = saved.take("k"), v = saved.take("v");
    if (options_.kind == AttentionKind::blockwise) {
      const BlockwiseAttention out{saved.take("o"), saved.take("log_sum_exp")};
      return context_ == ContextParallel::ulysses
                 ? ulysses_attention_backward(dout, {q, k, v, out}, cp_)
                 : ring_attention_backward(dout, q, k, v, out, cp_);
    }
    PlainAttention out{{}, saved.take("probabilities"), {}};
    if (!saved.has("mask")) return attention_plain_backward(dout, q, k, v, out);
    out.mask = saved.take("mask");
    return attention_plain_backward(dout, q, k, v, out, options_.probability_dropout);
  }

  AttentionOptions options_;
  int64_t heads_, kv_heads_, first_head_;  // H/tp, K/tp, the first of them
  Communicator tp_, cp_;
  SequenceCut cut_;
  ContextParallel context_;
  CopyToTensorParallel f_;
  ColumnParallelLinear q_, k_, v_;  // (H d/tp, C), (K d/tp, C), (K d/tp, C)
  RowParallelLinear o_;             // (C, H d/tp)
  SequenceDropout dropout_;
};

}  // namespace yotta
