#include "yotta/device/emulator/watchdog.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/not_run.hpp"
#include "support/spinning_kernels.hpp"

using namespace yotta;

namespace {

__global__ void returns_early(unsigned n) {
  if (threadIdx.x >= n) return;
  __syncthreads();
}

__global__ void two_barriers() {
  if (threadIdx.x < 40)
    __syncthreads();
  else
    __syncthreads();
}

template <class... Arguments>
std::string error_of_launch(void (*kernel)(Arguments...), Arguments... arguments) {
  try {
    launch(kernel, 2, 64, 0, nullptr, arguments...);
  } catch (const KernelError& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& message, const char* words) {
  INFO(message);
  CHECK(message.find(words) != std::string::npos);
  return message.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "a loop without an end is stopped: of a flag that the compiler reads once, of a volatile one, "
    "of none") {
  const Impatient soon(0.05);
  DeviceArray<int> flag(std::vector<int>{0});
  for (const auto kernel : {waits_for_a_flag, waits_for_nothing})
    for (const int threads : {1, 64}) {
      const std::string message =
          error_of([&] { launch(kernel, 3, threads, 0, nullptr, flag.data()); });
      check_says(message,
                 {"kernel ", "waits_for_", "block (", "thread (", "has run for 0.05 seconds",
                  "read as volatile", "emulator_options().patience"});
      CHECK(message.find("abi") == std::string::npos);
    }
}

TEST_CASE("the next launch is none the worse for it, nor is one on several OS threads") {
  const Impatient soon(0.05);
  DeviceArray<int> flag(std::vector<int>{0}), done(std::vector<int>(640, 0));
  emulator_options().threads = 3;
  CHECK(error_of([&] { launch(waits_for_a_flag, 8, 32, 0, nullptr, flag.data()); }) != "no error");
  launch(counts_up, 10, 64, 0, nullptr, done.data());
  CHECK(done.to_host() == std::vector<int>(640, 1));
}

TEST_CASE("patience counts one thread's turn, not the launch") {
  const Impatient soon(0.05);
  DeviceArray<int> x(std::vector<int>(64, 0));
  CHECK(error_of([&] {
          launch(works_between_barriers, 1, 4, 0, nullptr, x.data(), 400, 200'000);
        }) == "no error");
}

TEST_CASE("a wait that lets the others go first comes to its end") {
  const Impatient soon(0.2);
  DeviceArray<int> flag(std::vector<int>{0}), y(64);
  launch(passes_on, 1, 64, 0, nullptr, flag.data(), y.data());
  CHECK(flag.to_host()[0] == 64);
}

TEST_CASE("ticks come with the CPU time of the thread that asked, and of no other") {
  static std::atomic<int> ticks = 0;
  static constexpr CpuTicks::Tick count = [](uintptr_t instruction) { ticks += instruction != 0; };
  const CpuTicks ticking(&count);
  volatile int work = 0;
  std::thread other([&] {
    for (int i = 0; i < 30'000'000; ++i) work = i;
  });
  other.join();
  const int idle = ticks;
  CHECK(idle <= 2);
  for (int i = 0; ticks == idle && i < 2'000'000'000; ++i) work = i;
  CHECK(ticks > idle);
}

TEST_CASE("code of the program lies in an image, other memory does not") {
  const std::vector<int> heap(10);
  CHECK(in_some_image(reinterpret_cast<uintptr_t>(&in_some_image)));
  CHECK_FALSE(in_some_image(reinterpret_cast<uintptr_t>(heap.data())));
}

TEST_CASE("a thread that returns before a barrier is named, with the cure, unless it may") {
  const std::string message = error_of_launch(returns_early, 50u);
  has(message, "watchdog_test.cpp:");
  has(message, "divergent barrier: 50 of 64 threads, thread (0, 0, 0) among them, wait");
  has(message, "thread (50, 0, 0) has returned");
  has(message, "put the condition around the work");
  CHECK(error_of_launch(returns_early, 64u) == "no error");
  const Impatient as_before(10);  // the options, at the end of the scope
  emulator_options().may_return_early = true;
  CHECK(error_of_launch(returns_early, 50u) == "no error");
  CHECK(error_of_launch(returns_early, 0u) == "no error");
}

TEST_CASE("lanes take turns until the block has run for its patience, then each runs on") {
  emulator::Watchdog dog(0.2, {});  // 20 ticks
  std::vector<emulator::Lane> lanes(8);
  int slices = 0, ticks = 0;
  for (size_t lane = 0;; lane = (lane + 1) % lanes.size()) {
    bool late = false, others = false;
    while (!late && !others) {
      late = dog.late(lanes[lane]);
      others = !late && dog.ends_slice(lanes[lane]);
      ++ticks;
    }
    if (late) break;
    ++slices;
  }
  CHECK(slices == 3);
  CHECK(ticks == 15 + 20);
  lanes[0].waits = true;
  CHECK(dog.late(lanes[0]));  // with the others
  dog.progress(lanes[0]);
  CHECK_FALSE(dog.late(lanes[0]));
}

TEST_CASE("a volatile flag is seen in the end, though its thread comes last") {
  if (YOTTA_ASAN || YOTTA_TSAN) YOTTA_NOT_RUN("under a sanitizer lanes do not take turns by time");
  for (const uint64_t seed : {1, 2, 3}) {
    const Impatient soon(1.0);
    emulator_options().seed = seed;
    DeviceArray<int> flag(std::vector<int>{0}), y(4);
    CHECK(error_of([&] { launch(one_sets_it, 1, 4, 0, nullptr, flag.data(), y.data()); }) ==
          "no error");
  }
}

TEST_CASE("lanes that spin on an atomic lose patience together") {
  const Impatient soon(0.05);
  DeviceArray<int> flag(std::vector<int>{0});
  check_says(error_of([&] { launch(spins_on_an_atomic, 1, 64, 0, nullptr, flag.data()); }),
             {"spinning_kernels.hpp:", "has run for 0.05 seconds"});
}

TEST_CASE("two barriers in two branches are not one barrier") {
  const std::string message = error_of_launch(two_barriers);
  has(message, "40 of 64 threads");
  has(message, "thread (40, 0, 0) waits in __syncthreads() at watchdog_test.cpp:");
}
