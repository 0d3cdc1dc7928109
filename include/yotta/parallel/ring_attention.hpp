// Ring attention: one sequence on cp ranks. Every rank has the queries, keys and values of its own
// part; the keys and values go round a ring, and of every part that comes by, each rank's queries
// attend to the keys that they may see. The naive way is to all_gather k and v: the same numbers
// are sent, but every rank then holds all T of them, and waits before it computes. The ring holds
// two parts, and sends while it computes.
//
//     chunks of each rank, cp = 4 (zig-zag)     rows: chunks of queries, columns: of keys
//                                               o all n^2 scores are computed, \ half of them
//     rank 0   [0 . . . . . . 7]                0  \                  rank 0: 1/2 + 7 1/2 = 8
//     rank 1   [. 1 . . . . 6 .]                1  o \                rank 1: 1 1/2 + 6 1/2 = 8
//     rank 2   [. . 2 . . 5 . .]                :  o o \              rank 2: 2 1/2 + 5 1/2 = 8
//     rank 3   [. . . 3 4 . . .]                7  o o o o o o o \    rank 3: 3 1/2 + 4 1/2 = 8
//
// So each rank computes the same in all, and in every step: of its 2 x 2 pairs of chunks two (in
// step 0 one and two halves). With contiguous parts early ranks would wait for the last.
//
//     step     compute (rank 2)           at the same time                           ┌─> 0 ─> 1 ─┐
//     0        own queries x own keys     own k, v ─> rank 3,  rank 1's arrive       3 <── 2 <───┘
//     1        own queries x rank 1's     rank 1's ─> rank 3,  rank 0's arrive
//     2, 3     ... x rank 0's, rank 3's   (in the last step nothing is sent)
//
// Each part's keys give a part of softmax's sum: o_a, with L_a = log(sum of e^score). merge() of
// nn/flash_attention.hpp puts two together, exactly.
//
// Backward: with the final L every probability is final, e^(score - L), whichever step computes it;
// so nothing is merged, and the parts' gradients add up. dq stays with its queries. k and v go
// round again, and the sums of dk and dv follow them, one step behind:
//
//     step     rank 2 finds dk, dv of     adds what rank 1 sent    sends to rank 3
//     0        rank 2: stays here                                  k, v alone
//     1        rank 1                                              the sum so far
//     2        rank 0                     rank 0's sum             the sum so far
//     3        rank 3                     rank 3's sum             the sum, which is home
//
// cp - 1 hops; each owner adds its own share of step 0 at the end. With bf16 inputs all that
// travels is bf16; the parts of o, and what a rank finds, are f32, and dk and dv are rounded once
// per hop.
//
// Cost per rank, m = B (T/cp) Hkv d numbers of k: forward 2(cp-1) messages of m, backward 4(cp-1).
// FLOPs: 2 B H d T^2/cp forward, 5 B H d T^2/cp backward, the same on every rank; with contiguous
// parts the last rank would have 2cp-1 times the first one's work. Memory: T/cp tokens of all; in
// flight two pairs (a hop's out and in), in backward four; there, too, f32 sums: dq, dk, dv, and
// the pair that is being found.
// Contract: all ranks of cp make the same calls with the same shapes and order; T/cp is even; a
// rank's tokens are its early chunk, then its late one (context_parallel.hpp deals them out, and
// has the AttentionCore that calls this). q and k are already turned by rope, each by its position
// in the whole sequence. Causal; no dropout. cp empty or of one rank: it attends to its own keys,
// and sends nothing.
// Letters: B batch, T tokens of the whole sequence, cp ranks, n tokens of a chunk (T / (2 cp)), H
// and Hkv query and key heads, d numbers per head, L a row's log(sum of e^score).
// References: Liu et al. (2023), Ring Attention; Brandon et al. (2023), Striped Attention
// (balance); Llama team (2024), section 3.3.2 (2 cp chunks); Dao et al. (2022), FlashAttention.
#pragma once

#include <array>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/narrow.hpp"

namespace yotta {

enum class ChunkOrder : uint8_t { zigzag, contiguous };

// Chunks on each rank: two; one if it is alone.
constexpr int64_t chunks_each(int ranks) { return ranks == 1 ? 1 : 2; }

// Which chunk of the sequence rank `rank` holds as its i-th (0 or 1).
constexpr int64_t chunk_of(int ranks, int rank, int64_t i, ChunkOrder order = ChunkOrder::zigzag) {
  if (order == ChunkOrder::contiguous) return chunks_each(ranks) * rank + i;
  return i == 0 ? rank : 2 * ranks - 1 - rank;
}

// Where this rank is in the ring, and how its part of the sequence is cut.
struct Ring {
  Communicator cp;  // may be empty: one rank
  int ranks, rank;
  int64_t n;  // tokens per chunk
  ChunkOrder order;

  int64_t chunks() const { return chunks_each(ranks); }
  // Whose keys are here in a step: those of rank - step, modulo the number of ranks.
  int source(int step) const { return wrap(rank - step, ranks); }

  // This rank's i-th chunk of queries against the j-th of rank `from`'s keys: n rows of q from i n
  // on, n of k from j n on. ahead: by how many tokens the queries are later than the keys in the
  // sequence; < 0 none is seen, 0 the diagonal, >= n all are seen.
  AttentionBlock block(int64_t i, int from, int64_t j) const {
    const int64_t queries = chunk_of(ranks, rank, i, order), keys = chunk_of(ranks, from, j, order);
    return {.query = i * n, .key = j * n, .length = n, .ahead = (queries - keys) * n};
  }
};

// The ring of cp for `columns` tokens on each rank. Errors: they cannot be cut into chunks.
inline Ring make_ring(const Communicator& cp, int64_t columns, ChunkOrder order, Where where) {
  const int ranks = axis_size(cp);
  if (columns % chunks_each(ranks) != 0)
    fail(where,
         "ring attention: {} tokens on each of {} ranks cannot be cut into 2 equal chunks; the "
         "whole sequence must be a multiple of {}: {} for instance",
         columns, ranks, 2 * ranks, (columns + 1) * ranks);
  return {cp, ranks, axis_rank(cp), columns / chunks_each(ranks), order};
}

// k and v, or dk and dv: (B, T/cp, Hkv, d) each.
using Pair = std::array<Tensor, 2>;
inline Pair as_type(const Pair& x, DType dtype) {
  return {as_type(x[0], dtype), as_type(x[1], dtype)};
}

// A pair on its way to the right, while the left neighbour's comes in. Until arrive(), `out` may be
// read but not written, `in` neither.
struct Hop {
  Pair out, in;
  std::array<Work, 4> works;

  Pair arrive(Where where = Where::current()) {
    for (Work& work : works) work.wait(where);
    return in;
  }
};
// A hop of keys and one of gradients are under way at the same time: tags keep them apart, and the
// two tensors of a pair.
inline constexpr int keys_tag = 0, gradients_tag = 1;
inline Hop start_hop(const Pair& out, const Ring& ring, int tag, Where where) {
  Hop hop{out, {empty_like(out[0], where), empty_like(out[1], where)}, {}};
  const int left = wrap(ring.rank - 1, ring.ranks), right = wrap(ring.rank + 1, ring.ranks);
  for (size_t i = 0; i < 2; ++i) {
    const int its_tag = 2 * tag + static_cast<int>(i);  // 0, 1: k, v; 2, 3: dk, dv
    hop.works[2 * i] = ring.cp.recv_async(hop.in[i], left, its_tag, where);
    hop.works[2 * i + 1] = ring.cp.send_async(hop.out[i], right, its_tag, where);
  }
  return hop;
}

// ---- forward -----------------------------------------------------------------------------------

// One o (B, n, H, d) and L (B, H, n) for each of this rank's chunks; f32 for bf16 inputs. q, k and
// v as in ring_attention. Step 0 comes first, so every query has seen itself before anything is
// merged.
inline std::vector<FlashAttention> attention_by_chunk(const Tensor& q, const Tensor& k,
                                                      const Tensor& v, const Ring& ring,
                                                      Where where) {
  std::vector<FlashAttention> sums(static_cast<size_t>(ring.chunks()));
  Pair here = {k, v};
  for (int step = 0; step < ring.ranks; ++step) {
    const bool last = step + 1 == ring.ranks;
    Hop hop;
    if (!last) hop = start_hop(here, ring, keys_tag, where);
    for (int64_t i = 0; i < ring.chunks(); ++i)
      for (int64_t j = 0; j < ring.chunks(); ++j) {
        const AttentionBlock block = ring.block(i, ring.source(step), j);
        if (block.ahead < 0) continue;  // all of these keys are later
        merge(sums[static_cast<size_t>(i)], attention_block(q, here[0], here[1], block, where));
      }
    if (!last) here = hop.arrive(where);
  }
  return sums;
}

// o (B, T/cp, H, d) and L (B, H, T/cp) of this rank's queries over the whole sequence's keys;
// q (B, T/cp, H, d), k and v (B, T/cp, Hkv, d).
inline FlashAttention ring_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Communicator& cp, ChunkOrder order = ChunkOrder::zigzag,
                                     Where where = Where::current()) {
  const Ring ring = make_ring(cp, q.dim(1), order, where);
  std::vector<Tensor> o, L;
  for (FlashAttention& each : attention_by_chunk(q, k, v, ring, where)) {
    o.push_back(std::move(each.o));
    L.push_back(std::move(each.log_sum_exp));
  }
  return {as_type(cat(o, 1, where), q.dtype()), cat(L, 2, where)};  // the chunks side by side
}

// ---- backward ----------------------------------------------------------------------------------

// sum += part, which came in the inputs' type; the sums are f32 for bf16.
inline void add_pair(Pair& sum, const Pair& part) {
  for (size_t i = 0; i < 2; ++i) add_into(sum[i], as_type(part[i], sum[i].dtype()));
}

// dq, dk, dv of this rank's part from dout (B, T/cp, H, d) and what the forward pass returned.
inline AttentionGradients ring_attention_backward(const Tensor& dout, const Tensor& q,
                                                  const Tensor& k, const Tensor& v,
                                                  const FlashAttention& saved,
                                                  const Communicator& cp,
                                                  ChunkOrder order = ChunkOrder::zigzag,
                                                  Where where = Where::current()) {
  const Ring ring = make_ring(cp, q.dim(1), order, where);
  AttentionGradients own{zero_sums(q, where), zero_sums(k, where), zero_sums(v, where)};
  Pair here = {k, v};
  Hop gradients;
  for (int step = 0; step < ring.ranks; ++step) {
    const bool last = step + 1 == ring.ranks;
    Hop hop;
    if (!last) hop = start_hop(here, ring, keys_tag, where);
    Pair part = {own.dk, own.dv};  // for the keys that are here: in step 0 this rank's own
    if (step > 0) part = {zero_sums(k, where), zero_sums(v, where)};
    AttentionGradients found{own.dq, part[0], part[1]};  // the same storage, to which blocks add
    for (int64_t i = 0; i < ring.chunks(); ++i)
      for (int64_t j = 0; j < ring.chunks(); ++j) {
        const AttentionBlock block = ring.block(i, ring.source(step), j);
        if (block.ahead < 0) continue;
        attention_block_backward(dout, q, here[0], here[1], saved, block, found, where);
      }
    if (!last) here = hop.arrive(where);
    if (step > 1) add_pair(part, gradients.arrive(where));
    if (step > 0) gradients = start_hop(as_type(part, k.dtype()), ring, gradients_tag, where);
  }
  Pair home = {own.dk, own.dv};
  if (ring.ranks > 1) add_pair(home, gradients.arrive(where));
  return rounded(std::move(own), q.dtype());
}

// ---- cost per rank; T: the whole sequence ----
constexpr int64_t ring_messages(int ranks) { return 2 * (ranks - 1); }
constexpr int64_t ring_backward_messages(int ranks) { return 4 * (ranks - 1); }
// Bytes sent for k and v of `bytes` on each rank, both together; backward sends dk and dv too.
constexpr int64_t ring_bytes(int ranks, int64_t bytes) { return (ranks - 1) * bytes; }
constexpr int64_t ring_backward_bytes(int ranks, int64_t bytes) { return 2 * (ranks - 1) * bytes; }
// Forward in f32 holds at most, beyond its arguments: two pairs k, v of `pair` bytes, o and L of
// `o` bytes and a chunk's part to merge next; at the end o and L twice, as chunks and joined.
constexpr int64_t ring_peak_bytes(int ranks, int64_t pair, int64_t o) {
  if (ranks == 1) return o;
  const int64_t in_flight = ranks == 2 ? pair : 2 * pair;
  return std::max(in_flight + o + o / 2, 2 * o);
}

// Tokens per rank from which a hop hides behind a step: 2 B H d (T/cp)^2 FLOPs take as long as
// 2 B (T/cp) Hkv d numbers on the wire. Backward has 2.5 times the FLOPs and twice the bytes, so it
// is hidden too, except for the last hop, which brings dk and dv home.
constexpr double ring_hidden_tokens(double flops_per_second, double bytes_per_second,
                                    int64_t bytes_per_number, int64_t heads, int64_t kv_heads) {
  return flops_per_second / bytes_per_second * static_cast<double>(bytes_per_number * kv_heads) /
         static_cast<double>(heads);
}

// Twice (to stay whole) the scores that a rank computes, of T^2 / 2 in all: chunk c sees c chunks
// and half of its own, so (2 c + 1) n^2.
constexpr int64_t ring_twice_seen(int ranks, int rank, int64_t T, ChunkOrder order) {
  const int64_t n = T / (chunks_each(ranks) * ranks);
  int64_t twice = 0;
  for (int64_t i = 0; i < chunks_each(ranks); ++i)
    twice += (2 * chunk_of(ranks, rank, i, order) + 1) * n * n;
  return twice;
}

}  // namespace yotta
