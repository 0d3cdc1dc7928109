// parallel_for: split a loop over the threads of one rank.
//
//     parallel_for(rows, 16, [&](int64_t begin, int64_t end) { ... });
//
// Each call of the body gets a range [begin, end) of at least `grain` items and writes only what
// belongs to those items; no sum crosses a range, so results do not depend on the number of
// threads. Whoever is free takes the next range (thread_pool.hpp); with context().threads == 1 or
// too little work the body simply runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "yotta/core/chunks.hpp"
#include "yotta/core/context.hpp"
#include "yotta/core/cpu/thread_pool.hpp"

namespace yotta {

template <class Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) {
  const int threads = context().threads;
  // Some more ranges than threads, so that a thread that comes late finds less left to do.
  const int64_t most = threads > 1 ? 4 * threads : 1;
  const int64_t parts = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, most);
  if (count <= 0) return;
  if (parts == 1) return body(int64_t{0}, count);
  std::atomic<int64_t> next = 0;
  ThreadPool::instance().run(threads, [&](int) {
    for (int64_t i = next++; i < parts; i = next++)
      body(chunk_begin(count, parts, i), chunk_begin(count, parts, i + 1));
  });
}

}  // namespace yotta
