// parallel_for: split a loop over the threads of one rank.
//
//     parallel_for(rows, 16, [&](int64_t begin, int64_t end) { ... });
//
// Each call of the body gets a range [begin, end) of at least `grain` items and writes only what belongs
// to those items; no sum crosses a range, so results do not depend on the number of threads. With
// context().threads == 1, without OpenMP, or with too little work the body simply runs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "yotta/core/context.hpp"

namespace yotta {

// The first item of part `i` when `count` items are split over `parts`: sizes differ by at most one,
// the longer parts first.
constexpr int64_t chunk_begin(int64_t count, int64_t parts, int64_t i) {
  return count / parts * i + std::min(i, count % parts);
}

template <class Body>
void parallel_for(int64_t count, [[maybe_unused]] int64_t grain, Body&& body) {
#if defined(_OPENMP)
  const int64_t most = count / std::max<int64_t>(grain, 1);
  const int64_t parts = std::clamp<int64_t>(most, 1, context().threads);
  if (parts > 1) {
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
    for (int64_t i = 0; i < parts; ++i)
      body(chunk_begin(count, parts, i), chunk_begin(count, parts, i + 1));
    return;
  }
#endif
  if (count > 0) body(int64_t{0}, count);
}

}  // namespace yotta
