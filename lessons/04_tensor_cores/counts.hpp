// What the emulator counts for the rungs of lesson 04. counts_checked.cpp is compiled for the
// emulator's checks, the lesson itself is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yotta {

struct RungCounts {
  std::string name, idea;
  int64_t mma = 0, loads = 0;                            // instructions of warps: mma, ldmatrix
  double sectors = 0, wavefronts = 0;                    // counted, an mma
  double expected_sectors = 0, expected_wavefronts = 0;  // by the table's arithmetic
  double on_h100 = 0, on_a100 = 0;  // the share of the peak that the counts allow
};

// C = A B with m = n = k = size on every rung, tiles of 64 x 64 x 32 a block and 32 x 32 a warp.
std::vector<RungCounts> count_rungs(int size);

// The same with a block tile of 128 x 256 and a warp's of 64 x 64: what the table says.
std::vector<RungCounts> expect_large_rungs();

// What one hears whose pipeline reads a tile before it has landed.
std::string read_too_early();

}  // namespace yotta
