// Latent attention on several ranks: heads are shared out, latents are not.
//
//     x ──> q.down, kv.down, k.turned ──> latents ──> f ──> q.up, k.up, v.up ──> core ──> o ──> g
//           whole on each rank                              by columns: whole heads       by rows
//
// The matrices down are small, and every rank computes all of the latents. So f stands behind them,
// not in front: a rank's heads give back a part of each latent's gradient, and f adds the parts up.
// With sequence parallelism a rank computes the latents of its own tokens, and f gathers R_q + R +
// D numbers of a token in place of C. DeepSeek-V3: 2112 instead of 7168.
//
// Cost: in tensor_parallel.hpp's, f moves R_q + R + D numbers of a token, not C, in three messages.
// Weights: those down, whole on each rank; all others a tp-th.
// Contract: as tensor_parallel.hpp.
// Letters: C width; R_q, R and D numbers of a token's latents and of its turned key, tp ranks.
// Reference: Megatron-LM, core/transformer/multi_latent_attention.py.
#pragma once

#include <memory>
#include <vector>

#include "yotta/parallel/tensor_parallel.hpp"

namespace yotta {

inline LatentReaders* latent_readers(const Attention& attention) {
  return dynamic_cast<LatentReaders*>(attention.qkv.get());
}
// What makes heads, and is cut by columns: q, k and v; or what reads the latents.
inline std::vector<std::unique_ptr<Readers>*> head_readers(Attention& attention) {
  if (LatentReaders* const latent = latent_readers(attention))
    return {&latent->q_up, &latent->kv_up};
  return {&attention.qkv};
}

// The turned key goes through f as the latents do.
class SharedKeyBorder : public SharedKey {
 public:
  explicit SharedKeyBorder(BorderPtr border) : border_(std::move(border)) {}
  Tensor enter(const Tensor& k) const override { return border_->enter(k); }
  Tensor enter_back(Tensor dk) const override { return border_->enter_back(std::move(dk)); }

 private:
  BorderPtr border_;
};

inline void latent_parallel(Attention& attention, const BorderPtr& border) {
  const Communicator& tp = border->tp();
  const int64_t heads = part_of(attention.config().heads, tp, attention.name(), "heads");
  for (std::unique_ptr<Readers>* const readers : head_readers(attention)) {
    for (size_t i = 0; i < (*readers)->size(); ++i) cut_by_columns((**readers)[i], tp);
    *readers = std::make_unique<ColumnParallel>(std::move(**readers), border);
  }
  latent_readers(attention)->shared_key = std::make_unique<SharedKeyBorder>(border);
  cut_by_rows(*attention.o, tp);
  attention.o = std::make_unique<RowParallelLinear>(std::move(*attention.o), border);
  if (auto* const plain = dynamic_cast<PlainCore*>(attention.core.get()))
    plain->first_head = tp.rank() * heads, plain->all_heads = attention.config().heads;
}

}  // namespace yotta
