// Races with cuda::atomic and cuda::atomic_ref under the emulator's checks: the lines are the
// kernel's.
#include <doctest/doctest.h>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/unchanged/cuda_atomic.hpp"

using namespace yotta;

namespace {

using Ref = cuda::atomic_ref<int, cuda::thread_scope_device>;

// Thread 1 does as `way` says, thread 0 writes without further ado.
__global__ void races(int* x, int way) {
  __shared__ cuda::atomic<int, cuda::thread_scope_block> own;
  if (threadIdx.x == 0) own = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    *x = 7;
    *reinterpret_cast<int*>(&own) = 7;
  } else if (way == 0) {
    own.fetch_add(1);  // line: add
  } else if (way == 1) {
    ++own;  // line: next
  } else if (way == 2) {
    own += 2;  // line: plus
  } else if (way == 3) {
    x[1] = own;  // line: read
  } else if (way == 4) {
    const auto relaxed = cuda::memory_order_relaxed;
    own.compare_exchange_weak(x[1], 1, relaxed, relaxed);  // line: exchange
  } else if (way == 5) {
    Ref(*x).store(1);  // line: store
  } else if (way == 6) {
    x[1] = Ref(*x);  // line: read by name
  } else {
    --Ref(*x);  // line: before
  }
}

}  // namespace

TEST_CASE("a race on an atomic variable names the kernel's own lines") {
  const char* const marks[] = {"add",      "next",  "plus",         "read",
                               "exchange", "store", "read by name", "before"};
  for (uint64_t seed = 0; seed < 2; ++seed)
    for (int way = 0; way < 8; ++way) {
      emulator_options().seed = seed;
      const std::string mark = marks[way], line = line_at(mark);
      DeviceArray<int> x(std::vector<int>{0, 0});
      const std::string message = error_of([&] { launch(races, 1, 2, 0, nullptr, x.data(), way); });
      check_says(message, {"race", line.substr(0, line.size() - 2)});
      CHECK(message.find("cuda_atomic.hpp") == std::string::npos);
    }
  emulator_options() = {};
}
