// What the emulator counts for Hopper's rungs. hopper_checked.cpp is compiled for the emulator's
// checks, the lesson itself is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yotta {

struct HopperCounts {
  std::string name;
  int64_t wgmmas = 0, copies = 0;      // of a warp group; of boxes
  double sectors = 0, wavefronts = 0;  // counted, for 4096 FLOPs
  double of_c = 0;                     // of the wavefronts: C's way through shared memory
  double on_h100 = 0;                  // the share of the peak that the counts but C's allow
};

// C = A B of (m, k) times (k, n) on each rung, 64 x 256 of C a warp group.
std::vector<HopperCounts> count_hopper_rungs(int m, int n, int k);

// What one hears whose consumer arrives before its wgmma is done.
std::string freed_too_early();

}  // namespace yotta
