// What the graded cases of exercise 04 call. adapter.cpp fills it with one solution, whose
// functions it runs in kernels. Matrices of tensor
// cores are row-major bf16, as bits; points row-major f32.
#pragma once

#include <cstdint>
#include <vector>

#include "course/cases/own_stack.hpp"
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

// A chip: FLOP/s of its matrix units and of the others, the FLOPs that the second figure counts for
// an instruction, bytes/s.
struct Units {
  double matrix, others, counted, bandwidth;
};

struct Solution {
  // Registers of the 32 lanes of a block's second warp, four or two each: the fragment of the tile
  // at (row, column).
  Call<std::vector<uint32_t>(const Bits& a, int m, int k, int row, int column)> fragment_a;
  Call<std::vector<uint32_t>(const Bits& b, int k, int n, int row, int column)> fragment_b;
  // C (m, n), and 64 numbers behind it, all -1 before accumulator i of each lane, 4 lane + i, was
  // stored.
  Call<std::vector<float>(int m, int n, int row, int column)> stored;
  // Two warps per block, with a tile of 16 x 8 each, and of 32 x 32.
  Call<Product(const Bits& a, const Bits& b, int m, int n, int k)> product;
  Call<Product(const Bits& a, const Bits& b, int m, int n, int k)> warp_tiles;
  Call<int(int row, int column)> lane_of_c;
  // x (m, k), y (n, k).
  Call<Distances(const std::vector<float>& x, const std::vector<float>& y, int m, int n, int k)>
      distances;
  Call<double(const Units& chip, double m, double n, double k)> l1_seconds;
};
extern const Solution solution;

}  // namespace exercise
