// wgmma of tf32 and of numbers of 8 bits. nvcc compiles this file too: on a GPU it tests the same
// kernels.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/hopper_here.hpp"
#include "support/wgmma_input.hpp"
#include "yotta/device/cp_async_bulk_tensor.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/wgmma.hpp"

using namespace yotta;

namespace {

constexpr int row_bytes = 128;  // of a tile: four steps of k

// d = a b of 64 x 128 bytes of a and of b, which come by TMA in boxes as wide as the swizzle's
// span.
template <class Input, Swizzle swizzle>
__global__ void multiplies(const __grid_constant__ CUtensorMap a,
                           const __grid_constant__ CUtensorMap b, WgmmaSum<Input>* out) {
  constexpr int n = 64, span = static_cast<int>(swizzle), box = 64 * span;
  constexpr int bytes = static_cast<int>(sizeof(Input));
  __shared__ __align__(1024) char a_tile[64 * row_bytes], b_tile[n * row_bytes];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(&full, sizeof a_tile + sizeof b_tile);
    for (int i = 0; i < row_bytes / span; ++i) {
      cp_async_bulk_tensor(a_tile + i * box, &a, {i * span / bytes, 0}, &full);
      cp_async_bulk_tensor(b_tile + i * box, &b, {i * span / bytes, 0}, &full);
    }
  }
  __syncthreads();
  while (!mbarrier_try_wait_parity(&full, 0)) continue;
  WgmmaSum<Input> d[n / 2];
  wgmma_fence();
  for (int byte = 0; byte < row_bytes; byte += 32) {
    const int at = byte / span * box + byte % span, leading = swizzle == Swizzle::none ? box : 0;
    wgmma<n, Input>(d, wgmma_descriptor(a_tile + at, leading, 8 * span, swizzle),
                    wgmma_descriptor(b_tile + at, leading, 8 * span, swizzle), byte > 0);
  }
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < n / 2; ++i) {
    const MatrixCell at = wgmma_cell(static_cast<int>(threadIdx.x), i);
    out[at.row * n + at.column] = d[i];
  }
}

// A in registers, B by threads; d begins as `first`.
template <class Input, int n>
__global__ void multiplies_registers(const Input* a, const Input* b, WgmmaSum<Input> first,
                                     WgmmaSum<Input>* out) {
  constexpr int k = wgmma_k<Input>;
  __shared__ __align__(128) Input tile[n * k];
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < n * k; i += 128) {
    const WgmmaTile layout{Major::k, n * 16, 128, Swizzle::none};
    const uint32_t byte = wgmma_byte(layout, static_cast<uint32_t>(i / k),
                                     static_cast<uint32_t>(i % k), sizeof(Input));
    tile[byte / sizeof(Input)] = b[i];
  }
  fence_proxy_async();
  __syncthreads();
  uint32_t registers[4];
  load_registers(a, thread, registers);
  WgmmaSum<Input> d[n / 2];
  for (WgmmaSum<Input>& each : d) each = first;
  wgmma_fence();
  wgmma<n, Input>(d, registers, wgmma_descriptor(tile, n * 16, 128, Swizzle::none));
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < n / 2; ++i) {
    const MatrixCell at = wgmma_cell(thread, i);
    out[at.row * n + at.column] = d[i];
  }
}

// Whole numbers, which every type has.
template <class Input>
std::vector<Input> small_numbers(int count, int step) {
  std::vector<Input> all;
  for (int i = 0; i < count; ++i) {
    const int number = i * step % 7 - (std::is_same_v<Input, uint8_t> ? 0 : 3);
    if constexpr (std::is_integral_v<Input>)
      all.push_back(static_cast<Input>(number));
    else
      all.push_back(Input(static_cast<float>(number)));
  }
  return all;
}
template <class Input>
WgmmaSum<Input> product(Input a, Input b) {
  return static_cast<WgmmaSum<Input>>(a) * static_cast<WgmmaSum<Input>>(b);
}

template <class Input, Swizzle swizzle>
void check_product() {
  CAPTURE(static_cast<int>(swizzle));
  constexpr int depth = row_bytes / static_cast<int>(sizeof(Input));
  const auto a = small_numbers<Input>(64 * depth, 5), b = small_numbers<Input>(64 * depth, 3);
  const DeviceArray<Input> on_a(a), on_b(b);
  DeviceArray<WgmmaSum<Input>> out(64 * 64);
  constexpr uint32_t width = static_cast<uint32_t>(swizzle) / sizeof(Input);
  launch(multiplies<Input, swizzle>, 1, 128, 0, nullptr,
         tensor_map(on_a.data(), {64, depth}, {64, width}, swizzle),
         tensor_map(on_b.data(), {64, depth}, {64, width}, swizzle), out.data());
  const auto got = out.to_host();
  int wrong = 0;
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < 64; ++j) {
      WgmmaSum<Input> sum = 0;
      for (int k = 0; k < depth; ++k)
        sum +=
            product(a[static_cast<size_t>(i * depth + k)], b[static_cast<size_t>(j * depth + k)]);
      wrong += !(got[static_cast<size_t>(i * 64 + j)] == sum);
    }
  CHECK(wrong == 0);
}
template <class Input>
void check_products() {
  check_product<Input, Swizzle::none>();
  check_product<Input, Swizzle::b32>();
  check_product<Input, Swizzle::b64>();
  check_product<Input, Swizzle::b128>();
}

template <class Input, int n>
std::vector<WgmmaSum<Input>> by_registers(const std::vector<Input>& a, const std::vector<Input>& b,
                                          WgmmaSum<Input> first) {
  const DeviceArray<Input> on_a(a), on_b(b);
  DeviceArray<WgmmaSum<Input>> out(64 * n);
  launch(multiplies_registers<Input, n>, 1, 128, 0, nullptr, on_a.data(), on_b.data(), first,
         out.data());
  return out.to_host();
}
}  // namespace

TEST_CASE("who holds what of A in registers: the PTX ISA's tables, and each number once") {
  std::set<std::pair<int, int>> words, bytes;
  for (int thread = 0; thread < 128; ++thread) {
    const int group = thread % 32 / 4, in_group = thread % 4, first = 16 * (thread / 32);
    for (int i = 0; i < 4; ++i) {  // .m64nNk8
      const MatrixCell at{first + group + (i == 0 || i == 2 ? 0 : 8),
                          in_group + (i == 0 || i == 1 ? 0 : 4)};
      CHECK(wgmma_a_cell<float>(thread, i) == at);
      words.insert({at.row, at.column});
    }
    for (int i = 0; i < 16; ++i) {  // .m64nNk32
      const MatrixCell at{first + group + (i < 4 || (i >= 8 && i < 12) ? 0 : 8),
                          in_group * 4 + (i & 3) + (i < 8 ? 0 : 16)};
      CHECK(wgmma_a_cell<int8_t>(thread, i) == at);
      CHECK(wgmma_a_cell<float8_e4m3>(thread, i) == at);
      bytes.insert({at.row, at.column});
    }
    for (int i = 0; i < 8; ++i) CHECK(wgmma_a_cell<bfloat16>(thread, i) == wgmma_cell(thread, i));
  }
  CHECK(words.size() == 64 * 8);
  CHECK(bytes.size() == 64 * 32);
}

TEST_CASE("tiles: a core matrix is 8 rows of 16 bytes, whatever the numbers") {
  const WgmmaTile plain{Major::k, 4096, 128, Swizzle::none}, wide{Major::k, 0, 1024, Swizzle::b128};
  CHECK(wgmma_byte(plain, 3, 5, 1) == 3 * 16 + 5);
  CHECK(wgmma_byte(plain, 9, 17, 1) == 128 + 16 + 4096 + 1);
  CHECK(wgmma_byte(plain, 3, 3, 4) == 3 * 16 + 12);
  CHECK(wgmma_byte(plain, 9, 5, 4) == 128 + 16 + 4096 + 4);
  CHECK(wgmma_byte(wide, 9, 31, 1) == 1024 + 128 + 31);
  CHECK(wgmma_byte(wide, 9, 7, 4) == 1024 + 128 + 28);
}

TEST_CASE("products of tiles that TMA has loaded, in each type and swizzle" *
          doctest::skip(!hopper_is_here())) {
  check_products<float>();
  check_products<float8_e4m3>();
  check_products<float8_e5m2>();
  check_products<int8_t>();
  check_products<uint8_t>();
}

TEST_CASE("sums of integers are exact and wrap around" * doctest::skip(!hopper_is_here())) {
  constexpr int most = std::numeric_limits<int32_t>::max();
  const auto got = by_registers<uint8_t, 8>(std::vector<uint8_t>(64 * 32, 255),
                                            std::vector<uint8_t>(8 * 32, 255), most);
  const auto wrapped = static_cast<int32_t>(static_cast<uint32_t>(most) + 32u * 255 * 255);
  CHECK(got == std::vector<int32_t>(64 * 8, wrapped));
}

TEST_CASE("tf32: the last 13 bits of a float do not count" * doctest::skip(!hopper_is_here())) {
  const auto got = by_registers<float, 8>(std::vector<float>(64 * 8, 1.0f + 0x1p-12f),
                                          std::vector<float>(8 * 8, 3.0f + 0x1p-12f), 0.0f);
  CHECK(got == std::vector<float>(64 * 8, 24.0f));
}
