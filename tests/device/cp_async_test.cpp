// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/cp_async.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "yotta/device/device_memory.hpp"
#include "yotta/device/vector_types.hpp"

using namespace yotta;

namespace {

constexpr uint32_t before = 7;  // what shared memory holds at first

// Each thread copies `size` bytes of which `bytes` come from x, and stores what lies in shared
// memory before and after the wait.
template <int size>
__global__ void copy(const uint32_t* x, uint32_t* early, uint32_t* late, int bytes) {
  constexpr int words = size / 4;
  __shared__ __align__(16) uint32_t tile[32 * words];
  const int first = static_cast<int>(threadIdx.x) * words;
  for (int i = first; i < first + words; ++i) tile[i] = before;
  cp_async<size>(tile + first, x + first, bytes);
  cp_async_commit();
  for (int i = first; i < first + words; ++i) early[i] = tile[i];
  cp_async_wait<0>();
  __syncthreads();
  for (int i = first; i < first + words; ++i) late[i] = tile[i];
}

template <int size>
void check(int bytes) {
  CAPTURE(size);
  CAPTURE(bytes);
  constexpr size_t words = size / 4, all = 32 * words;
  std::vector<uint32_t> x(all);
  for (size_t i = 0; i < all; ++i) x[i] = static_cast<uint32_t>(0x01010101 * (i + 1));
  const DeviceArray<uint32_t> from(x);
  DeviceArray<uint32_t> early(all), late(all);
  launch(copy<size>, 1, 32, 0, nullptr, from.data(), early.data(), late.data(), bytes);
  const std::vector<uint32_t> seen = late.to_host();
  CHECK(early.to_host() == std::vector<uint32_t>(all, before));
  for (size_t i = 0; i < all; ++i) {
    const int have = bytes - static_cast<int>(i % words) * 4;  // bytes of this word that are copied
    const uint32_t mask = have >= 4 ? 0xffffffffu : have <= 0 ? 0 : (1u << (8 * have)) - 1;
    CHECK(seen[i] == (x[i] & mask));
  }
}

// Three groups of one word each; what has landed after waiting for all but `pending` of them.
template <int pending>
__global__ void three_groups(const uint32_t* x, uint32_t* out) {
  __shared__ uint32_t tile[4];
  if (threadIdx.x != 0) return;
  for (int i = 0; i < 4; ++i) tile[i] = before;
  for (int i = 0; i < 3; ++i) {
    cp_async<4>(tile + i, x + i);
    cp_async_commit();
  }
  cp_async<4>(tile + 3, x + 3);  // never committed, so never waited for
  cp_async_wait<pending>();
  for (int i = 0; i < 4; ++i) out[i] = tile[i];
}

template <int pending>
std::vector<uint32_t> landed() {
  const DeviceArray<uint32_t> x(std::vector<uint32_t>{100, 101, 102, 103});
  DeviceArray<uint32_t> out(4);
  launch(three_groups<pending>, 1, 32, 0, nullptr, x.data(), out.data());
  return out.to_host();
}

// Starts a copy and ends without waiting; a later block must not receive it.
__global__ void forgets(const uint32_t* x, uint32_t* out) {
  __shared__ uint32_t tile[32];
  tile[threadIdx.x] = before;
  if (blockIdx.x == 0) cp_async<4>(tile + threadIdx.x, x + threadIdx.x);
  cp_async_commit();
  if (blockIdx.x == 0) return;
  cp_async_wait<0>();
  out[threadIdx.x] = tile[threadIdx.x];
}

#if !defined(__CUDACC__)
__global__ void asks_for_too_much(const uint32_t* x, uint32_t*) {
  __shared__ __align__(16) uint32_t tile[4];
  cp_async<16>(tile, x, 17);
}
#endif

}  // namespace

TEST_CASE("bytes land at the wait, not before; what is not asked for is zero") {
  for (const int bytes : {16, 12, 6, 1, 0}) check<16>(bytes);
  for (const int bytes : {8, 4, 3, 0}) check<8>(bytes);
  for (const int bytes : {4, 2, 0}) check<4>(bytes);
}

TEST_CASE("waiting counts groups: the youngest may stay on their way") {
  using Words = std::vector<uint32_t>;
  CHECK(landed<0>() == Words{100, 101, 102, before});
  CHECK(landed<1>() == Words{100, 101, before, before});
  CHECK(landed<2>() == Words{100, before, before, before});
  CHECK(landed<3>() == Words{before, before, before, before});
}

TEST_CASE("a block receives nothing that another has started") {
  const DeviceArray<uint32_t> x(std::vector<uint32_t>(32, 5));
  DeviceArray<uint32_t> out(32);
  launch(forgets, 2, 32, 0, nullptr, x.data(), out.data());
  CHECK(out.to_host() == std::vector<uint32_t>(32, before));
}

#if !defined(__CUDACC__)
TEST_CASE("more bytes than the copy has are refused at the kernel's line") {
  const DeviceArray<uint32_t> x(8);
  DeviceArray<uint32_t> out(1);
  CHECK_THROWS_WITH_AS(launch(asks_for_too_much, 1, 32, 0, nullptr, x.data(), out.data()),
                       doctest::Contains("cp_async<16>() is asked for 17 bytes"), KernelError);
}
#endif
