// A dot product, and why its plain loop leaves a core idle: each addition waits for the one before.
//
// A fused multiply-add (FMA) gives its result some cycles after it began, but a core can begin one
// or two in every cycle. So a core wants several sums at once, each a chain of its own:
//
//     one chain     fma ---> fma ---> fma ---> fma --->        x0 y0 + x1 y1 + x2 y2 + ...
//
//     four chains   fma ---> fma --->                          x0 y0 + x4 y4 + ...
//                    fma ---> fma --->                         x1 y1 + x5 y5 + ...
//                     fma ---> fma --->                        x2 y2 + ...       added up
//                      fma ---> fma --->                       x3 y3 + ...       at the end
//
// A compiler may not do this by itself: it changes the order of a sum of floats, and so its bits
// (-ffast-math allows it). SIMD registers are the same idea: each of their lanes is a chain.
//
// And even with chains enough every FMA needs two numbers that it alone uses, so loads are the next
// limit, with all data in the nearest cache. A matmul keeps a tile of sums in registers and uses
// each number that it has loaded several times: matmul_tile in matmul.hpp.
//
// Cost: 2 n FLOPs, 8 n bytes; cycles: dot_cycles().
// Contract: x and y (n), n >= 0.
// Letters: n as in core/matmul_ladder.hpp's k: the length of the sum.
// References: Hennessy and Patterson, Computer Architecture, section 3.2 (loop unrolling); Fog,
// "Optimizing software in C++", section 11.6 (dependency chains).
#pragma once

#include <algorithm>
#include <cstdint>

#include "yotta/core/cpu/matmul_packing.hpp"

namespace yotta {

// As it is written on the blackboard: one chain.
inline float dot_in_order(const float* x, const float* y, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

// `chains` registers of sums, each with `lanes` chains in it. What is left of n goes into lane 0.
template <int chains>
float dot_in_chains(const float* x, const float* y, int64_t n) {
  using Register = TileShape<float>::Register;
  constexpr int lanes = TileShape<float>::lanes;
  Register sum[chains] = {};
  int64_t i = 0;
  for (; i + chains * lanes <= n; i += chains * lanes)
#pragma GCC unroll 16
    for (int c = 0; c < chains; ++c)
      sum[c] += load_register<float>(x + i + c * lanes) * load_register<float>(y + i + c * lanes);
  for (int c = 1; c < chains; ++c) sum[0] += sum[c];
  float total = dot_in_order(x + i, y + i, n - i);
  for (int lane = 0; lane < lanes; ++lane) total += sum[0][lane];
  return total;
}

// What a core can do in a cycle with whole registers, and how long an FMA takes.
struct CorePace {
  double fma_latency, fmas, loads;
};

// Cycles for n products with everything in the nearest cache: the slowest of the chains, the
// multipliers, and the two loads that an FMA needs.
constexpr double dot_cycles(double n, double lanes, double chains, CorePace core) {
  return n / lanes * std::max({core.fma_latency / chains, 1 / core.fmas, 2 / core.loads});
}

}  // namespace yotta
