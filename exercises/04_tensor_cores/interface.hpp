// What the graded cases of exercise 04 call. adapter.cpp fills it with one solution, whose
// functions it runs in kernels. Matrices of tensor
// cores are row-major bf16, as bits; points row-major f32.
#pragma once

#include <cstdint>
#include <vector>

#include "yotta/core/dot_chains.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/core/matmul.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/mma.hpp"
#include "yotta/machine/chip.hpp"

namespace exercise {

using Bits = std::vector<uint16_t>;

struct Product {
  std::vector<float> c;      // (m, n)
  int64_t instructions = 0;  // mma's, of all warps
  int64_t elements = 0;      // of A and B that were asked for, by all lanes
  int64_t stored_early = 0;  // mma's of a warp some of whose C is stored already
};

struct Distances {
  std::vector<float> squares;  // (m, n)
  int64_t products = 0;        // matmuls of (m, k) times (k, n)
};

struct Solution {
  // Registers of the 32 lanes, four or two each: the fragment of the tile at (row, column).
  std::vector<uint32_t> (*fragment_a)(const Bits& a, int m, int k, int row, int column);
  std::vector<uint32_t> (*fragment_b)(const Bits& b, int k, int n, int row, int column);
  // C (m, n), and 64 numbers behind it, all -1 before accumulator i of each lane, 4 lane + i, was
  // stored.
  std::vector<float> (*stored)(int m, int n, int row, int column);
  // One warp a tile of 16 x 8; two warps per block, and 32 x 32 each.
  Product (*product)(const Bits& a, const Bits& b, int m, int n, int k);
  Product (*warp_tiles)(const Bits& a, const Bits& b, int m, int n, int k);
  int (*lane_of_c)(int row, int column);
  // x (m, k), y (n, k).
  Distances (*distances)(const std::vector<float>& x, const std::vector<float>& y, int m, int n,
                         int k);
};
extern const Solution solution;

}  // namespace exercise
