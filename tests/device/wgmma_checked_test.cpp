// wgmma under the emulator's checks: each mistake has its line.
#include "yotta/device/wgmma.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/cp_async_bulk_tensor.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;

namespace {

constexpr int n = 16;

// d = a b of 64 x 64 by 64 x 16 numbers in tiles that TMA has loaded, a group of wgmmas for each
// half of k. `mistake` says what is forgotten.
enum class Mistake {
  none,
  no_fence,
  other_swizzle,
  read_early,
  write_early,
  no_commit,
  no_wait,
  tile_replaced,
  three_warps,
  other_order,
  few_threads,
  wild_descriptor
};
__global__ void multiplies(Mistake mistake, const __grid_constant__ CUtensorMap a,
                           const __grid_constant__ CUtensorMap b, float* out) {
  __shared__ __align__(1024) uint16_t a_tile[64 * 64], b_tile[n * 64];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(&full, sizeof a_tile + sizeof b_tile);
    cp_async_bulk_tensor(a_tile, &a, {0, 0}, &full);  // line: load
    cp_async_bulk_tensor(b_tile, &b, {0, 0}, &full);
  }
  __syncthreads();
  while (!mbarrier_try_wait_parity(&full, 0)) continue;
  const uint32_t warp = threadIdx.x / 32;
  if (mistake == Mistake::three_warps && warp == 3) return;
  const Swizzle named = mistake == Mistake::other_swizzle ? Swizzle::b64 : Swizzle::b128;
  const uint64_t of_a =
      wgmma_descriptor(a_tile, 0, mistake == Mistake::wild_descriptor ? 65536 : 1024, named);
  const uint64_t of_b = wgmma_descriptor(b_tile, 0, 1024, Swizzle::b128);
  float d[n / 2] = {};
  if (mistake != Mistake::no_fence) wgmma_fence();
  const bool backwards = mistake == Mistake::other_order && warp == 2;
  for (uint64_t k = 0; k < 2; ++k) {
    const uint64_t at = 2 * (backwards ? 1 - k : k);
    wgmma<n, bfloat16>(d, of_a + at, of_b + at);  // line: wgmma
  }
  if (mistake != Mistake::no_commit) wgmma_commit_group();
  for (uint64_t at = 4; at < 8; at += 2) wgmma<n, bfloat16>(d, of_a + at, of_b + at);
  if (mistake == Mistake::read_early) out[threadIdx.x] = d[3];               // line: reads
  if (mistake == Mistake::write_early) d[2] = 0.0f;                          // line: writes
  if (mistake == Mistake::tile_replaced && threadIdx.x == 0) a_tile[9] = 3;  // line: replaces
  if (mistake != Mistake::no_commit) wgmma_commit_group();
  if (mistake != Mistake::no_wait) wgmma_wait_group<0>();
  for (int i = 0; i < n / 2; ++i) {
    const MatrixCell at = wgmma_cell(static_cast<int>(threadIdx.x), i);
    out[at.row * n + at.column] = d[i];  // line: sums
  }
}

std::string multiplied(Mistake mistake) {
  return error_of([&] {
    const DeviceArray<bfloat16> a(std::vector<bfloat16>(64 * 64, bfloat16(2.0f)));
    const DeviceArray<bfloat16> b(std::vector<bfloat16>(n * 64, bfloat16(1.0f)));
    DeviceArray<float> out(64 * n);
    launch(multiplies, 1, mistake == Mistake::few_threads ? 96 : 128, 0, nullptr, mistake,
           tensor_map(a.data(), {64, 64}, {64, 64}, Swizzle::b128),
           tensor_map(b.data(), {n, 64}, {n, 64}, Swizzle::b128), out.data());
    CHECK(out.to_host() == std::vector<float>(64 * n, 128.0f));
  });
}

// Threads write B, and A is in registers. In a second round both are other numbers.
enum class Forgotten { nothing, proxy_fence, fence, wait };
__global__ void multiplies_registers(Forgotten forgotten, float* out) {
  __shared__ __align__(128) uint16_t tile[2][n * 16];
  float d[n / 2] = {};
  uint32_t a[4] = {};
  for (uint32_t round = 0; round < 2; ++round) {
    for (unsigned i = threadIdx.x; i < n * 16; i += 128) tile[round][i] = 0x3f80;  // line: writes B
    if (forgotten != Forgotten::proxy_fence) fence_proxy_async();
    __syncthreads();
    for (uint32_t& each : a) each = round == 0 ? 0x3f803f80 : 0x40004000;  // ones, then twos
    if (round == 0 || forgotten != Forgotten::fence) wgmma_fence();
    const uint64_t of_b = wgmma_descriptor(tile[round], n * 16, 128, Swizzle::none);
    wgmma<n, bfloat16>(d, a, of_b);  // line: by registers
    wgmma_commit_group();
    if (round == 1 || forgotten != Forgotten::wait) wgmma_wait_group<0>();
  }
  for (int i = 0; i < n / 2; ++i) out[threadIdx.x * (n / 2) + static_cast<unsigned>(i)] = d[i];
}

std::string by_registers(Forgotten forgotten) {
  return error_of([&] {
    DeviceArray<float> out(64 * n);
    launch(multiplies_registers, 1, 128, 0, nullptr, forgotten, out.data());
    CHECK(out.to_host() == std::vector<float>(64 * n, 48.0f));
  });
}

// The same of numbers of 8 bits and of tf32.
enum class Omits { nothing, proxy_fence, keeping, writes };
template <class Input>
__global__ void multiplies_others(Omits omits, WgmmaSum<Input>* out) {
  __shared__ __align__(128) uint32_t tile[n * 8];
  const unsigned thread = threadIdx.x;
  if (omits != Omits::writes || thread > 5) tile[thread] = 0;  // line: writes words
  if (omits != Omits::proxy_fence) fence_proxy_async();
  __syncthreads();
  WgmmaSum<Input> d[n / 2] = {};
  const uint32_t a[4] = {};
  wgmma_fence();
  wgmma<n, Input>(d, a, wgmma_descriptor(tile, n * 16, 128, Swizzle::none));  // line: of others
  wgmma_commit_group();
  if (omits == Omits::keeping && thread == 0) tile[7] = 3;  // line: too early
  wgmma_wait_group<0>();
  out[thread] = d[0];
}
template <class Input>
std::string others(Omits omits) {
  return error_of([&] {
    DeviceArray<WgmmaSum<Input>> out(128);
    launch(multiplies_others<Input>, 1, 128, 0, nullptr, omits, out.data());
    CHECK(out.to_host() == std::vector<WgmmaSum<Input>>(128, WgmmaSum<Input>(0)));
  });
}
template <class Input>
void check_others() {
  CHECK(others<Input>(Omits::nothing) == "no error");
  check_says(others<Input>(Omits::proxy_fence),
             {line_at("of others"), "wgmma reads tile, element 0 of 128, which line ",
              "no fence_proxy_async()"});
  check_says(
      others<Input>(Omits::keeping),
      {"tile, element 7 of 128", line_at("of others").substr(0, line_at("of others").size() - 2)});
  check_says(others<Input>(Omits::writes),
             {line_at("of others"), "reads what nobody has written: tile"});
}

// Sums in f16, two in a register, of which one is written before it is there.
__global__ void writes_a_half(uint32_t* out) {
  __shared__ __align__(128) uint32_t tile[n * 8];
  tile[threadIdx.x] = 0;
  fence_proxy_async();
  __syncthreads();
  uint32_t d[n / 4] = {};
  const uint32_t a[4] = {};
  wgmma_fence();
  wgmma<n, float16>(d, a, wgmma_descriptor(tile, n * 16, 128, Swizzle::none));  // line: of halves
  wgmma_commit_group();
  d[1] = 0x10000u;  // line: writes a half
  wgmma_wait_group<0>();
  out[threadIdx.x] = d[0];
}

// A thread loads tiles of B into one place; the group multiplies them by ones. The group arrives
// for the next tile after it has waited for its wgmma, or before: all threads, or a few that speak
// for the others.
enum class Frees { after_the_wait, before_it, and_hears, by_first_thread, by_last_lanes };
__global__ void frees_tiles(Frees when, const __grid_constant__ CUtensorMap b, float* out) {
  __shared__ __align__(1024) uint16_t tile[n * 16];
  __shared__ uint64_t full, empty, told;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init(&told, 1);
    mbarrier_init(&empty, when == Frees::by_first_thread ? 1
                          : when == Frees::by_last_lanes ? 4
                                                         : 128);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 128)
    for (uint32_t i = 0; i < 3; ++i) {
      while (!mbarrier_try_wait_parity(&empty, (i + 1) % 2)) continue;
      mbarrier_arrive_expect_tx(&full, sizeof tile);
      cp_async_bulk_tensor(tile, &b, {0, static_cast<int>(n * i)}, &full);  // line: next tile
      mbarrier_arrive(&told);
    }
  if (threadIdx.x >= 128) return;
  float d[n / 2] = {};
  const uint32_t a[4] = {0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80};
  for (uint32_t i = 0; i < 3; ++i) {
    while (!mbarrier_try_wait_parity(&full, i % 2)) continue;
    wgmma_fence();
    wgmma<n, bfloat16>(d, a, wgmma_descriptor(tile, 0, 256, Swizzle::b32));  // line: of tiles
    wgmma_commit_group();
    if (when == Frees::before_it || when == Frees::and_hears) mbarrier_arrive(&empty);
    if (when == Frees::and_hears && i < 2)
      while (!mbarrier_try_wait_parity(&told, (i + 1) % 2)) continue;
    wgmma_wait_group<0>();
    if (when == Frees::after_the_wait || (when == Frees::by_first_thread && threadIdx.x == 0) ||
        (when == Frees::by_last_lanes && threadIdx.x % 32 == 31))
      mbarrier_arrive(&empty);
  }
  for (int i = 0; i < n / 2; ++i) out[threadIdx.x * (n / 2) + static_cast<unsigned>(i)] = d[i];
}

std::string freed(Frees when) {
  return error_of([&] {
    const DeviceArray<bfloat16> b(std::vector<bfloat16>(3 * n * 16, bfloat16(1.0f)));
    DeviceArray<float> out(64 * n);
    launch(frees_tiles, 1, 160, 0, nullptr, when,
           tensor_map(b.data(), {3 * n, 16}, {n, 16}, Swizzle::b32), out.data());
    CHECK(out.to_host() == std::vector<float>(64 * n, 48.0f));
  });
}

}  // namespace

TEST_CASE("wgmma: sums are touched before and after it, and never meanwhile") {
  CHECK(multiplied(Mistake::none) == "no error");
#if defined(__clang__)  // which instruments no access to d
  check_says(multiplied(Mistake::write_early),
             {line_at("wgmma"), "d[2] of lane 0 was written while this wgmma was at work on it"});
  for (const Mistake mistake : {Mistake::no_wait, Mistake::no_commit})
    check_says(multiplied(mistake), {line_at("wgmma"), "returns while this wgmma is at work"});
#else
  check_says(
      multiplied(Mistake::read_early),
      {line_at("reads"), "reads a sum of the wgmma of line ", "wgmma_wait_group<0>() come first"});
  check_says(multiplied(Mistake::write_early), {line_at("writes"), "writes a sum of the wgmma"});
  check_says(multiplied(Mistake::no_wait), {line_at("sums"), "reads a sum of the wgmma"});
  check_says(multiplied(Mistake::no_commit), {line_at("sums"), "wgmma_commit_group()"});
#endif
}

TEST_CASE("wgmma: fences for registers, and for tiles that threads have written") {
  check_says(multiplied(Mistake::no_fence),
             {line_at("wgmma"), "d was written after the last wgmma_fence()"});
  CHECK(by_registers(Forgotten::nothing) == "no error");
  check_says(by_registers(Forgotten::fence),
             {line_at("by registers"), "A in registers was written after the last wgmma_fence()"});
  check_says(by_registers(Forgotten::wait),
             {line_at("by registers"), "A in registers was changed while the wgmma of ",
              "wgmma_wait_group comes before"});
  check_says(
      by_registers(Forgotten::proxy_fence),
      {line_at("by registers"), "wgmma reads tile, element 0 of ", "no fence_proxy_async()"});
}

TEST_CASE("wgmma: descriptors name the swizzle of the copy, and lead to shared memory") {
  check_says(multiplied(Mistake::other_swizzle), {line_at("wgmma"), "names a swizzle of 64 bytes",
                                                  "has written a_tile with one of 128"});
  check_says(multiplied(Mistake::wild_descriptor),
             {line_at("wgmma"), "where nothing is: row 8, k 0"});
}

TEST_CASE("wgmma: tiles of tf32 and of numbers of 8 bits are watched too") {
  check_others<float>();
  check_others<float8_e4m3>();
  check_others<int8_t>();
}

TEST_CASE("wgmma: sums in f16 are watched too") {
  DeviceArray<uint32_t> out(128);
  const std::string message =
      error_of([&] { launch(writes_a_half, 1, 128, 0, nullptr, out.data()); });
#if defined(__clang__)
  check_says(message, {line_at("of halves"), "d[2] of lane 0 was written while this wgmma"});
#else
  check_says(message, {line_at("writes a half"), "writes a sum of the wgmma"});
#endif
}

TEST_CASE("wgmma: a tile stays until it is done") {
  check_says(multiplied(Mistake::tile_replaced),
             {line_at("wgmma"), "this wgmma reads a_tile, element 9 of 4096", "wgmma_wait_group"});
  for (const Frees when : {Frees::after_the_wait, Frees::by_first_thread, Frees::by_last_lanes})
    CHECK(freed(when) == "no error");
  check_says(freed(Frees::before_it), {line_at("next tile"), "race: line ", " writes what line ",
                                       " reads (tile, element 0 of 128"});
  check_says(freed(Frees::and_hears), {line_at("of tiles"), "this wgmma may still read tile",
                                       "wgmma_wait_group comes before the arrival"});
}

TEST_CASE("wgmma: all four warps execute the same") {
  check_says(multiplied(Mistake::three_warps),
             {line_at("wgmma"), "warp 3 does not execute this wgmma"});
  check_says(multiplied(Mistake::other_order), {line_at("wgmma"), "bring different descriptors"});
  check_says(multiplied(Mistake::few_threads),
             {line_at("wgmma"), "needs four warps", "has 96 threads"});
}

TEST_CASE("wgmma: after a refusal, the host is outside of kernels again") {
  check_says(multiplied(Mistake::few_threads), {"needs four warps"});
  check_says(error_of([] { static_cast<void>(threadIdx.x); }),
             {"threadIdx is used on the host, outside of any kernel"});
}

TEST_CASE("wgmma: counted once a warp, with its FLOPs") {
  Profile profile;
  CHECK(multiplied(Mistake::none) == "no error");
  CHECK(profile.instructions("wgmma()") == 4 * 4);
  CHECK(profile.flops() == 2 * 64 * n * 64);
}

namespace {

// An array of another function, beside as much dynamic memory as there is.
__device__ char* of_a_function() {
  __shared__ char all[36 * 1024];
  return all;
}
__global__ void describes(size_t at, uint64_t* out) {
  volatile char* const more = of_a_function();
  *more = 1;
  const char* const tile = dynamic_shared<char>() + at;
  *out = wgmma_descriptor(tile, 16, 128, Swizzle::none);  // line: far tile
  *out += static_cast<uint64_t>(*more);
}

}  // namespace

TEST_CASE("wgmma: a place for which a descriptor has no number is refused") {
  DeviceArray<uint64_t> out(1);
  const auto run = [&](size_t at) {
    return error_of([&] { launch(describes, 1, 1, 227 * 1024, nullptr, at, out.data()); });
  };
  CHECK(run(200 * 1024) == "no error");
  check_says(run(226 * 1024),
             {line_at("far tile"), "thread (0, 0, 0): wgmma_descriptor()", "2^18"});
}
