// Ring attention as SVG: who computes which square of queries against keys, and in which step; and
// the ring.
//
//     query  0 |\            a square's colour is its rank,
//            1 |_|\          its number the step              rank 0 ──k, v──> rank 1
//            2 |_|_|\                                            ^                │
//              key 0 1 2                                      rank 3 <────────── rank 2
//
// Chunks, ranks and steps come from chunk_of and Ring::source. The file in course/pictures/ is what
// `./yotta lesson 23 -- --draw 1` writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yotta {

// A chunk of queries against a chunk of keys; on the diagonal half of it is seen.
struct RingSquare {
  int64_t query = 0, key = 0;
  int rank = 0, step = 0;

  double seen() const { return query == key ? 0.5 : 1; }
};

// Every square that is computed, by query, then key.
std::vector<RingSquare> ring_squares(int ranks);

std::string ring_attention_svg();

}  // namespace yotta
