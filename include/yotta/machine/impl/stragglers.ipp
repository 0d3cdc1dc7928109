// The bodies of machine/stragglers.hpp.
#pragma once

#include "yotta/machine/stragglers.hpp"

#include "yotta/core/options.hpp"
#include "yotta/core/random.hpp"

namespace yotta {

YOTTA_INLINE void check_stragglers(const Stragglers& stragglers, Where where) {
  check_option(where, "Stragglers::jitter", stragglers, &Stragglers::jitter, zero_or_more);
  for (const SlowRank& slow : stragglers.slow_ranks)
    check_number(where, "SlowRank::factor", slow.factor, above_zero, "; 2 is half as fast");
  for (const SlowLink& slow : stragglers.slow_links)
    check_number(where, "SlowLink::factor", slow.factor, above_zero, "; 2 is half as fast");
}

YOTTA_INLINE double jitter_factor(const Stragglers& stragglers, int rank, int lane, int64_t index) {
  if (stragglers.jitter == 0) return 1;
  const auto key = static_cast<uint32_t>(lane) * 0x9E3779B9u + static_cast<uint32_t>(rank);
  const Random random(stragglers.seed ^ (uint64_t{key} << 16), "jitter");
  return 1 + stragglers.jitter * random.uniform(static_cast<uint64_t>(index));
}

YOTTA_INLINE double rank_factor(const Stragglers& stragglers, int rank) {
  double factor = 1;
  for (const SlowRank& slow : stragglers.slow_ranks)
    if (slow.rank == rank) factor *= slow.factor;
  return factor;
}

YOTTA_INLINE double link_factor(const Stragglers& stragglers, int from, int to) {
  double factor = 1;
  for (const SlowLink& slow : stragglers.slow_links)
    if ((slow.one == from && slow.other == to) || (slow.one == to && slow.other == from))
      factor *= slow.factor;
  return factor;
}

}  // namespace yotta
