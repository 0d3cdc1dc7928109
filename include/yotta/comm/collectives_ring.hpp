// The ring: all_reduce, reduce_scatter and all_gather that move no byte more than they must.
//
// The problem: p ranks hold a gradient of n numbers each and all need the sum. If everybody sends
// theirs to rank 0, rank 0's link carries (p-1) n numbers while the others stand idle. In a ring
// all links work at all times: cut the numbers into p chunks and let every rank talk to its two
// neighbours only.
//
// reduce_scatter: p - 1 steps. The sum of chunk c starts at rank c + 1 and travels once round the
// ring; each rank it visits adds its own part; it ends at rank c. For p = 4 (a1 = rank 1's part of
// chunk a):
//
//              rank 0        rank 1        rank 2        rank 3
//   start      d0 ─►         a1 ─►         b2 ─►         c3 ─►        and rank 3 sends to rank 0
//   step 1     c3+c0 ─►      d0+d1 ─►      a1+a2 ─►      b2+b3 ─►
//   step 2     b2+b3+b0 ─►   c3+c0+c1 ─►   d0+d1+d2 ─►   a1+a2+a3 ─►
//   step 3     all of a      all of b      all of c      all of d
//
// all_gather: p - 1 more steps. Every rank passes on the chunk that it got last, until every rank
// has all chunks.
//
//   start      a ─►         b ─►         c ─►          d ─►
//   step 1     a d ─►       a b ─►       b c ─►        c d ─►      sends what came last: d, a, b, c
//   step 2     a c d ─►     a b d ─►     a b c ─►      b c d ─►
//   step 3     a b c d      a b c d      a b c d       a b c d
//
// all_reduce is the one after the other. N bytes in all, per rank:
//
//                      messages    bytes sent      seconds
//   reduce_scatter     p-1         (p-1)/p N       (p-1) alpha +  (p-1)/p N (beta + gamma)
//   all_gather         p-1         (p-1)/p N       (p-1) alpha +  (p-1)/p N beta
//   all_reduce         2(p-1)      2(p-1)/p N      2(p-1) alpha + 2(p-1)/p N beta + (p-1)/p N gamma
//
// No all_reduce in which only ranks add can send less (Patarasu & Yuan). The price is 2(p-1)
// messages one after the other: for small n a tree is faster (collectives_tree.hpp,
// collectives_recursive.hpp).
//
// Contract: all ranks call with the same n, type and operation. Any p and any n: where p does not
// divide n the first n % p chunks are one longer. Every chunk is summed in one order, so all ranks
// end with the same bits.
// Letters: channel.hpp.
// Reference: Patarasu & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009; made known to deep learning by Gibiansky (Baidu), 2017; NCCL's ring.
#pragma once

#include "yotta/comm/channel.hpp"

namespace yotta {

// Rank r ends with chunk r of the sum. `in` has n elements, `out` those of chunk r; `out` may be
// chunk r of `in` itself.
inline void reduce_scatter_ring(Channel& ring, ConstData in, Data out, ReduceOp op) {
  const int p = ring.size(), rank = ring.rank();
  const int next = wrap(rank + 1, p), previous = wrap(rank - 1, p);
  Tensor buffers[2] = {scratch(chunk_count(in.count, p, 0), in),
                       scratch(chunk_count(in.count, p, 0), in)};
  ConstData sum = in.chunk(previous, p);
  for (int step = 1; step < p; ++step) {
    const ConstData mine = in.chunk(wrap(rank - 1 - step, p), p);
    const Data arriving = Data(buffers[step % 2]).part(0, mine.count);
    ring.send_recv(sum, next, arriving, previous);
    reduce_into(arriving, mine, op);
    sum = arriving;
  }
  copy_data(sum, out);
}

// Every rank ends with all n elements. `in` is this rank's chunk of them; it may lie in its place
// in `out` already.
inline void all_gather_ring(Channel& ring, ConstData in, Data out) {
  const int p = ring.size(), rank = ring.rank();
  const int next = wrap(rank + 1, p), previous = wrap(rank - 1, p);
  copy_data(in, out.chunk(rank, p));
  for (int step = 1; step < p; ++step) {
    const Data newest = out.chunk(wrap(rank + 1 - step, p), p);
    const Data arriving = out.chunk(wrap(rank - step, p), p);
    ring.send_recv(newest, next, arriving, previous);
  }
}

// Every rank ends with the sum of all ranks' n elements, in place.
inline void all_reduce_ring(Channel& ring, Data data, ReduceOp op) {
  const Data mine = data.chunk(ring.rank(), ring.size());
  reduce_scatter_ring(ring, data, mine, op);
  all_gather_ring(ring, mine, data);
}

// Bytes that rank `rank` sends in all_reduce_ring of n elements of `width` bytes: exact, for any p
// and n.
constexpr int64_t ring_bytes_sent(int p, int rank, int64_t n, int64_t width) {
  int64_t elements = 0;
  elements += n - chunk_count(n, p, rank);               // all but its own
  elements += n - chunk_count(n, p, wrap(rank + 1, p));  // all but its neighbour's
  return elements * width;
}

// Exact costs: what rank `rank` sends.
constexpr Sent reduce_scatter_ring_sent(int p, int rank, int64_t n, int64_t width) {
  return {p - 1, (n - chunk_count(n, p, rank)) * width};
}
constexpr Sent all_gather_ring_sent(int p, int rank, int64_t n, int64_t width) {
  return {p - 1, (n - chunk_count(n, p, wrap(rank + 1, p))) * width};
}
constexpr Sent all_reduce_ring_sent(int p, int rank, int64_t n, int64_t width) {
  return {2 * (p - 1), ring_bytes_sent(p, rank, n, width)};
}

// Published costs, for any p that divides n.
constexpr double reduce_scatter_ring_seconds(int p, double bytes, AlphaBeta link) {
  return (p - 1) * link.alpha + (p - 1.0) / p * bytes * (link.beta + link.gamma);
}
constexpr double all_gather_ring_seconds(int p, double bytes, AlphaBeta link) {
  return (p - 1) * link.alpha + (p - 1.0) / p * bytes * link.beta;
}
constexpr double all_reduce_ring_seconds(int p, double bytes, AlphaBeta link) {
  return reduce_scatter_ring_seconds(p, bytes, link) + all_gather_ring_seconds(p, bytes, link);
}

}  // namespace yotta
