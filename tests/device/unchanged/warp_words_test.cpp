#include "yotta/device/unchanged/warp_words.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <vector>

#include "support/message_of.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr unsigned all_lanes = 0xffffffffu;

__global__ void match(unsigned* any, unsigned* all, int* predicates) {
  const unsigned lane = threadIdx.x;
  any[lane] = __match_any_sync(all_lanes, lane % 3);
  all[lane] = __match_all_sync(all_lanes, 7.5f, &predicates[lane]);
  all[lane + 32] = __match_all_sync(all_lanes, lane == 4, &predicates[lane + 32]);
}

__global__ void reduce(int* y, unsigned* z) {
  const int lane = static_cast<int>(threadIdx.x), value = lane - 10;
  y[0] = __reduce_add_sync(all_lanes, value);
  y[1] = __reduce_min_sync(all_lanes, value);
  y[2] = __reduce_max_sync(all_lanes, value);
  z[0] = __reduce_and_sync(all_lanes, threadIdx.x | 64);
  z[1] = __reduce_or_sync(all_lanes, threadIdx.x);
  z[2] = __reduce_xor_sync(all_lanes, 1u << threadIdx.x);
  z[3] = __reduce_min_sync(all_lanes, static_cast<unsigned>(value));
  if (lane < 8) y[3] = __reduce_add_sync(0xffu, value);
}

__global__ void ask_who_is_here(unsigned* masks) {
  if (threadIdx.x % 2 == 0)
    masks[threadIdx.x] = __activemask();
  else
    masks[threadIdx.x] = __activemask();
}

__global__ void ends_while_others_ask(unsigned* masks, unsigned lanes, bool ends) {
  if (ends && threadIdx.x == 31) __trap();
  if (threadIdx.x < lanes) masks[threadIdx.x] = __activemask();
}

__global__ void counts_down(unsigned* counter, unsigned* seen) { seen[atomicDec(counter, 40)] = 1; }

__global__ void through_hints(const float* x, float* y) {
  __stcs(&y[threadIdx.x], __ldg(&x[threadIdx.x]) + __ldcs(x + threadIdx.x));
}

__global__ void ends_by_trap() {
  if (threadIdx.x == 3) __trap();
}

}  // namespace

TEST_CASE("lanes that brought the same find each other") {
  DeviceArray<unsigned> any(32), all(64);
  DeviceArray<int> predicates(64);
  launch(match, 1, 32, 0, nullptr, any.data(), all.data(), predicates.data());
  for (size_t lane = 0; lane < 32; ++lane) {
    unsigned same = 0;
    for (size_t i = lane % 3; i < 32; i += 3) same |= 1u << i;
    CHECK(any.to_host()[lane] == same);
    CHECK(all.to_host()[lane] == all_lanes);
    CHECK(predicates.to_host()[lane] != 0);
    CHECK(all.to_host()[lane + 32] == 0);
    CHECK(predicates.to_host()[lane + 32] == 0);
  }
}

TEST_CASE("a warp joins what its lanes bring") {
  DeviceArray<int> y(4);
  DeviceArray<unsigned> z(4);
  launch(reduce, 1, 32, 0, nullptr, y.data(), z.data());
  CHECK(y.to_host() == std::vector<int>{31 * 16 - 320, -10, 21, 28 - 80});
  CHECK(z.to_host() == std::vector<unsigned>{64, 31, all_lanes, 0});
}

TEST_CASE("lanes that come to a line together are named together") {
  DeviceArray<unsigned> masks(32);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    emulator_options().seed = seed;
    launch(ask_who_is_here, 1, 32, 0, nullptr, masks.data());
    for (size_t lane = 0; lane < 32; ++lane)
      CHECK(masks.to_host()[lane] == (lane % 2 == 0 ? 0x55555555u : 0xaaaaaaaau));
  }
  emulator_options() = {};
}

TEST_CASE("atomicDec counts down to 0 and begins again") {
  DeviceArray<unsigned> counter(std::vector<unsigned>{40}), seen(std::vector<unsigned>(42, 0));
  launch(counts_down, 1, 41, 0, nullptr, counter.data(), seen.data());
  CHECK(counter.to_host()[0] == 40);
  for (size_t i = 0; i <= 40; ++i) CHECK(seen.to_host()[i] == 1);
}

TEST_CASE("hints for caches change no value; a trap ends the launch") {
  const DeviceArray<float> x(std::vector<float>(32, 1.5f));
  DeviceArray<float> y(32);
  launch(through_hints, 1, 32, 0, nullptr, x.data(), y.data());
  CHECK(y.to_host() == std::vector<float>(32, 3.0f));
  CHECK(
      contains(message_of([] { launch(ends_by_trap, 1, 32, 0, nullptr); }), "__trap() was called"));
}

TEST_CASE("after a launch that failed, nobody of it is active") {
  DeviceArray<unsigned> masks(32);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    emulator_options().seed = seed;
    CHECK_THROWS_AS(launch(ends_while_others_ask, 1, 32, 0, nullptr, masks.data(), 32u, true),
                    KernelError);
    launch(ends_while_others_ask, 1, 32, 0, nullptr, masks.data(), 4u, false);
    CHECK(masks.to_host()[2] == 0xfu);
  }
  emulator_options() = {};
}
