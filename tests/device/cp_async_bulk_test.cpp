// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/cp_async_bulk.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "support/hopper_here.hpp"
#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

constexpr int width = 64, stages = 3;

// Tile i into its place of the ring, by one thread.
__device__ void load_tile(int (*in)[width], const int* x, uint64_t* full, int i) {
  uint64_t* const barrier = full + i % stages;
  int* const tile = in[i % stages];
  constexpr uint32_t half = width / 2 * sizeof(int);
  mbarrier_arrive_expect_tx(barrier, 2 * half);
  cp_async_bulk(tile, x + i * width, half, barrier);
  cp_async_bulk(tile + width / 2, x + i * width + width / 2, half, barrier);
}

// A pipeline of tiles, `stages` of them on their way: all threads double a tile, the first one
// loads and stores.
__global__ void doubles(const int* x, int* y, int tiles) {
  __shared__ __align__(16) int in[stages][width], out[width];
  __shared__ uint64_t full[stages], empty[stages];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (int i = 0; i < stages; ++i) {
      mbarrier_init(full + i, 1);
      mbarrier_init(empty + i, width);
    }
    fence_mbarrier_init();
    for (int i = 0; i < stages; ++i) load_tile(in, x, full, i);
  }
  __syncthreads();
  for (int i = 0; i < tiles; ++i) {
    const int place = i % stages;
    const uint32_t parity = static_cast<uint32_t>(i / stages) % 2;
    while (!mbarrier_try_wait_parity(full + place, parity)) continue;
    out[thread] = 2 * in[place][thread];
    mbarrier_arrive(empty + place);
    fence_proxy_async();
    __syncthreads();
    if (thread == 0) {
      cp_async_bulk(y + i * width, out, sizeof out);
      cp_async_bulk_commit_group();
      while (!mbarrier_try_wait_parity(empty + place, parity)) continue;
      if (i + stages < tiles) load_tile(in, x, full, i + stages);
      cp_async_bulk_wait_group_read<0>();
    }
    __syncthreads();
  }
}

// Three groups of one store each; what has come after waiting for all but `pending`.
template <int pending>
__global__ void three_stores(int* y, int* seen) {
  __shared__ __align__(16) int tile[4];
  for (int i = 0; i < 4; ++i) tile[i] = 7;
  fence_proxy_async();
  for (int i = 0; i < 3; ++i) {
    cp_async_bulk(y + 4 * i, tile, sizeof tile);
    cp_async_bulk_commit_group();
  }
  cp_async_bulk_wait_group<pending>();
  for (int i = 0; i < 3 - pending; ++i) seen[i] = y[4 * i + 3];
  cp_async_bulk_wait_group_read<0>();
}

// The bytes are expected before the arrival, which comes last.
__global__ void expects_bytes(const int* x, int* out) {
  __shared__ __align__(16) int tile[4];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
    mbarrier_expect_tx(&full, sizeof tile);
    cp_async_bulk(tile, x, sizeof tile, &full);
    mbarrier_arrive(&full);
  }
  __syncthreads();
  while (!mbarrier_try_wait_parity(&full, 0)) continue;
  if (threadIdx.x < 4) out[threadIdx.x] = tile[threadIdx.x];
}

#if !defined(__CUDACC__)
// What the emulator shows of a copy that nobody waited for: the bytes are not there yet.
__global__ void looks_early(const int* x, int* out) {
  __shared__ __align__(16) int tile[4];
  __shared__ uint64_t full;
  tile[0] = 5;
  mbarrier_init(&full, 1);
  fence_mbarrier_init();
  mbarrier_arrive_expect_tx(&full, sizeof tile);
  cp_async_bulk(tile, x, sizeof tile, &full);
  out[0] = tile[0];
  out[1] = mbarrier_test_wait_parity(&full, 0);
  while (!mbarrier_test_wait_parity(&full, 0)) continue;
  out[2] = tile[0];
}

enum class Odd { nothing, to, from, bytes, announced, too_few, unread, unwaited };
template <Odd odd>
__global__ void copies_oddly(const int* x, int* y) {
  __shared__ __align__(16) int tile[16];
  __shared__ uint64_t full;
  mbarrier_init(&full, 1);
  fence_mbarrier_init();
  mbarrier_arrive_expect_tx(&full, odd == Odd::announced ? 48 : odd == Odd::too_few ? 16 : 32);
  int* const to = tile + (odd == Odd::to ? 1 : 0);
  const int* const from = x + (odd == Odd::from ? 2 : 0);
  cp_async_bulk(to, from, odd == Odd::bytes ? 24 : 32, &full);  // line: load
  if (odd == Odd::unwaited) return;
  while (!mbarrier_try_wait_parity(&full, 0)) continue;  // line: wait
  cp_async_bulk(y, tile, 32);                            // line: store
  cp_async_bulk_commit_group();
  if (odd != Odd::unread) cp_async_bulk_wait_group_read<0>();
}

template <Odd odd>
std::string copied() {
  return error_of([] {
    const DeviceArray<int> x(std::vector<int>(16, 1));
    DeviceArray<int> y(16);
    launch(copies_oddly<odd>, 1, 1, 0, nullptr, x.data(), y.data());
  });
}
#endif

}  // namespace

TEST_CASE("a pipeline of bulk copies moves every number, in both directions" *
          doctest::skip(!hopper_is_here())) {
  constexpr int tiles = 10;
  std::vector<int> numbers(tiles * width);
  std::iota(numbers.begin(), numbers.end(), 1);
  const DeviceArray<int> x(numbers);
  DeviceArray<int> y(numbers.size());
  launch(doubles, 1, width, 0, nullptr, x.data(), y.data(), tiles);
  const std::vector<int> got = y.to_host();
  for (size_t i = 0; i < numbers.size(); ++i) CHECK(got[i] == 2 * numbers[i]);
}

TEST_CASE("a bulk copy whose bytes are expected apart from the arrival" *
          doctest::skip(!hopper_is_here())) {
  const std::vector<int> numbers = {1, 2, 3, 4};
  const DeviceArray<int> x(numbers);
  DeviceArray<int> out(4);
  launch(expects_bytes, 1, 32, 0, nullptr, x.data(), out.data());
  CHECK(out.to_host() == numbers);
}

TEST_CASE("stores come by groups" * doctest::skip(!hopper_is_here())) {
  const auto check = [](auto stores, const std::vector<int>& expected) {
    DeviceArray<int> y(std::vector<int>(12, 0)), seen(std::vector<int>(3, 0));
    launch(stores, 1, 1, 0, nullptr, y.data(), seen.data());
    CHECK(seen.to_host() == expected);
    CHECK(y.to_host() == std::vector<int>(12, 7));
  };
  check(three_stores<0>, {7, 7, 7});
  check(three_stores<2>, {7, 0, 0});
}

#if !defined(__CUDACC__)
TEST_CASE("the first look at a phase is always too early: a loop must wait") {
  const DeviceArray<int> x(std::vector<int>(4, 9));
  DeviceArray<int> out(3);
  launch(looks_early, 1, 1, 0, nullptr, x.data(), out.data());
  CHECK(out.to_host() == std::vector<int>{5, 0, 9});
}

TEST_CASE(
    "addresses and sizes are multiples of 16, announced bytes come, and nothing is left behind") {
  CHECK(copied<Odd::nothing>() == "no error");
  check_says(copied<Odd::to>(),
             {line_at("load"), "that it writes must be a multiple of 16", "4 too large"});
  check_says(copied<Odd::from>(), {line_at("load"), "that it reads must be", "8 too large"});
  check_says(copied<Odd::bytes>(), {line_at("load"), "the number of bytes must be"});
  check_says(copied<Odd::announced>(),
             {line_at("wait"), "has 1 of 1 arrivals, and 32 of 48 bytes have come"});
  check_says(copied<Odd::too_few>(),
             {line_at("wait"), "has 1 of 1 arrivals, and 32 of 16 bytes have come"});
  check_says(copied<Odd::unread>(),
             {line_at("store"), "returns while this bulk copy may still read shared memory"});
  check_says(copied<Odd::unwaited>(),
             {line_at("load"), "the block ends while this bulk copy may still be on its way"});
}
#endif
