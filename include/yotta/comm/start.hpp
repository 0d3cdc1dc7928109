// First steps with ranks: a mean, a pass to the right, a counter that all ranks share.
//
// Three small functions, and the first mistake that is made in each.
//
// mean_over_ranks: all_reduce gives every rank the sum. The mean is the sum divided by p.
//
//              rank 0     rank 1     rank 2
//     before   3          5          10
//     sum      18         18         18         forgotten division: p times too large
//     mean     6          6          6
//
// pass_right: every rank gives its numbers to the next one, and the last to the first.
//
//              rank 0 ──► rank 1 ──► rank 2 ──┐
//              ▲                              │
//              └──────────────────────────────┘
//
//   If every rank receives before it sends, each waits for a message that nobody has sent: a
//   deadlock. If every rank sends first, it works only as long as a send copies and returns.
//   send_recv does both at once.
//
// add_to_counter: every rank has found some things, and a counter that all share is to grow by all
//   of them. If each rank reads it, adds and writes, additions are lost (race.hpp). Without a race:
//   the ranks add up what they have found, one rank writes, and tells the others the new value.
//
// Per rank, for n numbers of 4 bytes (all_reduce as a ring):
//
//                        messages     bytes sent
//     mean_over_ranks    2(p-1)       2(p-1)/p 4n
//     pass_right         1            4n                with one rank: to itself
//     add_to_counter     2(p-1)       2(p-1)/p 8        rank 0 reads and writes once, and
//                                                       broadcasts 8 bytes
//
// Contract: all ranks call, with the same n.
// Letters: p ranks, n numbers (f32).
#pragma once

#include "yotta/comm/communicator.hpp"
#include "yotta/comm/race.hpp"

namespace yotta {

// Every rank ends with the mean of all ranks' numbers, element by element, in x (n) itself.
inline void mean_over_ranks(const Communicator& world, std::vector<float>& x) {
  world.all_reduce(x);
  for (float& value : x) value /= static_cast<float>(world.size());
}

// What the rank on the left has in `mine` (n): rank 2 gets rank 1's, rank 0 gets the last rank's.
inline std::vector<float> pass_right(const Communicator& world, const std::vector<float>& mine) {
  const int p = world.size(), right = (world.rank() + 1) % p, left = (world.rank() + p - 1) % p;
  std::vector<float> theirs(mine.size());
  world.send_recv(mine, right, theirs, left);
  return theirs;
}

// The counter, which all ranks share, grows by what all ranks together have found. Every rank
// returns what it is then.
inline int64_t add_to_counter(const Communicator& world, SharedCounter& counter, int64_t found) {
  std::vector<int64_t> total = {found};
  world.all_reduce(total);
  if (world.rank() == 0) {
    total[0] += counter.read();
    counter.write(total[0]);
  }
  world.broadcast(total, 0);
  return total[0];
}

}  // namespace yotta
