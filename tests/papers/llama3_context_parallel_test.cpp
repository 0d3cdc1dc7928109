// Llama team, "The Llama 3 Herd of Models" (arXiv 2407.21783): context parallelism, section 3.3.2
// and table 4.
#include <doctest/doctest.h>

#include "yotta/parallel/context_parallel.hpp"

using namespace yotta;

TEST_CASE(
    "section 3.3.2: the sequence is cut into 2 CP chunks, the i-th rank gets i and 2 CP - 1 - i") {
  for (const int cp : {2, 4, 8, 16})
    for (int i = 0; i < cp; ++i) {
      CHECK(chunk_of(cp, i, 0) == i);
      CHECK(chunk_of(cp, i, 1) == 2 * cp - 1 - i);
    }
}

TEST_CASE(
    "table 4: 131,072 tokens on CP 16: 8192 a rank, in two chunks of 4096, the work of each the "
    "same") {
  const int64_t T = 131072;
  for (int rank = 0; rank < 16; ++rank) {
    const Positions at = context_positions(T, 16, rank);
    CHECK(at.first == 4096 * rank);
    CHECK(at.second == T - 4096 * (rank + 1));
    CHECK(ring_twice_seen(16, rank, T, ChunkOrder::zigzag) == T * T / 16);
  }
}
