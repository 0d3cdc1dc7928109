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

#include "yotta/core/system/build.hpp"

#if YOTTA_BODIES_OF(machine)
#include "yotta/core/random.hpp"
#endif  // YOTTA_BODIES

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

// How many times as long event number `index` of a lane takes.
YOTTA_API double jitter_factor(const Stragglers& stragglers, int rank, int lane, int64_t index);
// The same for all operations of a rank, and for all messages between two chips.
YOTTA_API double rank_factor(const Stragglers& stragglers, int rank);
YOTTA_API double link_factor(const Stragglers& stragglers, int from, int to);

#if YOTTA_BODIES_OF(machine)
double jitter_factor(const Stragglers& stragglers, int rank, int lane, int64_t index) {
  if (stragglers.jitter == 0) return 1;
  const auto key = static_cast<uint32_t>(lane) * 0x9E3779B9u + static_cast<uint32_t>(rank);
  const Random random(stragglers.seed ^ (uint64_t{key} << 16), "jitter");
  return 1 + stragglers.jitter * random.uniform(static_cast<uint64_t>(index));
}

double rank_factor(const Stragglers& stragglers, int rank) {
  double factor = 1;
  for (const SlowRank& slow : stragglers.slow_ranks)
    if (slow.rank == rank) factor *= slow.factor;
  return factor;
}

double link_factor(const Stragglers& stragglers, int from, int to) {
  double factor = 1;
  for (const SlowLink& slow : stragglers.slow_links)
    if ((slow.one == from && slow.other == to) || (slow.one == to && slow.other == from))
      factor *= slow.factor;
  return factor;
}
#endif  // YOTTA_BODIES

}  // namespace yotta
