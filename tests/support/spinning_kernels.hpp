// Kernels that wait for ever, and some that only take long.
#pragma once

#include "support/kernel_error.hpp"
#include "yotta/device/atomics.hpp"
#include "yotta/device/device_memory.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Patience of so many seconds, and one OS thread, until the end of the scope.
class Impatient {
 public:
  explicit Impatient(double seconds) { emulator_options().patience = seconds; }
  ~Impatient() { emulator_options() = before_; }
  Impatient(const Impatient&) = delete;
  Impatient& operator=(const Impatient&) = delete;

 private:
  EmulatorOptions before_ = emulator_options();
};

inline __global__ void waits_for_a_flag(int* flag) {
  const volatile int* const again = flag;
  while (*again == 0) {
  }
  *flag = 2;
}

// The one that sets the flag is a thread of the same block.
inline __global__ void one_sets_it(int* flag, int* y) {
  volatile int* const shared = flag;
  if (threadIdx.x == 0) *shared = 1;
  while (*shared == 0) {
  }
  y[threadIdx.x] = 1;
}

inline __global__ void spins_on_an_atomic(int* flag) {
  while (atomicAdd(flag, 0) == 0) {
  }
}

inline __global__ void waits_for_nothing(int* flag) {
  volatile int i = 0;
  while (i >= 0) i = i == 100 ? 0 : i + 1;
  *flag = 2;
}

inline __global__ void counts_up(int* x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }

inline __global__ void works_between_barriers(int* x, int barriers, int steps) {
  for (int i = 0; i < barriers; ++i) {
    volatile int work = 0;
    for (int step = 0; step < steps; ++step) work = work + 1;
    __syncthreads();
  }
  x[threadIdx.x] = 1;
}

// Each thread waits for its number, and lets the next one go.
inline __global__ void passes_on(int* flag, int* y) {
  const int mine = static_cast<int>(threadIdx.x);
  while (atomicAdd(flag, 0) != mine) __nanosleep(100);
  y[mine] = mine;
  __threadfence();
  atomicAdd(flag, 1);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
