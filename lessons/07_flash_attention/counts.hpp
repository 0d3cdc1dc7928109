// What the emulator counts of attention kernels (counts_checked.cpp, compiled with all checks).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "course/lesson/flash_traffic.hpp"

namespace yotta {

// A rung of the ladder on one head of T queries and keys.
struct LadderCounts {
  std::string name;
  int64_t read = 0, written = 0;      // bytes of global memory
  int64_t expected = 0, at_8192 = 0;  // both, by the formula: here, and for T = 8192
  int64_t extra = 0;                  // bytes of memory beside q, k, v, o and L
  int64_t mma = 0;                    // instructions of warps
  double difference = 0;              // from the first rung's o, the largest
};
std::vector<LadderCounts> count_ladder(int T);

// What course/lesson/flash_traffic.hpp has by formula, counted.
KernelTraffic count_traffic();

// Tiles of 32 x 32 scores that a head of T queries and keys computes.
struct VisitedTiles {
  int64_t causal = 0, all = 0;
};
VisitedTiles count_visited_tiles(int T);

// One new token for 8 query heads: bytes of keys and values read.
struct DecodingCounts {
  int Hkv = 0, splits = 0;
  int64_t cache = 0;                // bytes of the cache
  int64_t by_head = 0, packed = 0;  // read with a block for each query head, and for each group
  int64_t merge = 0;                // written by the splits, and read by the merge
};
std::vector<DecodingCounts> count_decoding(int Tk);

}  // namespace yotta
