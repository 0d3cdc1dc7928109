// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/warp_groups.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/hopper_here.hpp"
#include "support/kernel_error.hpp"
#include "yotta/device/cp_async_bulk_tensor.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

// Warps 0 and 1 meet at barrier 1, and warp 2 is told at barrier 2 that both have written.
__global__ void passes(int* out) {
  __shared__ int numbers[64];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= 64) {
    bar_sync(2, 96);
    out[thread] = numbers[thread - 64] + numbers[thread - 32];
    return;
  }
  for (int i = 0; i < 3; ++i) {
    bar_sync(1, 64);
    numbers[thread] = i == 0 ? thread : 2 * numbers[thread];
    bar_sync(1, 64);
    if (i == 1) out[thread] = numbers[63 - thread];
  }
  bar_arrive(2, 96);
}

// A group gives registers back and hands numbers to the other, which takes more of them and keeps
// 150 sums. What each had in registers before is there afterwards.
__global__ void __launch_bounds__(256, 1) shares_registers(const int* x, int* out) {
  __shared__ int numbers[128];
  const int thread = static_cast<int>(threadIdx.x), kept = x[thread];
  if (thread < 128) {
    setmaxnreg_dec<40>();
    numbers[thread] = 10 * kept;
    bar_arrive(1, 256);
    out[thread] = kept;
    return;
  }
  setmaxnreg_inc<208>();
  bar_sync(1, 256);
  int sums[150];
  for (int i = 0; i < 150; ++i) sums[i] = kept * i;
  for (int round = 0; round < 128; ++round)
    for (int i = 0; i < 150; ++i) sums[i] += numbers[(round + i) % 128];
  int all = 0;
  for (int i = 0; i < 150; ++i) all += sums[i] % (i + 2);
  out[thread] = all;
}

#if !defined(__CUDACC__)
enum class Wrong {
  nothing,
  number,
  of_the_block,
  threads,
  other_threads,
  missing,
  half_a_warp,
  by_lane,
  registers,
  one_warp,
  three_warps,
  more
};
__global__ void misuses(Wrong wrong, int* out) {
  if (wrong == Wrong::registers) setmaxnreg_inc<232>();
  if (wrong == Wrong::nothing || wrong == Wrong::more) setmaxnreg_dec<40>();
  if (wrong == Wrong::nothing) setmaxnreg_inc<168>();
  if (wrong == Wrong::more) setmaxnreg_inc<24>();  // line: more
  if (wrong == Wrong::three_warps && threadIdx.x / 32 != 1) setmaxnreg_dec<24>();
  if (wrong == Wrong::one_warp && threadIdx.x < 32) setmaxnreg_dec<24>();
  if (wrong == Wrong::number) bar_sync(16, 64);
  if (wrong == Wrong::of_the_block) bar_sync(0, 384);
  if (wrong == Wrong::threads) bar_sync(1, 48);
  if (wrong == Wrong::other_threads) bar_sync(1, threadIdx.x < 32 ? 64 : 96);
  if (wrong == Wrong::missing && threadIdx.x < 32) bar_sync(3, 64);  // line: missing
  if (wrong == Wrong::half_a_warp && threadIdx.x < 32) {
    if (threadIdx.x < 16)
      bar_arrive(4, 32);
    else
      bar_arrive(4, 32);
  }
  if (wrong == Wrong::by_lane) bar_sync(1 + static_cast<int>(threadIdx.x % 2), 384);
  out[threadIdx.x] = 1;
}
std::string misused(Wrong wrong) {
  return error_of([=] {
    DeviceArray<int> out(384);
    launch(misuses, 1, 384, 0, nullptr, wrong, out.data());
    CHECK(out.to_host() == std::vector<int>(384, 1));
  });
}

// The last warp of 48 threads counts as a whole one.
__global__ void meet_48(int* out) {
  __shared__ int numbers[48];
  numbers[threadIdx.x] = static_cast<int>(threadIdx.x);
  bar_sync(1, 64);
  out[threadIdx.x] = numbers[47 - threadIdx.x];
}
#endif

}  // namespace

TEST_CASE("named barriers: some warps meet, others only arrive" *
          doctest::skip(!hopper_is_here())) {
  DeviceArray<int> out(96);
  launch(passes, 1, 96, 0, nullptr, out.data());
  const std::vector<int> got = out.to_host();
  for (int i = 0; i < 64; ++i) CHECK(got[static_cast<size_t>(i)] == 2 * (63 - i));
  for (int i = 64; i < 96; ++i) CHECK(got[static_cast<size_t>(i)] == 4 * (i - 64) + 4 * (i - 32));
}

TEST_CASE("setmaxnreg: groups share the registers of the block" *
          doctest::skip(!hopper_is_here())) {
  std::vector<int> x, expected;
  int handed_over = 0;
  for (int i = 0; i < 256; ++i) x.push_back(i % 13 + 1);
  for (size_t i = 0; i < 128; ++i) handed_over += 10 * x[i];
  for (size_t i = 0; i < 256; ++i) {
    int all = 0;
    for (int j = 0; j < 150; ++j) all += (x[i] * j + handed_over) % (j + 2);
    expected.push_back(i < 128 ? x[i] : all);
  }
  const DeviceArray<int> on_x(x);
  DeviceArray<int> out(256);
  launch(shares_registers, 1, 256, 0, nullptr, on_x.data(), out.data());
  CHECK(out.to_host() == expected);
}

#if !defined(__CUDACC__)
TEST_CASE("on the host, the words of Hopper say that they are for kernels") {
  const auto check = [](const std::string& word, auto use) {
    check_says(error_of(use), {word + " is used on the host, outside of any kernel"});
  };
  static uint64_t barrier = 0;
  alignas(64) static CUtensorMap map = {};
  static int tile[32];
  check("mbarrier_init()", [] { mbarrier_init(&barrier, 1); });
  check("mbarrier_inval()", [] { mbarrier_inval(&barrier); });
  check("mbarrier_arrive()", [] { mbarrier_arrive(&barrier); });
  check("mbarrier_arrive_expect_tx()", [] { mbarrier_arrive_expect_tx(&barrier, 16); });
  check("mbarrier_expect_tx()", [] { mbarrier_expect_tx(&barrier, 16); });
  check("mbarrier_test_wait()", [] { mbarrier_test_wait(&barrier, 0); });
  check("mbarrier_try_wait_parity()", [] { mbarrier_try_wait_parity(&barrier, 0); });
  check("fence_mbarrier_init()", [] { fence_mbarrier_init(); });
  check("fence_proxy_async()", [] { fence_proxy_async(); });
  check("cp_async_bulk()", [] { cp_async_bulk(tile, tile + 16, 16, &barrier); });
  check("cp_async_bulk()", [] { cp_async_bulk(tile, tile + 16, 16); });
  check("cp_async_bulk()", [] { cp_async_bulk(tile + 1, tile + 16, 16); });
  check("cp_async_bulk_commit_group()", [] { cp_async_bulk_commit_group(); });
  check("cp_async_bulk_wait_group()", [] { cp_async_bulk_wait_group<0>(); });
  check("cp_async_bulk_wait_group()", [] { cp_async_bulk_wait_group_read<0>(); });
  check("cp_async_bulk_tensor()", [] { cp_async_bulk_tensor(tile, &map, {0}, &barrier); });
  check("cp_async_bulk_tensor()", [] { cp_async_bulk_tensor(&map, {0}, tile); });
  check("wgmma_descriptor()", [] { wgmma_descriptor(tile, 0, 1024, Swizzle::b128); });
  check("wgmma_wait_group()", [] { wgmma_wait_group<0>(); });
  check("bar_sync()", [] { bar_sync(1, 32); });
  check("bar_arrive()", [] { bar_arrive(1, 32); });
  check("setmaxnreg", [] { setmaxnreg_dec<24>(); });
  check_says(error_of([] { fence_proxy_async(); }), {"warp_groups_test.cpp:"});
}

TEST_CASE("named barriers and registers: each misuse has its words") {
  CHECK(misused(Wrong::nothing) == "no error");
  check_says(misused(Wrong::number), {"bar_sync(16, 64): there are barriers 1 to 15"});
  check_says(misused(Wrong::of_the_block), {"bar_sync(0, 384)", "0 is that of __syncthreads()"});
  check_says(misused(Wrong::threads), {"bar_sync(1, 48)", "for 32 threads or a multiple"});
  check_says(misused(Wrong::other_threads), {"bar_sync(1, ", "other threads wait there for "});
  check_says(misused(Wrong::missing),
             {line_at("missing"), "waits in bar_sync(3, 64) in vain: 32 threads have come"});
  check_says(misused(Wrong::half_a_warp), {"lanes of a warp meet in different instructions"});
  check_says(misused(Wrong::by_lane), {"another lane of the warp names ("});
  check_says(misused(Wrong::registers), {"have 89088 registers together"});
  for (const Wrong wrong : {Wrong::one_warp, Wrong::three_warps})
    check_says(misused(wrong), {"not all four warps of the group of warp 0"});
  check_says(misused(Wrong::more), {line_at("more"), "setmaxnreg_inc<24>", "have 40 registers"});
}

TEST_CASE("a named barrier counts warps, the last one too") {
  DeviceArray<int> out(48);
  CHECK(error_of([&] { launch(meet_48, 1, 48, 0, nullptr, out.data()); }) == "no error");
  const std::vector<int> got = out.to_host();
  for (int i = 0; i < 48; ++i) CHECK(got[static_cast<size_t>(i)] == 47 - i);
}
#endif
