// Tiles and waves: how much of a matrix product's time is of use, by its size.
//
// A GPU cuts C (m, n) into tiles. Each SM computes one at a time, so the tiles are done in waves:
//
//     ┌────┬────┬──┐   tiles at the edge take as long as whole ones
//     │    │    │░░│   9 tiles on 4 SMs: waves of 4, 4 and 1, and in the last 3 SMs rest
//     ├────┼────┼──┤
//     │    │    │░░│   share of use = m n / (waves x SMs x tile)
//     ├────┼────┼──┤
//     │░░░░│░░░░│░░│
//     └────┴────┴──┘
//
// A product cut into pieces has more edges, and a last wave for each piece.
// What is left out: kernels that cut k too (split-K, stream-K) to fill the last wave; libraries
// choose among tiles by size.
// Letters: m rows and n columns of C.
// Reference: NVIDIA, Matrix Multiplication Background, "Tile Quantization", "Wave Quantization".
#pragma once

#include <cstdint>

namespace yotta {

struct TileGrid {
  int64_t rows = 128, columns = 128;  // of a tile
  int64_t units = 132;                // tiles at a time: the SMs of an H100
};

constexpr int64_t tiles_of(int64_t m, int64_t n, const TileGrid& grid = {}) {
  return ((m + grid.rows - 1) / grid.rows) * ((n + grid.columns - 1) / grid.columns);
}
constexpr int64_t waves_of(int64_t m, int64_t n, const TileGrid& grid = {}) {
  return (tiles_of(m, n, grid) + grid.units - 1) / grid.units;
}
// The share of the chip's time in which it computes numbers of C.
constexpr double matmul_use(int64_t m, int64_t n, const TileGrid& grid = {}) {
  const int64_t computed = waves_of(m, n, grid) * grid.units * grid.rows * grid.columns;
  return computed == 0 ? 0 : static_cast<double>(m * n) / static_cast<double>(computed);
}

}  // namespace yotta
