// What the emulator counts of the shared-tile matmul (counts_checked.cpp, compiled with all
// checks).
#pragma once

#include <cstdint>
#include <string>

namespace yotta {

struct TileCounts {
  int64_t requests = 0, sectors = 0;  // of loads from global memory
  int64_t bytes = 0;                  // that threads asked global memory for, loads and stores
  std::string table;                  // line by line
};

// C (m, n) = A (m, k) B (k, n) on blocks of 32 x 32 threads.
TileCounts count_shared_tile(int m, int n, int k);

// The same two ways to lay out threads without a tile: lanes along a row, or down a column.
TileCounts count_lanes(int size, bool down_a_column);

// The emulator's report of a matmul whose second barrier is missing.
std::string report_of_missing_barrier();

}  // namespace yotta
