// Launches a student's matmul kernel on the emulator. Compiled once with all checks, so that a
// student's file holds kernels alone and a verdict is not long to wait for.
#pragma once

#include <cstdint>
#include <vector>

namespace yotta {

// C (m, n) = A (m, k) B (k, n).
using MatmulKernel = void (*)(const float* a, const float* b, float* c, int m, int n, int k);

struct MatmulLaunch {
  MatmulKernel kernel = nullptr;
  int tile = 32;                           // numbers of C a block, each way
  unsigned threads_x = 32, threads_y = 1;  // of a block
};

// Runs it on copies of a and b, whose arrays and c are named in the emulator's messages. Blocks'
// threads run in an order that the seed decides. Throws what the emulator finds; a Profile of the
// caller counts.
std::vector<float> launch_matmul(const MatmulLaunch& launch, const std::vector<float>& a,
                                 const std::vector<float>& b, int m, int n, int k,
                                 uint64_t seed = 1);

}  // namespace yotta
