// Multi-head latent attention (MLA): queries, keys and values of all heads from short vectors.
//
// A key and a value for each of H heads are 2 H d numbers of a token, which whoever generates text
// must keep. Grouped queries share them between heads. MLA keeps one short vector of a token, its
// latent, from which each head makes keys and values of its own:
//
//     x (C) ─┬─> q.down ─> q.norm ─> latent (R_q) ──┬─> q.up      H x P ─────────────┐
//            │                                      └─> q.turned  H x D ─> rope ─────┴─> q
//            ├─> kv.down ─> kv.norm ─> latent (R) ──┬─> k.up      H x P ─────────────┐
//            │                                      └─> v.up      H x V ─> v         ├─> k
//            └─> k.turned   1 x D ─> rope ─> the same for all heads ─────────────────┘
//
//     a head's q and k     [ p p p p p p p p | t t t t ]     P numbers, then D that rope turns
//
// A score is the sum of two: one of what tokens say, one of how far apart they are. Rope cannot
// turn what is made from a latent: k.up could then no longer be multiplied into q.up when text is
// generated. So positions have D numbers of their own, and all heads share those of a key.
//
// DeepSeek-V3: C 7168, H 128, R_q 1536, R 512, P 128, D 64, V 128. It keeps R + D = 576 numbers of
// a token. Keys and values of 128 heads would be 32,768, of 8 shared ones 2048.
//
// A core (attention_core.hpp) has values as long as its keys. So v is filled up with zeros from V
// numbers to P + D, and Attention leaves out what they became. Kernels that take two lengths save
// the scores' second product a third of its FLOPs, and this copy.
//
// Backward: a head's dq and dk are cut in two. What all heads share gets the sum of their
// gradients.
//
// Cost: C (R_q + R + D) + H (R_q (P + D) + R (P + V)) weights before the core, where plain
// attention has 3 C H d. For DeepSeek-V3 70e6 instead of 352e6 for heads of 128 numbers.
// Contract: f32, f64 or bf16, on the CPU and on meta. Generating text with what MLA keeps is left
// out: model/generate.hpp runs the whole sequence.
// Letters: B sequences, T tokens, C width, H heads, R_q and R numbers of the latents, P and D
// numbers of a head's query and key, V of its value.
// References: DeepSeek-V2 (2024), section 2.1 and appendix C; DeepSeek-V3 (2024), section 2.1.1.
#pragma once

#include "yotta/nn/narrow.hpp"
#include "yotta/nn/norm_layer.hpp"
#include "yotta/nn/readers.hpp"
#include "yotta/nn/rope.hpp"
#include "yotta/nn/transformer_config.hpp"

namespace yotta {

// ---- a head in two parts -----------------------------------------------------------------------
// Both read and write each number once.

// a (B, T, H, p) and b (B, T, H or 1, t) -> (B, T, H, p + t). All heads get the one b.
Tensor join_heads(const Tensor& a, const Tensor& b, Where where = Where::current());

// The way back: of dy (B, T, H, p + t) the two gradients. `shared`: b was one for all heads.
struct HeadParts {
  Tensor a;  // (B, T, H, p)
  Tensor b;  // (B, T, H, t), or (B, T, 1, t), the sum over heads
};
HeadParts split_heads(const Tensor& dy, int64_t p, bool shared, Where where = Where::current());

// a (B, T, H, p) -> (B, T, H, d), with zeros behind.
inline Tensor filled_heads(const Tensor& a, int64_t d) {
  if (a.dim(3) == d) return a;
  Tensor zeros =
      empty_beside(a, {a.dim(0), a.dim(1), 1, d - a.dim(3)}, a.dtype(), Where::current());
  zeros.zero();
  return join_heads(a, zeros);
}

// ---- the layers in front of the core -----------------------------------------------------------

// How the one turned key of a token reaches the heads. Ranks that share out heads replace it.
class SharedKey {
 public:
  virtual ~SharedKey() = default;
  virtual Tensor enter(const Tensor& k) const { return k; }  // (..., D) -> (B, T, D)
  virtual Tensor enter_back(Tensor dk) const { return dk; }  // and back
};

inline NormOptions latent_norm(const TransformerConfig& c, int64_t width) {
  return {NormKind::rmsnorm, width, c.norm_epsilon};
}

// Takes the place of q, k and v in Attention. Its own linears read x: q.down, kv.down, k.turned.
class LatentReaders : public Readers {
 public:
  LatentReaders(const std::string& layer, const TransformerConfig& c)
      : q_norm(layer + ".q.norm", latent_norm(c, c.latent.q_rank), {c.seed, c.dtype}),
        kv_norm(layer + ".kv.norm", latent_norm(c, c.latent.kv_rank), {c.seed, c.dtype}),
        sizes_(c.latent),
        frequencies_{c.rope_theta, c.rope_scaling} {
    const auto linear = [&](const char* part, int64_t inputs, int64_t outputs) {
      const LinearOptions options{inputs, outputs, false, normal(c.deviation)};
      return std::make_unique<Linear>(layer + part, options, ParameterOptions{c.seed, c.dtype});
    };
    const LatentConfig& s = sizes_;
    add(linear(".q.down", c.width, s.q_rank));
    add(linear(".kv.down", c.width, s.kv_rank));
    add(linear(".k.turned", c.width, s.turned));
    q_up->add(linear(".q.up", s.q_rank, c.heads * s.plain));
    q_up->add(linear(".q.turned", s.q_rank, c.heads * s.turned));
    kv_up->add(linear(".k.up", s.kv_rank, c.heads * s.plain));
    kv_up->add(linear(".v.up", s.kv_rank, c.heads * s.value));
  }

  // x (..., C) -> q, k and v, (B, T, H (P + D)) each
  std::vector<Tensor> forward(const Tensor& x, Saved& saved) override {
    const std::vector<Tensor> down = Readers::forward(x, saved);
    const auto q = q_up->forward(norm(q_norm, down[0], saved), saved.child("q"));
    const auto kv = kv_up->forward(norm(kv_norm, down[1], saved), saved.child("kv"));
    const Tensor key = turn(in_heads(shared_key->enter(down[2]), sizes_.turned), saved);
    const Tensor turned = turn(in_heads(q[1], sizes_.turned), saved);
    return {flat(join_heads(in_heads(q[0], sizes_.plain), turned)),
            flat(join_heads(in_heads(kv[0], sizes_.plain), key)),
            flat(filled_heads(in_heads(kv[1], sizes_.value), sizes_.head_size()))};
  }
  Tensor backward_input(const std::vector<Tensor>& dys, Saved& saved) override {
    const int64_t d = sizes_.head_size();
    const HeadParts q = split_heads(in_heads(dys[0], d), sizes_.plain, false);
    const HeadParts k = split_heads(in_heads(dys[1], d), sizes_.plain, true);
    const Tensor dv = narrow(in_heads(dys[2], d), 3, 0, sizes_.value);
    const Tensor dkey = shared_key->enter_back(flat(turn_back(k.b, saved)));
    const Tensor dq =
        q_up->backward_input({flat(q.a), flat(turn_back(q.b, saved))}, saved.child("q"));
    const Tensor dkv = kv_up->backward_input({flat(k.a), flat(dv)}, saved.child("kv"));
    return Readers::backward_input(
        {norm_back(q_norm, dq, saved), norm_back(kv_norm, dkv, saved), dkey}, saved);
  }
  void backward_weight(Saved& saved) override {
    kv_up->backward_weight(saved.child("kv"));
    q_up->backward_weight(saved.child("q"));
    for (Norm* each : {&kv_norm, &q_norm}) each->backward_weight(saved.child(each->name()));
    Readers::backward_weight(saved);
  }
  void add_layers(std::vector<Layer*>& to) override {
    Readers::add_layers(to);
    to.push_back(&q_norm), to.push_back(&kv_norm);
    q_up->add_layers(to), kv_up->add_layers(to);
  }

  // The parts, which may be replaced.
  Norm q_norm, kv_norm;
  std::unique_ptr<Readers> q_up = std::make_unique<Readers>();   // P and D of each head's query
  std::unique_ptr<Readers> kv_up = std::make_unique<Readers>();  // P of its key, V of its value
  std::unique_ptr<SharedKey> shared_key = std::make_unique<SharedKey>();

 private:
  static Tensor norm(Norm& norm, const Tensor& x, Saved& saved) {
    return norm.forward(x, saved.child(norm.name()));
  }
  static Tensor norm_back(Norm& norm, const Tensor& dy, Saved& saved) {
    return norm.backward_input(dy, saved.child(norm.name()));
  }
  // (B, T, heads n) -> (B, T, heads, n), however many heads are here; and back
  static Tensor in_heads(const Tensor& x, int64_t n) {
    return x.reshape({x.dim(0), x.dim(1), x.dim(2) / n, n});
  }
  static Tensor flat(const Tensor& x) { return x.reshape({x.dim(0), x.dim(1), -1}); }
  Tensor turn(const Tensor& x, const Saved& saved) const {
    return rope(x, saved.position().positions, frequencies_);
  }
  Tensor turn_back(const Tensor& dy, const Saved& saved) const {
    return rope_backward(dy, saved.position().positions, frequencies_);
  }
  LatentConfig sizes_;
  RopeFrequencies frequencies_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/latent_attention.ipp"
#endif
