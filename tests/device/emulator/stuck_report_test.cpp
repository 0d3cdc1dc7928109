#include "yotta/device/emulator/stuck_report.hpp"

#include <doctest/doctest.h>

#include <string>

#include "yotta/device/kernel.hpp"

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
std::string error_of(void (*kernel)(Arguments...), Arguments... arguments) {
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

TEST_CASE("a thread that returns before a barrier is named, with the cure") {
  const std::string message = error_of(returns_early, 50u);
  has(message, "stuck_report_test.cpp:");
  has(message, "divergent barrier: 50 of 64 threads, thread (0, 0, 0) among them, wait");
  has(message, "thread (50, 0, 0) has returned");
  has(message, "put the condition around the work");
  CHECK(error_of(returns_early, 64u) == "no error");
}

TEST_CASE("two barriers in two branches are not one barrier") {
  const std::string message = error_of(two_barriers);
  has(message, "40 of 64 threads");
  has(message, "thread (40, 0, 0) waits in __syncthreads() at stuck_report_test.cpp:");
}
