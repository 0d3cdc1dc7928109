// Stragglers: what slows a real machine down, added to one that is only described.
//
//     slow rank     rank 3's chip is hot: all its operations take 1.3 times as long
//     slow link     a cable between chips 7 and 8 is bad: messages over it take 4 times as long
//     jitter        every operation and message takes up to 10% longer, at random
//
// One slow rank slows all the others: every rank that adds up gradients with it waits for it. With
// jitter every rank is a straggler now and then: a step takes as long as the slowest of p draws,
// which grows with p.
//
// The draws are seeded. A draw depends only on the seed, the rank, the lane and the number of the
// event on that lane, so a run can be repeated bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "yotta/core/error.hpp"

namespace yotta {

struct SlowRank {
  int rank;
  double factor;  // its operations take so many times as long
};
struct SlowLink {
  int one, other;  // chips; both directions
  double factor;
};

struct Stragglers {
  double jitter = 0;  // every event takes 1 to 1 + jitter times as long
  uint64_t seed = 0;
  std::vector<SlowRank> slow_ranks = {};
  std::vector<SlowLink> slow_links = {};

  bool any() const { return jitter != 0 || !slow_ranks.empty() || !slow_links.empty(); }
};

// Throws unless each is slower, or faster, by a number.
void check_stragglers(const Stragglers& stragglers, Where where = Where::current());

// How many times as long event number `index` of a lane takes.
double jitter_factor(const Stragglers& stragglers, int rank, int lane, int64_t index);
// The same for all operations of a rank, and for all messages between two chips.
double rank_factor(const Stragglers& stragglers, int rank);
double link_factor(const Stragglers& stragglers, int from, int to);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/impl/stragglers.ipp"
#endif
