// Pairwise exchange: all_to_all in p - 1 steps, each byte sent once and straight to where it
// belongs.
//
//     p = 4        step 1           step 2           step 3
//     rank 0       to 1, from 3     to 2, from 2     to 3, from 1
//     rank 1       to 2, from 0     to 3, from 3     to 0, from 2
//     rank 2       to 3, from 1     to 0, from 0     to 1, from 3
//     rank 3       to 0, from 2     to 1, from 1     to 2, from 0
//
// all_to_all is a transpose. Row i is rank i's data; afterwards rank j holds column j:
//
//     rank 0   a0 a1 a2 a3            a0 b0 c0 d0
//     rank 1   b0 b1 b2 b3     ─►     a1 b1 c1 d1
//     rank 2   c0 c1 c2 c3            a2 b2 c2 d2
//     rank 3   d0 d1 d2 d3            a3 b3 c3 d3
//
// In every step each rank sends one block and receives one, so no link is used twice at once.
// Cost: p-1 messages, (p-1)/p N bytes, (p-1) a + (p-1)/p N b: for long messages; Bruck's
// (collectives_bruck.hpp) for short ones.
// Contract: any p and n. In the uneven form in_counts[j] elements go to rank j and out_counts[i]
// come from rank i, one after the other in both arrays; rank i's in_counts[j] is rank j's
// out_counts[i].
// References: collectives_common.hpp.
#pragma once

#include <numeric>
#include <span>

#include "yotta/comm/collectives_common.hpp"

namespace yotta {

// The run of elements that lies after those of ranks 0 to i - 1: works for Data and ConstData.
template <class AnyData>
AnyData run_of(AnyData data, Counts counts, int i) {
  const int64_t begin = std::accumulate(counts.begin(), counts.begin() + i, int64_t{0});
  return data.part(begin, begin + counts[static_cast<size_t>(i)]);
}

// in_counts[j] numbers of `in` go to rank j, out_counts[j] come from it; both lie in the order of
// ranks.
inline void all_to_all_v_pairwise(Channel& channel, ConstData in, Counts in_counts, Data out,
                                  Counts out_counts) {
  const int p = channel.size(), rank = channel.rank();
  copy_data(run_of(in, in_counts, rank), run_of(out, out_counts, rank));
  for (int step = 1; step < p; ++step) {
    const int to = wrap(rank + step, p), from = wrap(rank - step, p);
    channel.send_recv(run_of(in, in_counts, to), to, run_of(out, out_counts, from), from);
  }
}

// Chunk j of `in` goes to rank j; `out` holds chunk `rank` of rank 0, of rank 1, ...: p times the
// count of chunk `rank`.
inline void all_to_all_pairwise(Channel& channel, ConstData in, Data out) {
  const int p = channel.size(), rank = channel.rank();
  copy_data(in.chunk(rank, p), out.chunk(rank, p));
  for (int step = 1; step < p; ++step) {
    const int to = wrap(rank + step, p), from = wrap(rank - step, p);
    channel.send_recv(in.chunk(to, p), to, out.chunk(from, p), from);
  }
}

// Exact costs: what rank `rank` sends.
constexpr Sent all_to_all_pairwise_sent(int p, int rank, int64_t n, int64_t width) {
  return {p - 1, (n - chunk_count(n, p, rank)) * width};
}
inline Sent all_to_all_v_pairwise_sent(int rank, Counts in_counts, int64_t width) {
  const int64_t all = std::accumulate(in_counts.begin(), in_counts.end(), int64_t{0});
  return {std::ssize(in_counts) - 1, (all - in_counts[static_cast<size_t>(rank)]) * width};
}

// Published cost, for any p that divides n.
constexpr double all_to_all_pairwise_seconds(int p, double bytes, AlphaBeta link) {
  return (p - 1) * link.alpha + (p - 1.0) / p * bytes * link.beta;
}

}  // namespace yotta
