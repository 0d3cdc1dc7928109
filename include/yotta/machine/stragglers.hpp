// Disturbances: what real machines do to a timeline that a described one would not.
//
//     slow rank     rank 3's chip is hot: all its operations take 1.3 times as long
//     slow link     a cable between chips 7 and 8 is bad: messages over it take 4 times as long
//     jitter        every operation and message takes up to 10% longer, by chance
//
// One slow rank of many slows all of them: whoever adds up with it waits for it (a straggler). With jitter
// everybody is a straggler now and then: a step takes as long as the slowest of p draws, and grows with p.
//
// The chance is seeded: a draw depends on the seed, the rank, the lane and the number of the event on it, and
// on nothing else, so a run can be repeated bit for bit.
#pragma once

#include <vector>

#include "yotta/core/random.hpp"

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

// How much longer the event number `index` of a lane takes.
inline double jitter_factor(const Stragglers& d, int rank, int lane, int64_t index) {
  if (d.jitter == 0) return 1;
  const auto key = static_cast<uint32_t>(lane) * 0x9E3779B9u + static_cast<uint32_t>(rank);
  const Random random(d.seed ^ (uint64_t{key} << 16), "jitter");
  return 1 + d.jitter * random.uniform(static_cast<uint64_t>(index));
}
inline double rank_factor(const Stragglers& d, int rank) {
  double factor = 1;
  for (const SlowRank& slow : d.slow_ranks)
    if (slow.rank == rank) factor *= slow.factor;
  return factor;
}
inline double link_factor(const Stragglers& d, int from, int to) {
  double factor = 1;
  for (const SlowLink& slow : d.slow_links)
    if ((slow.one == from && slow.other == to) || (slow.one == to && slow.other == from))
      factor *= slow.factor;
  return factor;
}

}  // namespace yotta
