// What lesson 04 measures of this computer: lottery_measured.cpp is compiled at full optimisation,
// the rest of the lesson is not.
#pragma once

#include <cstdint>
#include <vector>

namespace yotta {

// The distances of 512 points to 512 points in 1024 dimensions, on one core: FLOP/s, where each
// term counts two.
struct DistanceRates {
  double l2_by_matmul, l2, l1;
};
DistanceRates measure_distances(double seconds);

// log_matmul of 256 x 256 x 256, logarithms from -spread to 0: seconds, and how many sums were
// lost.
struct LogMatmulRun {
  double seconds;
  int64_t again;
};
LogMatmulRun run_log_matmul(double spread);
double naive_log_matmul_seconds(double spread);

// A dot product of 2048 numbers that lie in the nearest cache: seconds.
struct DotTime {
  const char* name;
  double lanes, chains;  // numbers a register, registers of sums
  double seconds;
};
std::vector<DotTime> measure_dots(double seconds);

}  // namespace yotta
