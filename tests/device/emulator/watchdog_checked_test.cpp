// Loops without an end under checks: the line is named.
#include "yotta/device/emulator/watchdog.hpp"

#include <doctest/doctest.h>

#include "support/spinning_kernels.hpp"

using namespace yotta;

namespace {

__global__ void waits_here(const int* flag, int* y) {
  const volatile int* const again = flag;
  while (*again == 0) {  // line: waits
  }
  y[0] = 1;
}

// The one that sets the flag is a thread of the same block.
__global__ void one_sets_it(int* flag, int* y) {
  volatile int* const shared = flag;
  if (threadIdx.x == 0) *shared = 1;  // line: sets
  while (*shared == 0) {              // line: looks
  }
  y[threadIdx.x] = 1;
}

}  // namespace

TEST_CASE("the line of the loop is named, with block and thread") {
  const Impatient soon(0.05);
  const DeviceArray<int> flag(std::vector<int>{0});
  DeviceArray<int> y(32);
  check_says(error_of([&] { launch(waits_here, 2, 32, 0, nullptr, flag.data(), y.data()); }),
             {"watchdog_checked_test.cpp:", line_at("waits"), "kernel ", "waits_here",
              "block (0, 0, 0)", "thread (", "has run for 0.05 seconds", "__nanosleep()"});
}

TEST_CASE("a flag between threads ends with an explanation, in whatever order they run") {
  const Impatient soon(0.05);
  DeviceArray<int> y(32);
  for (const uint64_t seed : {1, 2}) {
    DeviceArray<int> flag(std::vector<int>{0});
    emulator_options().seed = seed;
    const std::string message =
        error_of([&] { launch(one_sets_it, 1, 32, 0, nullptr, flag.data(), y.data()); });
    const bool raced = message.find("race: line") != std::string::npos;
    check_says(message, {raced ? "no barrier is between them" : "has run for 0.05 seconds",
                         raced ? "watchdog_checked_test.cpp:" : line_at("looks")});
  }
}

TEST_CASE("loops in the kernels of a header, and the kernels that end") {
  const Impatient soon(0.05);
  DeviceArray<int> flag(std::vector<int>{0}), y(std::vector<int>(64, 0));
  for (const auto kernel : {waits_for_a_flag, waits_for_nothing})
    check_says(error_of([&] { launch(kernel, 1, 32, 0, nullptr, flag.data()); }),
               {"spinning_kernels.hpp:", "has run for"});
  CHECK(error_of([&] { launch(passes_on, 1, 64, 0, nullptr, flag.data(), y.data()); }) ==
        "no error");
}
