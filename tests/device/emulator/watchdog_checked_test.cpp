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

__global__ void reads_for_ever(int* x) {
  int sum = 0;
  for (unsigned i = 0; sum >= 0; ++i) sum += x[i % 1];  // line: for ever
  x[0] = sum;
}

__global__ void takes_a_lock_and_stays(int* lock, int* x) {
  while (atomicCAS(lock, 0, 1) != 0) {  // line: takes the lock
  }
  int sum = 0;
  for (unsigned i = 0; sum >= 0; ++i) sum += x[i % 1];  // line: stays
  atomicExch(lock, sum);
}

}  // namespace

TEST_CASE("the line of the loop is named, with block and thread") {
  const Impatient soon(0.05);
  const DeviceArray<int> flag(std::vector<int>{0});
  DeviceArray<int> y(32);
  check_says(error_of([&] { launch(waits_here, 2, 32, 0, nullptr, flag.data(), y.data()); }),
             {"watchdog_checked_test.cpp:", line_at("waits"), "kernel ", "waits_here",
              "block (0, 0, 0)", "thread (", "has run for 0.05 seconds", "read as volatile"});
}

TEST_CASE("patience is as long for loops that are checked all the time") {
  const Impatient soon(0.05);
  DeviceArray<int> flag(std::vector<int>{0});
  check_says(error_of([&] { launch(reads_for_ever, 1, 32, 0, nullptr, flag.data()); }),
             {line_at("for ever"), "has run for 0.05 seconds"});
  check_says(error_of([&] { launch(spins_on_an_atomic, 1, 64, 0, nullptr, flag.data()); }),
             {"spinning_kernels.hpp:", "has run for 0.05 seconds"});
}

TEST_CASE("a volatile flag between threads is seen") {
  DeviceArray<int> flag(std::vector<int>{0}), y(32);
  CHECK(error_of([&] { launch(one_sets_it, 1, 32, 0, nullptr, flag.data(), y.data()); }) ==
        "no error");
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

TEST_CASE("who has taken a lock and never gives it back is named where it stays") {
  const Impatient soon(0.1);
  DeviceArray<int> lock(std::vector<int>{0}), x(std::vector<int>{0});
  check_says(
      error_of([&] { launch(takes_a_lock_and_stays, 1, 1, 0, nullptr, lock.data(), x.data()); }),
      {line_at("stays"), "has run for"});
}
