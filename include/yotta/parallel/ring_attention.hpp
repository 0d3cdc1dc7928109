// Ring attention: one sequence on cp ranks. Every rank has the queries, keys and values of its own
// part; the keys and values go round a ring, and of every part that comes by, each rank's queries
// attend to the keys that they may see.
//
//     chunks of each rank, cp = 4 (zig-zag)     o: a chunk of keys a row's queries see, \: half
//     rank 0   [0 . . . . . . 7]                0  \                  rank 0: 1/2 + 7 1/2 = 8 o
//     rank 1   [. 1 . . . . 6 .]                1  o \                rank 1: 1 1/2 + 6 1/2 = 8 o
//     rank 2   [. . 2 . . 5 . .]                :  o o \              rank 2: 2 1/2 + 5 1/2 = 8 o
//     rank 3   [. . . 3 4 . . .]                7  o o o o o o o \    rank 3: 3 1/2 + 4 1/2 = 8 o
//
//     step     compute (rank 2)           at the same time                           ┌─> 0 ─> 1 ─┐
//     0        own queries x own keys     own k, v ─> rank 3,  rank 1's arrive       3 <── 2 <───┘
//     1        own queries x rank 1's     rank 1's ─> rank 3,  rank 0's arrive
//     2, 3     ... x rank 0's, rank 3's   (in the last step nothing is sent)
//
// Each part's keys give a part of softmax's sum: o_a, with L_a = log(sum of e^score). To merge two:
//     L = log(e^L_a + e^L_b)        o = e^(L_a - L) o_a + e^(L_b - L) o_b
// which is exact. A part that saw nothing has L = -infinity and weighs nothing.
//
// Backward: k and v go round again, and dk and dv follow them: each rank adds what it finds to the
// sum that comes from the left, and sends it on. What the keys' owner finds stays there; so the sum
// starts at its right neighbour, and is home after cp - 1 hops. With bf16 inputs all that travels
// is bf16; the parts of o, and what a rank finds, are f32, and dk and dv are rounded once per hop.
//
// Cost per rank, n = B (T/cp) Hkv d numbers of k: forward 2(cp-1) messages of n, backward 4(cp-1).
// FLOPs: 2 B H d T^2/cp forward, the same on every rank; with contiguous parts the last rank would
// have 2cp-1 times the first one's work. Memory: T/cp tokens, and two pairs in flight (backward 4).
// Contract: all ranks of cp make the same calls; T/cp is even; a rank's columns are its early
// chunk, then its late one (context_parallel.hpp).
// Letters: B batch, T whole sequence, cp ranks, H and Hkv query and key heads, d numbers per head.
// References: Liu et al. (2023), Ring Attention; Brandon et al. (2023), Striped Attention
// (balance); Llama team (2024), section 3.3.2 (2 cp chunks); Dao et al. (2022), FlashAttention.
#pragma once

#include <array>
#include <limits>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/attention_blockwise.hpp"
#include "yotta/nn/cpu/body.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/narrow.hpp"

namespace yotta {

enum class ChunkOrder : uint8_t { zigzag, contiguous };

// Chunks on each rank: two, or the whole sequence as one.
constexpr int64_t chunks_each(int ranks) { return ranks == 1 ? 1 : 2; }

// Which of the 2 `ranks` chunks of the sequence rank `rank` holds as its i-th (0 or 1).
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

  // This rank's i-th chunk of queries against the j-th chunk of rank `from`'s keys.
  AttentionBlock block(int64_t i, int from, int64_t j) const {
    const int64_t queries = chunk_of(ranks, rank, i, order), keys = chunk_of(ranks, from, j, order);
    return {i * n, j * n, n, (queries - keys) * n};
  }
};

// The ring of cp for `columns` tokens per rank. Errors: they cannot be cut into chunks.
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

// A pair on its way to the right, while the left neighbour's comes in. Neither may be read or
// written before arrive().
struct Hop {
  Pair out, in;
  std::array<Work, 4> works;

  Pair arrive(Where where = Where::current()) {
    for (Work& work : works) work.wait(where);
    return in;
  }
};
inline Hop start_hop(const Pair& out, const Ring& ring, int tag, Where where) {
  Hop hop{out, {empty_like(out[0], where), empty_like(out[1], where)}, {}};
  const int left = wrap(ring.rank - 1, ring.ranks), right = wrap(ring.rank + 1, ring.ranks);
  for (size_t i = 0; i < 2; ++i) {
    const int its_tag = 2 * tag + static_cast<int>(i);
    hop.works[2 * i] = ring.cp.recv_async(hop.in[i], left, its_tag, where);
    hop.works[2 * i + 1] = ring.cp.send_async(hop.out[i], right, its_tag, where);
  }
  return hop;
}
inline constexpr int keys_tag = 0, gradients_tag = 1;

// What two parts of one query's sum weigh in the whole, and the whole's log-sum-exp.
template <class Real>
struct MergeWeights {
  Real first = 0, second = 0, log_sum_exp = 0;
};
template <class Real>
YOTTA_HOST_DEVICE MergeWeights<Real> merge_weights(Real first, Real second) {
  const Real most = std::max(first, second);
  if (most == -std::numeric_limits<Real>::infinity()) return {0, 0, most};
  const Real a = std::exp(first - most), b = std::exp(second - most);
  return {a / (a + b), b / (a + b), most + std::log(a + b)};
}

// merge() of one row: one query of one head, in L's order (sequence, head, token). `team` is one
// thread of a CPU or one warp of a GPU; `count`: so many numbers at once (nn/cpu/body.hpp).
template <class Real>
struct MergeRow {
  int64_t n, H, d;
  Real *o, *L;                  // (B, n, H, d), (B, H, n): the sum
  const Real *part_o, *part_L;  // what is merged
  template <class Team>
  YOTTA_BODY void operator()(int64_t i, Team team) const {
    const int64_t b = i / (H * n), h = i / n % H, t = i % n, row = ((b * n + t) * H + h) * d;
    const MergeWeights<Real> w = merge_weights(L[i], part_L[i]);
    team.each(d, [&](int64_t c, auto count) {
      Real* const to = o + row + c;
      store(to, w.first * load(to, count) + w.second * load(part_o + row + c, count), count);
    });
    team.meet();  // all have read L
    team.once([&] { L[i] = w.log_sum_exp; });
  }
};

// Merges one more part of the same queries into sum, o (B, n, H, d) and L (B, H, n). An undefined
// sum becomes the part.
inline void merge(BlockwiseAttention& sum, const BlockwiseAttention& part,
                  Where where = Where::current()) {
  if (!sum.o.defined()) return void(sum = part);
  expect_same("merge", "o", sum.o, "the part's o", part.o, where);
  const int64_t n = sum.o.dim(1), H = sum.o.dim(2), d = sum.o.dim(3),
                rows = part.log_sum_exp.numel();
  charge(attention_merge_cost(sum.o.dtype(), rows, d));
  const Device device = sum.o.device();
  if (device == Device::meta) return;
  visit_real(sum.o.dtype(), where, [&]<class Real>(Type<Real>) {
    const auto at = [&](auto& x) { return x.template address<Real>(device, where); };
    const MergeRow<Real> body{
        n, H, d, at(sum.o), at(sum.log_sum_exp), at(part.o), at(part.log_sum_exp)};
    run_rows<Real>("attention_merge", device, rows, d, body, where);
  });
}

inline std::vector<BlockwiseAttention> attention_by_chunk(const Tensor& q, const Tensor& k,
                                                          const Tensor& v, const Ring& ring,
                                                          Where where) {
  std::vector<BlockwiseAttention> sums(static_cast<size_t>(ring.chunks()));
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
inline Pair as_type(const Pair& x, DType dtype) {
  return {as_type(x[0], dtype), as_type(x[1], dtype)};
}

// o (B, T/cp, H, d) and L (B, H, T/cp) of this rank's queries over the whole sequence's keys;
// q (B, T/cp, H, d), k and v (B, T/cp, Hkv, d).
inline BlockwiseAttention ring_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const Communicator& cp,
                                         ChunkOrder order = ChunkOrder::zigzag,
                                         Where where = Where::current()) {
  const Ring ring = make_ring(cp, q.dim(1), order, where);
  std::vector<Tensor> o, L;
  for (BlockwiseAttention& each : attention_by_chunk(q, k, v, ring, where)) {
    o.push_back(std::move(each.o));
    L.push_back(std::move(each.log_sum_exp));
  }
  return {as_type(cat(o, 1, where), q.dtype()), cat(L, 2, where)};  // the chunks side by side
}

// dk and dv that have come, to the sums, which are f32 for bf16.
inline void add_pair(Pair& sum, const Pair& part) {
  for (size_t i = 0; i < 2; ++i) add_into(sum[i], as_type(part[i], sum[i].dtype()));
}

// dq, dk, dv of this rank's part from dout (B, T/cp, H, d) and what the forward pass returned.
inline AttentionGradients ring_attention_backward(const Tensor& dout, const Tensor& q,
                                                  const Tensor& k, const Tensor& v,
                                                  const BlockwiseAttention& saved,
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
    AttentionGradients found{own.dq, part[0], part[1]};
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

// ---- cost per rank; T: the whole sequence (not in the exercise) ----
constexpr int64_t ring_messages(int ranks) { return 2 * (ranks - 1); }
constexpr int64_t ring_backward_messages(int ranks) { return 4 * (ranks - 1); }
// Bytes sent for k and v of `bytes` on each rank, both together; backward sends dk and dv too.
constexpr int64_t ring_bytes(int ranks, int64_t bytes) { return (ranks - 1) * bytes; }
constexpr int64_t ring_backward_bytes(int ranks, int64_t bytes) { return 2 * (ranks - 1) * bytes; }
// Forward holds at most, beyond its arguments: two pairs k, v of `pair` bytes, o and L of `o` bytes
// and a chunk's part to merge next; at the end one pair, and o and L twice, as chunks and joined.
constexpr int64_t ring_peak_bytes(int ranks, int64_t pair, int64_t o) {
  if (ranks == 1) return o;
  const int64_t in_flight = ranks == 2 ? pair : 2 * pair;
  return std::max(in_flight + o + o / 2, pair + 2 * o);
}

// How many tokens a rank needs for a hop to hide behind a step: 2 B H d (T/cp)^2 FLOPs against
// 2 B (T/cp) Hkv d numbers. Backward has 2.5 times the FLOPs and twice the bytes, so it is hidden
// too, except for the last hop, which brings dk and dv home.
constexpr double ring_hidden_tokens(double flops_per_second, double bytes_per_second,
                                    int64_t bytes_per_number, int64_t heads, int64_t kv_heads) {
  return flops_per_second / bytes_per_second * static_cast<double>(bytes_per_number * kv_heads) /
         static_cast<double>(heads);
}

// Twice the scores that a rank computes (of T^2 in all): its chunks c, each (2 c + 1) n^2.
constexpr int64_t ring_twice_seen(int ranks, int rank, int64_t T, ChunkOrder order) {
  const int64_t n = T / (chunks_each(ranks) * ranks);
  int64_t twice = 0;
  for (int64_t i = 0; i < chunks_each(ranks); ++i)
    twice += (2 * chunk_of(ranks, rank, i, order) + 1) * n * n;
  return twice;
}

}  // namespace yotta
