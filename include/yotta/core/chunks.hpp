// Chunks: `count` items split over p parts whose sizes differ by at most one, the longer parts
// first.
//
//     17 items over 4 parts:   [0 1 2 3 4] [5 6 7 8] [9 10 11 12] [13 14 15 16]
#pragma once

#include <algorithm>
#include <cstdint>

namespace yotta {

// The first item of part `i` when `count` items are split over `parts`.
constexpr int64_t chunk_begin(int64_t count, int64_t parts, int64_t i) {
  return count / parts * i + std::min(i, count % parts);
}

// Length of chunk i when `count` elements are cut into p chunks.
constexpr int64_t chunk_count(int64_t count, int64_t p, int64_t i) {
  return chunk_begin(count, p, i + 1) - chunk_begin(count, p, i);
}

// i modulo p, in 0 to p - 1 for negative i too: ranks and chunks go round a circle. For -p <= i.
constexpr int wrap(int i, int p) { return (i + p) % p; }

}  // namespace yotta
