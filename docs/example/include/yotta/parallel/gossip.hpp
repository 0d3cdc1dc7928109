// Gossip: ranks come to agree on a mean while each talks to its two neighbours only.
//
// The problem: an all_reduce gives everybody the exact mean, and it needs everybody. Where a mean
// may be a little wrong, ranks average with their neighbours instead, round after round.
//
//                  rank 0    rank 1    rank 2    rank 3
//     start          9         0         0         0        mean 2.25
//     round 1        3         3         0         3        each: (left + own + right) / 3
//     round 2        3         2         2         2
//     round 3       2.33      2.33       2        2.33
//
// Cost, for N bytes: 2 messages and 2N bytes sent per rank and round; memory: N more.
//
// What is left of the differences shrinks by gossip_factor(p) per round or faster. For
// p ranks in a ring it is about 1 - 13/p^2, so a large ring needs many rounds: for 8 ranks 0.80,
// for 64 0.997.
//
// Contract: all ranks call with a tensor of the same shape and floating-point type, and the same
// number of rounds. The sum over the ranks stays what it was, to rounding.
// Letters: p ranks, n numbers, N bytes.
// Reference: Xiao & Boyd, "Fast linear iterations for distributed averaging", 2004.
#pragma once

#include <cmath>
#include <numbers>

#include "yotta/comm/communicator.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta {

// Averages x (n) with the two neighbours' in a ring, in place. What they send comes into from_left
// and from_right (n).
inline void gossip_round(Tensor& x, const Communicator& ring, Tensor& from_left,
                         Tensor& from_right) {
  const int p = ring.size();
  const int left = wrap(ring.rank() - 1, p), right = wrap(ring.rank() + 1, p);
  ring.send_recv(x, right, from_left, left);
  ring.send_recv(x, left, from_right, right);
  reduce_into(x, from_left, ReduceOp::sum);
  reduce_into(x, from_right, ReduceOp::sum);
  divide(x, 3);
}

// The same `rounds` times.
inline void gossip(Tensor& x, const Communicator& ring, int rounds) {
  Tensor from_left = Tensor::empty(x.shape(), x.dtype());   // (n)
  Tensor from_right = Tensor::empty(x.shape(), x.dtype());  // (n)
  for (int round = 0; round < rounds && ring.size() > 1; ++round)
    gossip_round(x, ring, from_left, from_right);
}

// How much of the differences is left after a round, at most.
inline double gossip_factor(int p) {
  double largest = 0;  // of the averaging matrix's eigenvalues but 1, which belongs to the mean
  for (int k = 1; k < p; ++k)
    largest = std::max(largest, std::abs(1 + 2 * std::cos(2 * std::numbers::pi * k / p)) / 3);
  return largest;
}

// Bytes that one of p ranks sends.
constexpr int64_t gossip_bytes_sent(int p, int rounds, int64_t bytes) {
  return p == 1 ? 0 : 2 * rounds * bytes;
}

}  // namespace yotta
