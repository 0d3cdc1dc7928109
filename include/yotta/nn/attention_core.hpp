// Attention's core: from q, k and v to o, and back. It is the one part of a transformer in which a
// token reads another; a variant of attention is another core.
//
//     PlainCore      the formula, with dropout           nn/transformer.hpp
//     BlockwiseCore  block by block, causal              this file
//     FlexCore       the same, under any mask            nn/flex_core.hpp
//     RingCore, UlyssesCore and their like: on several ranks (lessons 23 and 24)
//
// Letters: B batch, T sequence, H heads, K key/value heads, d numbers per head.
#pragma once

#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/saved.hpp"

namespace yotta {

// Keeps what its backward pass reads.
class AttentionCore {
 public:
  virtual ~AttentionCore() = default;
  // q (B, T, H, d), k and v (B, T, K, d) -> o (B, T, H, d)
  virtual Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, Saved& saved) = 0;
  // dout (B, T, H, d) -> dq, dk, dv
  virtual AttentionGradients backward(const Tensor& dout, Saved& saved) = 0;
};

// Keeps q, k, v, o, and for each row of scores the log of its sum of e^score, (B, H, T): from it
// every probability is made again, e^(score - log_sum_exp). It has no dropout (config.check refuses
// it).
class BlockwiseCore : public AttentionCore {
 public:
  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, Saved& saved) override {
    return keep(q, k, v, flash_attention(q, k, v), saved);
  }
  AttentionGradients backward(const Tensor& dout, Saved& saved) override {
    const Tensor q = saved.take("q"), k = saved.take("k"), v = saved.take("v");
    return flash_attention_backward(dout, q, k, v, take(saved));
  }

 protected:
  static Tensor keep(const Tensor& q, const Tensor& k, const Tensor& v, const FlashAttention& out,
                     Saved& saved) {
    saved.keep("q", q);
    saved.keep("k", k);
    saved.keep("v", v);
    saved.keep("o", out.o);
    saved.keep("log_sum_exp", out.log_sum_exp);
    return out.o;
  }
  static FlashAttention take(Saved& saved) {
    Tensor o = saved.take("o");
    return {std::move(o), saved.take("log_sum_exp")};
  }
};

}  // namespace yotta
