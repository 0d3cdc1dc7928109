// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/mbarrier.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/hopper_here.hpp"
#include "support/kernel_error.hpp"
#if !defined(__CUDACC__)
#include "support/spinning_kernels.hpp"
#endif
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

constexpr int rounds = 5;

// Warp 0 writes a number and warp 1 reads it, in turns: `full` says that it is there, `empty` that
// it may be replaced.
__global__ void passes_numbers(int* out) {
  __shared__ uint64_t full, empty;
  __shared__ int number[32];
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 32);
    mbarrier_init(&empty, 32);
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (uint32_t i = 0; i < rounds; ++i) {
    if (threadIdx.x < 32) {
      while (!mbarrier_try_wait_parity(&empty, (i + 1) % 2)) continue;
      number[lane] = 100 * static_cast<int>(i) + lane;
      mbarrier_arrive(&full);
    } else {
      while (!mbarrier_try_wait_parity(&full, i % 2)) continue;
      out[32 * i + lane] = number[31 - lane];
      mbarrier_arrive(&empty);
    }
  }
}

// One thread arrives for several, and waits for the state that its arrival returns.
__global__ void waits_for_states(int* out) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) mbarrier_init(&barrier, 3);
  __syncthreads();
  const uint64_t state =
      threadIdx.x == 0 ? mbarrier_arrive(&barrier, 2) : mbarrier_arrive(&barrier);
  while (!mbarrier_test_wait(&barrier, state)) continue;
  out[threadIdx.x] = mbarrier_try_wait(&barrier, state) ? 1 : 0;
}

// Which of the two parities counts as complete, before and after the only arrival of a phase.
__global__ void asks(int* out) {
  __shared__ uint64_t barrier;
  mbarrier_init(&barrier, 1);
  for (int i = 0; i < 3; ++i) {
    out[2 * i] = mbarrier_test_wait_parity(&barrier, 0);
    out[2 * i + 1] = mbarrier_test_wait_parity(&barrier, 1);
    mbarrier_arrive(&barrier);
  }
  mbarrier_inval(&barrier);
  mbarrier_init(&barrier, 2);
  out[6] = mbarrier_test_wait_parity(&barrier, 1);
}

#if !defined(__CUDACC__)
enum class Wrong {
  nothing,
  no_init,
  after_inval,
  two_inits,
  askew,
  none,
  too_many,
  parity,
  overwritten,
  missing,
  next_parity,
  bytes,
  too_many_bytes
};
template <Wrong wrong>
__global__ void misuses(int* out) {
  __shared__ uint64_t words[2];
  uint64_t* const barrier = wrong == Wrong::askew
                                ? reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(words) + 4)
                                : words;
  const uint32_t count = wrong == Wrong::none ? 0 : wrong == Wrong::missing ? 2 : 1;
  if (wrong != Wrong::no_init) mbarrier_init(barrier, count);  // line: init
  if (wrong == Wrong::two_inits) mbarrier_init(barrier, 1);
  if (wrong == Wrong::after_inval) mbarrier_inval(barrier);
  if (wrong == Wrong::overwritten) words[0] = 0;
  if (wrong == Wrong::bytes)
    mbarrier_arrive_expect_tx(barrier, 64);
  else if (wrong == Wrong::too_many_bytes)
    mbarrier_arrive_expect_tx(barrier, 1 << 20);
  else
    mbarrier_arrive(barrier, wrong == Wrong::too_many ? 2 : 1);
  const uint32_t parity = wrong == Wrong::parity ? 2 : wrong == Wrong::next_parity ? 1 : 0;
  while (!mbarrier_try_wait_parity(barrier, parity)) continue;  // line: wait
  out[0] = 1;
}

template <Wrong wrong>
std::string misused() {
  return error_of([] {
    DeviceArray<int> out(1);
    launch(misuses<wrong>, 1, 1, 0, nullptr, out.data());
  });
}

// A block that meets at an mbarrier alone, for longer than its threads are given.
__global__ void meets_often(int meetings, int* out) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) mbarrier_init(&barrier, 64);
  __syncthreads();
  for (int i = 0; i < meetings; ++i) {
    const uint64_t state = mbarrier_arrive(&barrier);
    while (!mbarrier_try_wait(&barrier, state)) continue;
  }
  out[threadIdx.x] = meetings;
}

// A thread looks many times, and then does something else: it arrives.
__global__ void looks_and_arrives(int* out) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) mbarrier_init(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 1000 && !mbarrier_test_wait_parity(&barrier, 0); ++i) continue;
    mbarrier_arrive(&barrier);
  }
  while (!mbarrier_try_wait_parity(&barrier, 0)) continue;
  out[threadIdx.x] = 1;
}

// The other threads wait in a barrier of the block, which this one will never reach.
__global__ void waits_apart(int* out) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) mbarrier_init(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 5)
    while (!mbarrier_try_wait_parity(&barrier, 0)) continue;  // line: apart
  __syncthreads();
  out[threadIdx.x] = 1;
}
#endif

}  // namespace

TEST_CASE("a pipeline of one place: each number is read once, and only when it is there" *
          doctest::skip(!hopper_is_here())) {
  DeviceArray<int> out(32 * rounds);
  launch(passes_numbers, 1, 64, 0, nullptr, out.data());
  const std::vector<int> got = out.to_host();
  for (int i = 0; i < rounds; ++i)
    for (int lane = 0; lane < 32; ++lane)
      CHECK(got[static_cast<size_t>(32 * i + lane)] == 100 * i + 31 - lane);
}

TEST_CASE("states and counts: two threads make three arrivals" * doctest::skip(!hopper_is_here())) {
  DeviceArray<int> out(2);
  launch(waits_for_states, 1, 2, 0, nullptr, out.data());
  CHECK(out.to_host() == std::vector<int>{1, 1});
}

TEST_CASE("a new mbarrier has completed the phase before its first, of parity 1" *
          doctest::skip(!hopper_is_here())) {
  DeviceArray<int> out(7);
  launch(asks, 1, 1, 0, nullptr, out.data());
  CHECK(out.to_host() == std::vector<int>{0, 1, 1, 0, 0, 1, 1});
}

#if !defined(__CUDACC__)
TEST_CASE("each misuse of an mbarrier is refused with its own words") {
  CHECK(misused<Wrong::nothing>() == "no error");
  check_says(misused<Wrong::no_init>(), {"mbarrier_arrive() on an address where no mbarrier is"});
  check_says(misused<Wrong::after_inval>(), {"no mbarrier is", "mbarrier_inval() after it"});
  check_says(misused<Wrong::two_inits>(), {line_at("init").substr(0, line_at("init").size() - 2),
                                           "has initialised", "in one thread only"});
  check_says(misused<Wrong::askew>(), {"must be a multiple of 8"});
  check_says(misused<Wrong::none>(), {"with 0 arrivals of a phase: 1 to 1048575"});
  check_says(misused<Wrong::too_many>(), {"2 arrivals at once, and phase 0 (parity 0) has 0 of 1"});
  check_says(misused<Wrong::parity>(), {line_at("wait"), "parity 2: it is 0 or 1"});
  check_says(misused<Wrong::overwritten>(), {"whose 64 bits something has overwritten"});
  check_says(misused<Wrong::too_many_bytes>(), {"1048576 bytes are expected", "at most 1048575"});
}

TEST_CASE("a phase of an mbarrier that completes is progress") {
  const Impatient patience(0.02);
  DeviceArray<int> out(64);
  CHECK(error_of([&] { launch(meets_often, 1, 64, 0, nullptr, 20000, out.data()); }) == "no error");
  CHECK(out.to_host() == std::vector<int>(64, 20000));
}

TEST_CASE("a thread that only tests an mbarrier may do something else next") {
  DeviceArray<int> out(32);
  CHECK(error_of([&] { launch(looks_and_arrives, 1, 32, 0, nullptr, out.data()); }) == "no error");
}

TEST_CASE("a wait that can never end says what its phase lacks") {
  check_says(misused<Wrong::missing>(),
             {line_at("wait"), "waits for parity 0", "in vain", "has 1 of 2 arrivals",
              "1 arrivals are missing: do all 2"});
  check_says(misused<Wrong::next_parity>(),
             {line_at("wait"), "waits for parity 1", "phase 1 (parity 1) has 0 of 1 arrivals",
              "Phase 0 has completed, with parity 0"});
  check_says(misused<Wrong::bytes>(), {line_at("wait"), "has 1 of 1 arrivals, and 0 of 64 bytes",
                                       "mbarrier_arrive_expect_tx announces"});
  DeviceArray<int> out(32);
  check_says(error_of([&] { launch(waits_apart, 1, 32, 0, nullptr, out.data()); }),
             {line_at("apart"), "thread (5, 0, 0)", "has 0 of 1 arrivals"});
}
#endif
