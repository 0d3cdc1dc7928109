// What the emulator counts of one rung of the CUDA ladder (counts_checked.cpp, compiled with all
// checks).
#pragma once

#include <string>
#include <vector>

namespace yotta {

struct RungCounts {
  std::string name, idea;
  double sectors_per_request = 0;  // of the loads from global memory
  double sectors = 0,
         wavefronts = 0;  // a multiply-add of a warp: loads from global and from shared memory
  double conflicts = 1;   // wavefronts of shared loads / as many as without bank conflicts
  double global_bytes_per_flop = 0;                      // whole sectors, loads and stores
  double expected_sectors = 0, expected_wavefronts = 0;  // the table's arithmetic
  double attainable = 0;                                 // share of the peak that the counts allow
  double a6000_gflops = 0;                               // published
};

// Runs every rung on C (m, n) = A (m, k) B (k, n), checks the result, counts. Throws if a result is
// wrong.
std::vector<RungCounts> count_rungs(int m, int n, int k);

}  // namespace yotta
