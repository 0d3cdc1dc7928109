// A matmul in which each block of threads shares a tile, and what the roofline says about it
// beforehand. C (m, n) = A (m, k) B (k, n). Lesson 03 makes it faster, step by step.
//
//               k            n
//           ┌───┬───┐     ┌─────────┐       a block of (T, T) threads computes a (T, T) tile of C.
//         m │   │ a │   k │    b    │       It walks along k: all threads fetch one number of a and
//           └───┴───┘     └─────────┘       one of b into shared memory, wait for each other,
//            (T, T)         (T, T)          multiply from there, and wait again.
//
//     without sharing  each thread reads its row of A and its column of B: 2 m n k numbers
//     with a tile      A is read once per column of blocks, B once per row of blocks: T times fewer
//
// Cost: 2 m n k FLOPs; e (m k ceil(n/T) + k n ceil(m/T) + m n) bytes of global memory for numbers
// of e bytes; 8 T T bytes of shared memory per block; two barriers per step of T.
// Contract: block (T, T), grid (ceil(n / T), ceil(m / T)); row-major; m k, k n and m n below 2^31.
// Letters: T the tile's side; e bytes of a number; (x, y) a thread's place in its block, x the one
// that counts fastest: the 32 lanes of a warp are neighbours in x, and should be so in memory.
// References: CUDA C++ Programming Guide, "Shared Memory"; roofline.hpp.
#pragma once

#include <span>

#include "yotta/device/kernel.hpp"
#include "yotta/machine/roofline.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

template <int T>
__global__ void __launch_bounds__(T* T)
    matmul_shared_tile(const float* __restrict__ a, const float* __restrict__ b,
                       float* __restrict__ c, int m, int n, int k) {
  __shared__ float a_tile[T][T], b_tile[T][T];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
  float sum = 0;
  for (int start = 0; start < k; start += T) {
    a_tile[y][x] = row < m && start + x < k ? a[row * k + start + x] : 0;
    b_tile[y][x] = start + y < k && col < n ? b[(start + y) * n + col] : 0;
    __syncthreads();
    for (int l = 0; l < T; ++l) sum += a_tile[y][l] * b_tile[l][x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}

// ---- What to expect of it ----
// What a vendor prints. With an asterisk it is for matrices of which two in every four numbers are
// zero ("2:4 sparse"): products with them are skipped, and counted all the same.
struct Datasheet {
  const char* chip;
  double tflops;    // as printed
  bool asterisk;    // twice the rate of any matmul whose numbers are not zero
  double tb_per_s;  // of memory
};
inline constexpr Datasheet h100_sheet = {"H100 SXM, bf16", 1979, true, 3.35};

// The two rates that a dense matmul can count on.
constexpr Roofline dense_roofline(const Datasheet& sheet) {
  Roofline roof;
  roof.peak = sheet.tflops * 1e12 / (sheet.asterisk ? 2 : 1);
  roof.bandwidth = sheet.tb_per_s * 1e12;
  return roof;
}

struct MatmulPrediction {
  double flops = 0, bytes = 0;  // bytes of global memory that the kernel asks for
  double seconds = 0;           // at least
};

// The kernel above, if its numbers have so many bytes. It reads A once for each column of blocks
// and B once for each row of blocks, and writes C once.
constexpr MatmulPrediction predict(int64_t m, int64_t n, int64_t k, int64_t T,
                                   int64_t bytes_per_number, const Roofline& roof) {
  MatmulPrediction p;
  const int64_t across = (n + T - 1) / T, down = (m + T - 1) / T;  // blocks
  p.flops = matmul_flops(m, n, k);
  p.bytes = static_cast<double>(bytes_per_number * (m * k * across + k * n * down + m * n));
  p.seconds = roof.seconds(p.flops, p.bytes);
  return p;
}

// The smallest tile, up to `largest`, with which memory delivers as fast as the chip multiplies; 0
// if there is none.
constexpr int64_t smallest_tile(int64_t m, int64_t n, int64_t k, int64_t bytes_per_number,
                                const Roofline& roof, int64_t largest) {
  for (int64_t T = 1; T <= largest; ++T) {
    const MatmulPrediction p = predict(m, n, k, T, bytes_per_number, roof);
    if (p.bytes / roof.bandwidth <= p.flops / roof.peak) return T;
  }
  return 0;
}

// ---- What a measurement says ----
struct RooflineReading {
  double intensity = 0, rate = 0;  // FLOPs per byte; FLOP/s
  bool memory_bound = false;
  double of_roof = 0;  // 1: nothing is left to gain
};

// Work of so many FLOPs on so many bytes was run, and took `seconds`.
constexpr RooflineReading read_measurement(double flops, double bytes, double seconds,
                                           const Roofline& roof) {
  RooflineReading reading;
  reading.intensity = flops / bytes;
  reading.rate = flops / seconds;
  reading.memory_bound = reading.intensity < roof.ridge();
  reading.of_roof = reading.rate / roof.attainable(reading.intensity);
  return reading;
}

// ---- One kernel in place of several ----
// Kernels that run one after the other. Each but the last writes numbers that the next one reads.
struct KernelStep {
  double flops, bytes;  // bytes: all that it reads and writes
  double passes_on;     // of these: what it writes and the next one reads; 0 for the last
};
struct Fusion {
  double apart = 0, fused = 0;  // seconds, at least
};

// The steps as kernels of their own, and as one kernel that keeps what is passed on in registers.
constexpr Fusion fuse(std::span<const KernelStep> steps, const Roofline& roof) {
  Fusion fusion;
  double flops = 0, bytes = 0;
  for (const KernelStep& step : steps) {
    fusion.apart += roof.seconds(step.flops, step.bytes);
    flops += step.flops;
    bytes += step.bytes - 2 * step.passes_on;  // neither written nor read
  }
  fusion.fused = roof.seconds(flops, bytes);
  return fusion;
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
