// Attention: a transformer block's first half. Every token looks at all tokens before it.
//
//     x (B, T, C) ─┬─> q ─> (B, T, H, d) ─> rope ─┐
//                  ├─> k ─> (B, T, K, d) ─> rope ─┼─> causal attention ─> (B, T, H d) ─> o ─> dropout ─> y
//                  └─> v ─> (B, T, K, d) ─────────┘
//
// Keeps x, q, k, v, the attention's output, and: `plain` the probabilities (B, H, T, T), `blockwise` one
// number a row (B, H, T). The formulas are in attention.hpp and attention_blockwise.hpp.
// FLOPs forward: 2 a weight and token; attention 4 T^2 d a head (plain), half of it (blockwise).
// Heads are local: a rank of a tensor-parallel group holds H / tp and K / tp of them, with their rows of q, k
// and v and their columns of o. Letters: C width, H heads, K key/value heads, d numbers a head.
#pragma once

#include "yotta/nn/attention.hpp"
#include "yotta/nn/attention_blockwise.hpp"
#include "yotta/nn/attention_kind.hpp"
#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/linear.hpp"
#include "yotta/nn/rope.hpp"

namespace yotta {

struct AttentionOptions {
  int64_t width = 1, heads = 1, kv_heads = 1, head_size = 1;  // C, H, K, d
  AttentionKind kind = AttentionKind::blockwise;
  bool bias = true;
  double rope_theta = 0;           // 0: no rope
  double dropout = 0;              // of the output
  double probability_dropout = 0;  // of the probabilities; plain only
  Initial initial = normal(0.02);
  Initial initial_o = normal(0.02);  // of what is added to the residual stream
};

class Attention : public Composite {
 public:
  Attention(std::string name, const AttentionOptions& o, const ParameterOptions& made = {})
      : Composite(std::move(name)),
        options_(o),
        q_(this->name() + ".q", {o.width, o.heads * o.head_size, o.bias, o.initial}, made),
        k_(this->name() + ".k", {o.width, o.kv_heads * o.head_size, o.bias, o.initial}, made),
        v_(this->name() + ".v", {o.width, o.kv_heads * o.head_size, o.bias, o.initial}, made),
        o_(this->name() + ".o", {o.heads * o.head_size, o.width, o.bias, o.initial_o}, made),
        dropout_(this->name() + ".dropout", o.dropout) {
    if (o.probability_dropout > 0 && o.kind != AttentionKind::plain)
      fail(Where::current(), "{}: dropout of probabilities needs plain attention", this->name());
  }

  // x (B, T, C) -> (B, T, C)
  Tensor forward(const Tensor& x, Saved& saved) override {
    saved.keep("q", turned(run(q_, x, saved), options_.heads, saved));
    saved.keep("k", turned(run(k_, x, saved), options_.kv_heads, saved));
    saved.keep("v", in_heads(run(v_, x, saved), options_.kv_heads));
    const Tensor o = attend(saved);  // (B, T, H, d)
    return run(dropout_, run(o_, o.reshape({x.dim(0), x.dim(1), -1}), saved), saved);
  }

  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    const Tensor dout = run_back(o_, run_back(dropout_, dy, saved), saved);
    AttentionGradients d = attend_back(in_heads(dout, options_.heads), saved);
    if (options_.rope_theta > 0) {
      d.dq = rope_backward(d.dq, saved.place().first_position, options_.rope_theta);
      d.dk = rope_backward(d.dk, saved.place().first_position, options_.rope_theta);
    }
    Tensor dx = run_back(q_, d.dq.reshape({dy.dim(0), dy.dim(1), -1}), saved);
    k_.add_backward_input(dx, d.dk.reshape({dy.dim(0), dy.dim(1), -1}), saved.child(k_.name()));
    v_.add_backward_input(dx, d.dv.reshape({dy.dim(0), dy.dim(1), -1}), saved.child(v_.name()));
    return dx;
  }

 protected:
  std::vector<Layer*> parts() override { return {&q_, &k_, &v_, &o_, &dropout_}; }

 private:
  // (B, T, heads * d) -> (B, T, heads, d)
  Tensor in_heads(const Tensor& x, int64_t heads) const {
    return x.reshape({x.dim(0), x.dim(1), heads, options_.head_size});
  }
  Tensor turned(const Tensor& x, int64_t heads, const Saved& saved) const {
    const Tensor split = in_heads(x, heads);
    if (options_.rope_theta == 0) return split;
    return rope(split, saved.place().first_position, options_.rope_theta);
  }

  // The attention itself, from q, k and v in `saved`; keeps there what its backward pass needs.
  Tensor attend(Saved& saved) const {
    const Tensor &q = saved.get("q"), &k = saved.get("k"), &v = saved.get("v");
    if (options_.kind == AttentionKind::blockwise) {
      const BlockwiseAttention out = attention_blockwise(q, k, v);
      saved.keep("o", out.o);
      saved.keep("log_sum_exp", out.log_sum_exp);
      return out.o;
    }
    const Place& place = saved.place();
    const PlainAttention out =
        attention_plain(q, k, v,
                        {.p = place.training ? options_.probability_dropout : 0,
                         .random = mask_random(place, name()),
                         .first_sequence = place.first_sequence});
    saved.keep("probabilities", out.probabilities);
    if (out.mask.defined()) saved.keep("mask", out.mask);
    return out.o;
  }
  AttentionGradients attend_back(const Tensor& dout, Saved& saved) const {
    const Tensor q = saved.take("q"), k = saved.take("k"), v = saved.take("v");
    if (options_.kind == AttentionKind::blockwise)
      return attention_blockwise_backward(dout, q, k, v,
                                          {saved.take("o"), saved.take("log_sum_exp")});
    PlainAttention out{{}, saved.take("probabilities"), {}};
    if (!saved.has("mask")) return attention_plain_backward(dout, q, k, v, out);
    out.mask = saved.take("mask");
    return attention_plain_backward(dout, q, k, v, out, options_.probability_dropout);
  }

  AttentionOptions options_;
  Linear q_, k_, v_;  // (H d, C), (K d, C), (K d, C)
  Linear o_;          // (C, H d)
  Dropout dropout_;
};

}  // namespace yotta
