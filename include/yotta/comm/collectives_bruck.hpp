// Bruck's algorithms and the dissemination barrier: ceil(lg p) rounds for any p, with no partners.
//
// In round k every rank talks to the ranks 2^k before and after it. What one rank knows has reached
// 2, then 4, then 8 ranks, and p need not be a power of two: the last round only sends less.
//
//     all_gather, p = 5; a row is what a rank has, counted from its own chunk
//                 rank 0     rank 1     rank 2     rank 3     rank 4
//     start       a          b          c          d          e
//     1 from r+1  ab         bc         cd         de         ea
//     2 from r+2  abcd       bcde       cdea       deab       eabc
//     1 from r+4  abcde      bcdea      cdeab      deabc      eabcd      then rotate: abcde
//
// all_to_all: the block for the rank j places ahead must travel j places. Write j in binary: in
// round k all blocks whose j has bit k move 2^k places. Each block travels once for each 1 in its
// j, so bytes grow from (p-1)/p N to lg p N/2, and messages fall from p-1 to ceil(lg p): a gain for
// short arrays only.
//
//                                messages       bytes sent         seconds
//     all_gather                 ceil(lg p)     (p-1)/p N          ceil(lg p) a + (p-1)/p N b
//     all_to_all                 ceil(lg p)     lg p N/2           lg p (a + N/2 b)
//     barrier (dissemination)    ceil(lg p)     0                  ceil(lg p) a
//
// Contract: any p and n.
// References: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all
// communications in multiport message-passing systems", 1997; Hensgen, Finkel, Manber, "Two
// algorithms for barrier synchronization", 1988.
#pragma once

#include "yotta/comm/channel.hpp"

namespace yotta {

// All ranks end with all n elements; `in` is this rank's chunk.
inline void all_gather_bruck(Channel& channel, ConstData in, Data out) {
  const int p = channel.size(), rank = channel.rank();
  const int64_t n = out.count;
  Tensor buffer = scratch(n, out);  // chunks rank, rank + 1, ..., going round
  const Data rotated = buffer;
  copy_data(in, rotated.part(0, in.count));
  for (int have = 1; have < p; have *= 2) {
    const int more = std::min(have, p - have);
    const int64_t begin = chunks_count(n, p, rank, have);
    const int64_t end = chunks_count(n, p, rank, have + more);
    channel.send_recv(rotated.part(0, chunks_count(n, p, rank, more)), wrap(rank - have, p),
                      rotated.part(begin, end), wrap(rank + have, p));
  }
  const int64_t before = chunk_begin(n, p, rank);
  copy_data(rotated.part(0, n - before), out.part(before, n));
  copy_data(rotated.part(n - before, n), out.part(0, before));
}

// Where a block of an all_to_all is bound for: it lies on `rank`, has j places to go in all, and
// the rounds before `step` are done.
constexpr int bruck_target(int p, int rank, int j, int step) {
  return wrap(rank + j - j % step, p);
}

// Chunk j of `in` goes to rank j; `out` holds chunk `rank` of rank 0, of rank 1, ...
inline void all_to_all_bruck(Channel& channel, ConstData in, Data out) {
  const int p = channel.size(), rank = channel.rank();
  const int64_t longest = chunk_count(in.count, p, 0);
  Tensor blocks_buffer = scratch(p * longest, in);
  Tensor leaving_buffer = scratch(p * longest, in);
  Tensor arriving_buffer = scratch(p * longest, in);
  const Data blocks = blocks_buffer, leaving = leaving_buffer, arriving = arriving_buffer;
  const auto block = [&](int j, int on,
                         int step) {  // the block with j places to go, now on rank `on`
    const int64_t count = chunk_count(in.count, p, bruck_target(p, on, j, step));
    return blocks.part(j * longest, j * longest + count);
  };
  for (int j = 0; j < p; ++j) copy_data(in.chunk(wrap(rank + j, p), p), block(j, rank, 1));
  for (int step = 1; step < p; step *= 2) {
    const int from = wrap(rank - step, p);
    int64_t sent = 0, received = 0;
    for (int j = step; j < p; ++j) {
      if ((j & step) == 0) continue;
      const Data mine = block(j, rank, step);
      copy_data(mine, leaving.part(sent, sent + mine.count));
      sent += mine.count;
      received += block(j, from, step).count;
    }
    channel.send_recv(leaving.part(0, sent), wrap(rank + step, p), arriving.part(0, received),
                      from);
    for (int64_t j = step, done = 0; j < p; ++j) {
      if ((j & step) == 0) continue;
      const Data place = block(static_cast<int>(j), from, step);
      copy_data(arriving.part(done, done + place.count), place);
      done += place.count;
    }
  }
  for (int j = 0; j < p; ++j)  // a block that went j places came from j places back
    copy_data(blocks.part(j * longest, j * longest + chunk_count(in.count, p, rank)),
              out.chunk(wrap(rank - j, p), p));
}

// No rank leaves before every rank has arrived.
inline void barrier_dissemination(Channel& channel) {
  const int p = channel.size(), rank = channel.rank();
  for (int distance = 1; distance < p; distance *= 2)
    channel.send_recv(ConstData(), wrap(rank + distance, p), Data(), wrap(rank - distance, p));
}

// Exact costs: what rank `rank` sends.
constexpr Sent all_gather_bruck_sent(int p, int rank, int64_t n, int64_t width) {
  int64_t count = 0;
  for (int have = 1; have < p; have *= 2)
    count += chunks_count(n, p, rank, std::min(have, p - have));
  return {ceil_log2(p), count * width};
}
constexpr Sent all_to_all_bruck_sent(int p, int rank, int64_t n, int64_t width) {
  int64_t count = 0;
  for (int step = 1; step < p; step *= 2)
    for (int j = step; j < p; ++j)
      if ((j & step) != 0) count += chunk_count(n, p, bruck_target(p, rank, j, step));
  return {ceil_log2(p), count * width};
}
constexpr Sent barrier_dissemination_sent(int p) { return {ceil_log2(p), 0}; }

// Published costs (all_to_all: p a power of two, or it throws).
constexpr double all_gather_bruck_seconds(int p, double bytes, AlphaBeta link) {
  return ceil_log2(p) * link.alpha + (p - 1.0) / p * bytes * link.beta;
}
constexpr double all_to_all_bruck_seconds(int p, double bytes, AlphaBeta link) {
  return log2_of_ranks("all_to_all_bruck", p) * (link.alpha + bytes / 2 * link.beta);
}
constexpr double barrier_dissemination_seconds(int p, AlphaBeta link) {
  return ceil_log2(p) * link.alpha;
}

}  // namespace yotta
