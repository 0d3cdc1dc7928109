// Ulysses: attention on sequence shards by an exchange of sequence for heads. Heads do not see each
// other, so for the length of attention each rank takes all tokens of some heads instead of all
// heads of some tokens.
//
//     before   all heads of a part of the tokens     after    all tokens of a part of the heads
//              h0 h1 h2 h3                                    h0 h1    h2 h3
//     rank 0   [ .  .  .  . ]  tokens 0 to T/2       tokens   [ .  . ]  [ .  . ]
//     rank 1   [ .  .  .  . ]  T/2 to T                       [ .  . ]  [ .  . ]
//                                                             rank 0    rank 1
//     q, k, v ── all_to_all ──> attention on whole sequences ── all_to_all ──> o
//     backward: the same exchanges, the other way round
//
// Attention itself is the serial one, of any kind. In a transformer UlyssesCore takes the place of
// BlockwiseCore. What limits it is the number of heads: cp must
// divide H and Hkv, where the ring takes any cp; and nothing is computed while the exchanges are on
// their way.
//
// Cost per rank: forward all_to_alls of q, k, v and o, of T/cp tokens each (ulysses_bytes). Their
// bytes fall with cp; those of the ring hardly do. Backward: dout, dq, dk, dv, as many.
// Memory: kept for backward, q, k, v, o of T/cp tokens; in an exchange copies of one of them.
// Contract: all ranks of cp make the same calls, with columns as context_positions (any ChunkOrder:
// both sides use it).
// Letters: B batch, T whole sequence, cp ranks, H query heads, Hkv key and value heads, d numbers
// per head.
// Reference: Jacobs et al. (2023), DeepSpeed Ulysses.
#pragma once

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/context_parallel.hpp"

namespace yotta {

// Heads of x (B, T, H, d) on each rank: H/cp. Throws unless cp divides H.
inline int64_t heads_each(const Tensor& x, const Communicator& cp, Where where) {
  const int64_t heads = x.dim(2, where), ranks = axis_size(cp);
  if (heads % ranks != 0)
    fail(where, "ulysses: {} heads do not divide among {} ranks of cp; {} would, or ring attention",
         heads, ranks, heads < ranks ? ranks : heads - heads % ranks);
  return heads / ranks;
}

// x (B, T/cp, H, d), all heads of this rank's tokens -> (B, T, H/cp, d), this rank's heads of all
// tokens.
inline Tensor to_heads(const Tensor& x, const Communicator& cp,
                       ChunkOrder order = ChunkOrder::zigzag, Where where = Where::current()) {
  const int ranks = axis_size(cp);
  if (ranks == 1) return x;
  const int64_t h = heads_each(x, cp, where), B = x.dim(0), t = x.dim(1), d = x.dim(3);
  std::vector<Tensor> parts;  // to rank r: its heads of my tokens; from it: my heads of its tokens
  for (int r = 0; r < ranks; ++r)
    parts.push_back(narrow(x, 2, r * h, h, where).reshape({1, B, t, h, d}));
  const Tensor mine = cat(parts, 0, where);
  Tensor theirs = empty_like(mine, where);
  cp.all_to_all(theirs, mine, {.label = "ulysses"}, where);
  for (int r = 0; r < ranks; ++r)
    parts[static_cast<size_t>(r)] = theirs.rows(r, r + 1).reshape({B, t, h, d});
  return context_unshard(parts, order, where);
}

// The way back: (B, T, H/cp, d) -> (B, T/cp, H, d).
inline Tensor to_tokens(const Tensor& x, const Communicator& cp,
                        ChunkOrder order = ChunkOrder::zigzag, Where where = Where::current()) {
  const int ranks = axis_size(cp);
  if (ranks == 1) return x;
  const int64_t B = x.dim(0), t = x.dim(1) / ranks, h = x.dim(2), d = x.dim(3);
  std::vector<Tensor> parts;  // to rank r: its tokens of my heads; from it: my tokens of its heads
  for (int r = 0; r < ranks; ++r)
    parts.push_back(context_shard(x, ranks, r, order, where).reshape({1, B, t, h, d}));
  const Tensor mine = cat(parts, 0, where);
  Tensor theirs = empty_like(mine, where);
  cp.all_to_all(theirs, mine, {.label = "ulysses"}, where);
  for (int r = 0; r < ranks; ++r)
    parts[static_cast<size_t>(r)] = theirs.rows(r, r + 1).reshape({B, t, h, d});
  return cat(parts, 2, where);
}

// What the backward pass needs: q, k, v of this rank's heads, whole sequences, and attention's own.
struct UlyssesSaved {
  Tensor q, k, v;            // (B, T, H/cp, d), (B, T, Hkv/cp, d) twice
  FlashAttention attention;  // o (B, T, H/cp, d), L (B, H/cp, T)
};

// o (B, T/cp, H, d) of q (B, T/cp, H, d), k and v (B, T/cp, Hkv, d); fills `saved`.
inline Tensor ulysses_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                const Communicator& cp, UlyssesSaved& saved,
                                ChunkOrder order = ChunkOrder::zigzag,
                                Where where = Where::current()) {
  saved = {to_heads(q, cp, order, where),
           to_heads(k, cp, order, where),
           to_heads(v, cp, order, where),
           {}};
  saved.attention = flash_attention(saved.q, saved.k, saved.v, where);
  return to_tokens(saved.attention.o, cp, order, where);
}

// dq, dk, dv of this rank's tokens from dout (B, T/cp, H, d).
inline AttentionGradients ulysses_attention_backward(const Tensor& dout, const UlyssesSaved& saved,
                                                     const Communicator& cp,
                                                     ChunkOrder order = ChunkOrder::zigzag,
                                                     Where where = Where::current()) {
  const AttentionGradients d = flash_attention_backward(to_heads(dout, cp, order, where), saved.q,
                                                        saved.k, saved.v, saved.attention, where);
  return {to_tokens(d.dq, cp, order, where), to_tokens(d.dk, cp, order, where),
          to_tokens(d.dv, cp, order, where)};
}

// The same as attention's core. It keeps q, k, v and o of this rank's heads, whole sequences.
class UlyssesCore : public BlockwiseCore {
 public:
  UlyssesCore(std::string layer, Communicator cp) : layer_(std::move(layer)), cp_(std::move(cp)) {}
  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, Saved& saved) override {
    expect_positions(layer_, q.dim(1), saved.position().positions, cp_);
    UlyssesSaved heads;
    const Tensor o = ulysses_attention(q, k, v, cp_, heads);
    keep(heads.q, heads.k, heads.v, heads.attention, saved);
    return o;
  }
  AttentionGradients backward(const Tensor& dout, Saved& saved) override {
    const Tensor q = saved.take("q"), k = saved.take("k"), v = saved.take("v");
    return ulysses_attention_backward(dout, {q, k, v, take(saved)}, cp_);
  }

 private:
  std::string layer_;
  Communicator cp_;
};
// The same for flex attention, under any mask: a head's tiles are the same on every rank, so the
// work is equal however the columns are cut. The mask is that of whole sequences.
class FlexUlyssesCore : public FlexCore {
 public:
  FlexUlyssesCore(std::string layer, const FlexCore& serial, Communicator cp)
      : FlexCore(serial), layer_(std::move(layer)), cp_(std::move(cp)), first_(first_head) {}
  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, Saved& saved) override {
    expect_positions(layer_, q.dim(1), saved.position().positions, cp_);
    const Tensor heads = to_heads(q, cp_);
    first_head = first_ + axis_rank(cp_) * heads.dim(2);  // ALiBi asks
    return to_tokens(FlexCore::forward(heads, to_heads(k, cp_), to_heads(v, cp_), saved), cp_);
  }
  AttentionGradients backward(const Tensor& dout, Saved& saved) override {
    const AttentionGradients d = FlexCore::backward(to_heads(dout, cp_), saved);
    return {to_tokens(d.dq, cp_), to_tokens(d.dk, cp_), to_tokens(d.dv, cp_)};
  }

 private:
  std::string layer_;
  Communicator cp_;
  int64_t first_;  // head of those on this rank of tp
};
// In every block of a model, or a slice, with flex attention.
inline void flex_ulysses(Transformer& model, const Communicator& cp) {
  for (Block* block : model.blocks()) {
    Attention& attention = block->attention;
    attention.core = std::make_unique<FlexUlyssesCore>(attention.name(), flex_core(attention), cp);
  }
}

// In every block of a model, or a slice; blockwise attention only.
inline void ulysses(Transformer& model, const Communicator& cp) {
  for (Block* block : model.blocks()) {
    expect_blockwise(block->attention);
    block->attention.core = std::make_unique<UlyssesCore>(block->attention.name(), cp);
  }
}

// Bytes that a rank sends forward (and as many backward), if q has `all_q_bytes` on all ranks
// together (B T H d numbers), and k has `all_k_bytes` (B T Hkv d).
constexpr int64_t ulysses_bytes(int64_t ranks, int64_t all_q_bytes, int64_t all_k_bytes) {
  return (2 * all_q_bytes + 2 * all_k_bytes) / ranks * (ranks - 1) / ranks;
}

}  // namespace yotta
