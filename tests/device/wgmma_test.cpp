// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/wgmma.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/hopper_here.hpp"
#include "support/kernel_error.hpp"
#include "yotta/device/cp_async_bulk.hpp"
#include "yotta/device/cp_async_bulk_tensor.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

constexpr int m = 64, depth = 64;

// Both tiles come by TMA, in boxes as wide as the swizzle's span; each is 64 x 64.
__device__ void load_tile(char* tile, const CUtensorMap* map, int span, uint64_t* full) {
  for (int i = 0; i < 128 / span; ++i)
    cp_async_bulk_tensor(tile + i * 64 * span, map, {i * span / 2, 0}, full);
}
// Of numbers k to k + 15 of such a tile.
template <Major major, Swizzle swizzle>
__device__ uint64_t descriptor_at(const char* tile, int k) {
  constexpr int span = static_cast<int>(swizzle), box = 64 * span, rows_of_8 = 8 * span;
  constexpr bool plain = swizzle == Swizzle::none;
  if (major == Major::k) {
    const int byte = 2 * k;
    return wgmma_descriptor(tile + byte / span * box + byte % span, plain ? box : 0, rows_of_8,
                            swizzle);
  }
  return wgmma_descriptor(tile + k * span, plain ? rows_of_8 : box, plain ? box : rows_of_8,
                          swizzle);
}

// d = a b of 64 x 64 numbers; a is (m, k) or, by Major::mn, (k, m); b is (n, k) or (k, n).
template <class Input, Major a_major, Major b_major, Swizzle swizzle>
__global__ void multiplies(const __grid_constant__ CUtensorMap a,
                           const __grid_constant__ CUtensorMap b, float* out) {
  constexpr int n = 64, span = static_cast<int>(swizzle);
  __shared__ __align__(1024) char a_tile[m * depth * 2], b_tile[n * depth * 2];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(&full, sizeof a_tile + sizeof b_tile);
    load_tile(a_tile, &a, span, &full);
    load_tile(b_tile, &b, span, &full);
  }
  __syncthreads();
  while (!mbarrier_try_wait_parity(&full, 0)) continue;
  float d[n / 2];
  wgmma_fence();
  for (int k = 0; k < depth; k += 16)
    wgmma<n, Input, a_major, b_major>(d, descriptor_at<a_major, swizzle>(a_tile, k),
                                      descriptor_at<b_major, swizzle>(b_tile, k), k > 0);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = 0; i < n / 2; ++i) {
    const MatrixCell at = wgmma_cell(thread, i);
    out[at.row * n + at.column] = d[i];
  }
}

template <class Input>
std::vector<Input> small_numbers(size_t count, int step) {
  std::vector<Input> all;
  for (size_t i = 0; i < count; ++i)
    all.push_back(
        Input(static_cast<float>(static_cast<int>(i * static_cast<size_t>(step) % 11) - 5)));
  return all;
}

template <class Input, Major a_major, Major b_major, Swizzle swizzle>
void check_product() {
  CAPTURE(static_cast<int>(swizzle));
  CAPTURE(static_cast<int>(a_major));
  CAPTURE(static_cast<int>(b_major));
  const auto a = small_numbers<Input>(64 * 64, 7), b = small_numbers<Input>(64 * 64, 5);
  const DeviceArray<Input> on_a(a), on_b(b);
  DeviceArray<float> out(64 * 64);
  constexpr auto width = static_cast<uint32_t>(swizzle) / 2;
  launch(multiplies<Input, a_major, b_major, swizzle>, 1, 128, 0, nullptr,
         tensor_map(on_a.data(), {64, 64}, {64, width}, swizzle),
         tensor_map(on_b.data(), {64, 64}, {64, width}, swizzle), out.data());
  const std::vector<float> got = out.to_host();
  int wrong = 0;
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 64; ++j) {
      float sum = 0;
      for (size_t k = 0; k < 64; ++k)
        sum += static_cast<float>(a[a_major == Major::k ? i * 64 + k : k * 64 + i]) *
               static_cast<float>(b[b_major == Major::k ? j * 64 + k : k * 64 + j]);
      wrong += !(got[i * 64 + j] == sum);
    }
  CHECK(wrong == 0);
}

// One thread loads tiles of B into one place, and the group multiplies them by ones. One arrival
// says that all four warps have read a tile.
constexpr int many_tiles = 8;
__global__ void sums_tiles(const uint16_t* tiles, float* out) {
  constexpr int n = 8;
  __shared__ __align__(128) uint16_t tile[n * 16];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init(&empty, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 128)
    for (uint32_t i = 0; i < many_tiles; ++i) {
      while (!mbarrier_try_wait_parity(&empty, (i + 1) % 2)) continue;
      mbarrier_arrive_expect_tx(&full, sizeof tile);
      cp_async_bulk(tile, tiles + i * n * 16, sizeof tile, &full);
    }
  if (threadIdx.x >= 128) return;
  float d[n / 2] = {};
  const uint32_t ones[4] = {0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80};
  for (uint32_t i = 0; i < many_tiles; ++i) {
    while (!mbarrier_try_wait_parity(&full, i % 2)) continue;
    wgmma_fence();
    wgmma<n, bfloat16>(d, ones, wgmma_descriptor(tile, n * 16, 128, Swizzle::none));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    if (threadIdx.x == 0) mbarrier_arrive(&empty);
  }
  for (unsigned i = 0; i < n / 2; ++i) out[threadIdx.x * (n / 2) + i] = d[i];
}

// The last 256 bytes of 226 KiB of dynamic shared memory are B, of ones; 30 small arrays lie before
// it.
constexpr size_t most_dynamic = 226 * 1024;
__global__ void multiplies_far_tile(float* out) {
  __shared__ uint32_t a0[8], a1[8], a2[8], a3[8], a4[8], a5[8], a6[8], a7[8], a8[8], a9[8];
  __shared__ uint32_t b0[8], b1[8], b2[8], b3[8], b4[8], b5[8], b6[8], b7[8], b8[8], b9[8];
  __shared__ uint32_t c0[8], c1[8], c2[8], c3[8], c4[8], c5[8], c6[8], c7[8], c8[8], c9[8];
  uint32_t* const small[] = {a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4,
                             b5, b6, b7, b8, b9, c0, c1, c2, c3, c4, c5, c6, c7, c8, c9};
  uint16_t* const tile = dynamic_shared<uint16_t>() + most_dynamic / 2 - 128;
  if (threadIdx.x < 128) tile[threadIdx.x] = 0x3f80;
  if (threadIdx.x < 30) small[threadIdx.x][0] = threadIdx.x;
  fence_proxy_async();
  __syncthreads();
  float d[4] = {};
  const uint32_t ones[4] = {0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80};
  wgmma_fence();
  wgmma<8, bfloat16>(d, ones, wgmma_descriptor(tile, 128, 128, Swizzle::none));
  wgmma_commit_group();
  wgmma_wait_group<0>();
  const auto of_small = static_cast<float>(small[threadIdx.x % 30][0]);
  for (unsigned i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i] + of_small;
}

}  // namespace

TEST_CASE("who holds what: the PTX ISA's formulas, and each element once") {
  std::set<std::pair<int, int>> all;
  for (int thread = 0; thread < 128; ++thread)
    for (int i = 0; i < 128; ++i) {
      const int lane = thread % 32, warp = thread / 32;
      const int row = 16 * warp + lane / 4 + (i / 2 % 2 == 0 ? 0 : 8);
      const int column = 8 * (i / 4) + lane % 4 * 2 + (i & 1);
      CHECK(wgmma_cell(thread, i) == MatrixCell{row, column});
      all.insert({row, column});
    }
  CHECK(all.size() == 64 * 256);
}

TEST_CASE("tiles: each number of a tile has a place of its own, and rows lie as the layouts say") {
  for (const Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    const auto span = static_cast<uint32_t>(swizzle);
    const bool plain = swizzle == Swizzle::none;
    const WgmmaTile by_k{Major::k, 64 * 16, 8 * span, swizzle};
    const WgmmaTile by_mn{Major::mn, plain ? 8 * span : 16 * span, plain ? 16 * span : 8 * span,
                          swizzle};
    std::set<uint32_t> k_places, mn_places;
    for (uint32_t row = 0; row < 64; ++row)
      for (uint32_t k = 0; k < 16; ++k) {
        k_places.insert(swizzled_byte(wgmma_byte(by_k, row, k), swizzle));
        mn_places.insert(swizzled_byte(wgmma_byte(by_mn, row, k), swizzle));
      }
    CHECK(k_places.size() == 64 * 16);
    CHECK(mn_places.size() == 64 * 16);
    CHECK(*mn_places.rbegin() == 64 * 16 * 2 - 2);
    CHECK(wgmma_byte(by_k, 1, 0) == span);
    CHECK(wgmma_byte(by_k, 8, 0) == 8 * span);
    CHECK(wgmma_byte(by_k, 0, 8) == (plain ? 64 * 16 : 16));
    CHECK(wgmma_byte(by_mn, 1, 0) == 2);
    CHECK(wgmma_byte(by_mn, 0, 1) == span);
    CHECK(wgmma_byte(by_mn, 0, 8) == 8 * span);
    CHECK(wgmma_byte(by_mn, span / 2, 0) == 16 * span);
  }
}

TEST_CASE("products of tiles that TMA has loaded, in each swizzle and both orders" *
          doctest::skip(!hopper_is_here())) {
  check_product<bfloat16, Major::k, Major::k, Swizzle::none>();
  check_product<bfloat16, Major::k, Major::k, Swizzle::b32>();
  check_product<bfloat16, Major::k, Major::k, Swizzle::b64>();
  check_product<float16, Major::k, Major::k, Swizzle::b128>();
  check_product<bfloat16, Major::mn, Major::mn, Swizzle::none>();
  check_product<bfloat16, Major::mn, Major::mn, Swizzle::b32>();
  check_product<bfloat16, Major::mn, Major::mn, Swizzle::b64>();
  check_product<bfloat16, Major::mn, Major::mn, Swizzle::b128>();
  check_product<bfloat16, Major::k, Major::mn, Swizzle::b128>();
}

TEST_CASE("one warp's wait is for the whole group: one arrival frees the tile" *
          doctest::skip(!hopper_is_here())) {
  constexpr size_t numbers = 8 * 16;
  std::vector<uint16_t> tiles;  // of ones, twos, ...
  for (int i = 1; i <= many_tiles; ++i)
    tiles.insert(tiles.end(), numbers, bfloat16(static_cast<float>(i)).bits);
  const DeviceArray<uint16_t> on_tiles(tiles);
  DeviceArray<float> out(64 * 8);
  launch(sums_tiles, 1, 160, 0, nullptr, on_tiles.data(), out.data());
  CHECK(out.to_host() == std::vector<float>(64 * 8, 16.0f * many_tiles * (many_tiles + 1) / 2));
}

TEST_CASE("a tile behind many small arrays, at the end of shared memory" *
          doctest::skip(!hopper_is_here())) {
  DeviceArray<float> out(128 * 4);
  launch(multiplies_far_tile, 1, 128, most_dynamic, nullptr, out.data());
  const std::vector<float> got = out.to_host();
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == 16.0f + static_cast<float>(i / 4 % 30));
}
