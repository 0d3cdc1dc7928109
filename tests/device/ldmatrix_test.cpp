// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/ldmatrix.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "yotta/device/device_memory.hpp"
#include "yotta/device/mma_fragments.hpp"

using namespace yotta;

namespace {

constexpr int stride = 24;  // elements from row to row: 48 bytes, a multiple of 16

// Element (row, column) of block b.
constexpr uint16_t number(int block, int row, int column) {
  return static_cast<uint16_t>(block * 1000 + row * 10 + column);
}

// Four blocks below each other in shared memory; each lane names its row and stores what it got.
template <int count, bool trans>
__global__ void load(uint32_t* out) {
  __shared__ __align__(16) uint16_t tile[32 * stride];
  const int lane = static_cast<int>(threadIdx.x);
  for (int column = 0; column < 8; ++column)
    tile[lane * stride + column] = static_cast<uint16_t>(lane / 8 * 1000 + lane % 8 * 10 + column);
  __syncthreads();
  uint32_t r[count];
  const uint16_t* row = tile + lane * stride;
  if constexpr (count == 1 && !trans) ldmatrix_x1(r, row);
  if constexpr (count == 2 && !trans) ldmatrix_x2(r, row);
  if constexpr (count == 4 && !trans) ldmatrix_x4(r, row);
  if constexpr (count == 1 && trans) ldmatrix_x1_trans(r, row);
  if constexpr (count == 2 && trans) ldmatrix_x2_trans(r, row);
  if constexpr (count == 4 && trans) ldmatrix_x4_trans(r, row);
  for (int k = 0; k < count; ++k) out[lane * count + k] = r[k];
}

template <int count, bool trans>
void check() {
  CAPTURE(count);
  CAPTURE(trans);
  DeviceArray<uint32_t> out(32 * count);
  launch(load<count, trans>, 1, 32, 0, nullptr, out.data());
  const std::vector<uint32_t> got = out.to_host();
  for (int lane = 0; lane < 32; ++lane)
    for (int k = 0; k < count; ++k) {
      const int row = lane >> 2, column = 2 * (lane & 3);
      const uint32_t first = trans ? number(k, column, row) : number(k, row, column);
      const uint32_t second = trans ? number(k, column + 1, row) : number(k, row, column + 1);
      CHECK(got[static_cast<size_t>(lane * count + k)] == (first | second << 16));
    }
}

// The lane's rows by the rule "row lane % 16, columns from 8 (lane / 16)": A plain, B transposed.
template <bool trans>
__global__ void tile_16_16(uint32_t* out) {
  __shared__ __align__(16) uint16_t tile[16 * stride];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) tile[i / 16 * stride + i % 16] = static_cast<uint16_t>(i);
  __syncthreads();
  uint32_t r[4];
  const uint16_t* row = tile + lane % 16 * stride + lane / 16 * 8;
  if constexpr (trans)
    ldmatrix_x4_trans(r, row);
  else
    ldmatrix_x4(r, row);
  for (int k = 0; k < 4; ++k) out[lane * 4 + k] = r[k];
}

__global__ void half_a_warp(uint32_t* out) {
  __shared__ __align__(16) uint16_t tile[256];
  if (threadIdx.x >= 16) return;
  uint32_t r[1];
  ldmatrix_x1(r, tile);
  out[threadIdx.x] = r[0];
}

}  // namespace

TEST_CASE("x1, x2, x4, plain and transposed: the row of one lane becomes pairs in four others") {
  check<1, false>();
  check<2, false>();
  check<4, false>();
  check<1, true>();
  check<2, true>();
  check<4, true>();
}

TEST_CASE("one x4 is a fragment of A, and transposed two fragments of B, of m16n8k16") {
  DeviceArray<uint32_t> out(128);
  launch(tile_16_16<false>, 1, 32, 0, nullptr, out.data());
  std::vector<uint32_t> got = out.to_host();
  const auto element = [&](int lane, int i) {
    return got[static_cast<size_t>(lane * 4 + i / 2)] >> (16 * (i % 2)) & 0xffffu;
  };
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 8; ++i) {
      const MatrixCell at = M16N8K16::a(lane, i);
      CHECK(element(lane, i) == static_cast<uint32_t>(16 * at.row + at.column));
    }
  launch(tile_16_16<true>, 1, 32, 0, nullptr, out.data());
  got = out.to_host();
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 8; ++i) {
      const MatrixCell at = M16N8K16::b(lane, i % 4);
      CHECK(element(lane, i) == static_cast<uint32_t>(16 * at.row + at.column + 8 * (i / 4)));
    }
}

TEST_CASE("a warp that is not whole is refused") {
  DeviceArray<uint32_t> out(32);
  CHECK_THROWS_WITH_AS(launch(half_a_warp, 1, 32, 0, nullptr, out.data()),
                       doctest::Contains("ldmatrix_x1() needs all 32 lanes"), Error);
}
