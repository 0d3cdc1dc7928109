#include "yotta/device/emulator/mma_warp.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

struct Reversal {
  int value = 0;
  int* result = nullptr;
};

// An instruction of the whole warp: lane i gets the value of lane 31 - i.
int reversed(int value, Where where = Where::current()) {
  int result = 0;
  whole_warp(
      "reversed()", Reversal{value, &result},
      +[](const Reversal(&lanes)[32], Where) {
        for (int i = 0; i < 32; ++i) *lanes[i].result = lanes[31 - i].value;
      },
      where);
  return result;
}

__global__ void reverse(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  out[i] = reversed(10 * i);
}
__global__ void reverse_without_one(int* out) {
  if (threadIdx.x == 7) return;
  out[threadIdx.x] = reversed(1);
}

std::string error_of(void (*kernel)(int*), unsigned threads) {
  DeviceArray<int> out(96);
  try {
    launch(kernel, 1, threads, 0, nullptr, out.data());
  } catch (const KernelError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("the instruction is carried out once for each warp, on the operands of its 32 lanes") {
  DeviceArray<int> out(96);
  launch(reverse, 1, 96, 0, nullptr, out.data());
  const std::vector<int> got = out.to_host();
  for (int i = 0; i < 96; ++i)
    CHECK(got[static_cast<size_t>(i)] == 10 * (i / 32 * 32 + 31 - i % 32));
}

TEST_CASE("a warp that is not whole is refused, with line, count and cure") {
  const std::string one = error_of(reverse_without_one, 32), few = error_of(reverse, 40);
  CAPTURE(one);
  CAPTURE(few);
  CHECK(one.find("mma_warp_test.cpp:") != std::string::npos);
  CHECK(one.find("reversed() needs all 32 lanes of the warp, and 1 have returned") !=
        std::string::npos);
  CHECK(few.find("and 24 have returned or do not exist") != std::string::npos);
  CHECK(few.find("launch blocks of 32 threads or multiples") != std::string::npos);
}
