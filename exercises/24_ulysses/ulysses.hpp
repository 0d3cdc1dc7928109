// Cut from include/yotta. Students: write between the marks of your copy in work/.
// Authors: edit the library's header; `./yotta check NN --cut` writes this file again.
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
// Attention itself is the serial one, of any kind. What limits it is the number of heads: cp must
// divide H and Hkv, where the ring takes any cp; and nothing is computed while the exchanges are on
// their way.
//
// Cost per rank, n = B (T/cp) d numbers of one head: forward all_to_alls of q, k, v and o: (2 H + 2
// Hkv) n (cp-1)/cp numbers, which fall with cp; the ring's 2 Hkv n (cp-1) hardly do. Backward:
// dout, dq, dk, dv, as many. Memory: q, k, v, o of T/cp tokens twice, as they were and exchanged.
// Contract: all ranks of cp make the same calls, with columns as context_positions (any ChunkOrder:
// both sides use it).
// Letters: B batch, T whole sequence, cp ranks, H query heads, Hkv key and value heads, d numbers
// per head.
// Reference: Jacobs et al. (2023), DeepSpeed Ulysses.
#pragma once

#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/attention_blockwise.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/ring_attention.hpp"

namespace yotta::student {

// Heads of x (B, T, H, d) on each rank: H/cp. Throws unless cp divides H.
inline int64_t heads_each(const Tensor& x, const Communicator& cp, Where where);

// x (B, T/cp, H, d), all heads of this rank's tokens -> (B, T, H/cp, d), this rank's heads of all
// tokens.
inline Tensor to_heads(const Tensor& x, const Communicator& cp,
                          ChunkOrder order = ChunkOrder::zigzag, Where where = Where::current());
// The way back: (B, T, H/cp, d) -> (B, T/cp, H, d).
inline Tensor to_tokens(const Tensor& x, const Communicator& cp,
                           ChunkOrder order = ChunkOrder::zigzag, Where where = Where::current());

// What the backward pass needs: q, k, v of this rank's heads, whole sequences, and attention's own.
struct UlyssesSaved {
  Tensor q, k, v;                // (B, T, H/cp, d), (B, T, Hkv/cp, d) twice
  BlockwiseAttention attention;  // o (B, T, H/cp, d), L (B, H/cp, T)
};

// o (B, T/cp, H, d) of q (B, T/cp, H, d), k and v (B, T/cp, Hkv, d); fills `saved`.
inline Tensor ulysses_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const Communicator& cp, UlyssesSaved& saved,
                                   ChunkOrder order = ChunkOrder::zigzag,
                                   Where where = Where::current());
// dq, dk, dv of this rank's tokens from dout (B, T/cp, H, d).
inline AttentionGradients ulysses_attention_backward(const Tensor& dout,
                                                        const UlyssesSaved& saved,
                                                        const Communicator& cp,
                                                        ChunkOrder order = ChunkOrder::zigzag,
                                                        Where where = Where::current());

// Bytes that a rank sends forward (and as many backward), if q has `all_q_bytes` on all ranks
// together (B T H d numbers), and k has `all_k_bytes` (B T Hkv d).
constexpr int64_t ulysses_bytes(int64_t ranks, int64_t all_q_bytes, int64_t all_k_bytes) {
  // exercise 24.1: warm-up, a rank keeps a part of its share of q, k, v and o, and sends the rest
  not_done("24.1");
  return {};
  // end of exercise 24.1
}


int64_t heads_each(const Tensor& x, const Communicator& cp, Where where) {
  // exercise 24.2: fail(where, "...", ...) if they do not divide; name a number of heads that would
  not_done("24.2");
  return {};
  // end of exercise 24.2
}

Tensor to_heads(const Tensor& x, const Communicator& cp, ChunkOrder order, Where where) {
  // exercise 24.3: narrow x to a part per rank, cat them along a new dim 0, all_to_all, take apart
  not_done("24.3");
  return {};
  // end of exercise 24.3
}

Tensor to_tokens(const Tensor& x, const Communicator& cp, ChunkOrder order, Where where) {
  // exercise 24.4: the same with context_shard for narrow; at the end the ranks' heads side by side
  not_done("24.4");
  return {};
  // end of exercise 24.4
}

Tensor ulysses_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Communicator& cp,
                         UlyssesSaved& saved, ChunkOrder order, Where where) {
  // exercise 24.5: q, k, v to heads; attention_blockwise; o back to tokens; `saved` keeps the rest
  not_done("24.5");
  return {};
  // end of exercise 24.5
}

AttentionGradients ulysses_attention_backward(const Tensor& dout, const UlyssesSaved& saved,
                                              const Communicator& cp, ChunkOrder order,
                                              Where where) {
  // exercise 24.6: the exchange's backward is the exchange back; between them the attention's
  not_done("24.6");
  return {};
  // end of exercise 24.6
}


}  // namespace yotta::student
