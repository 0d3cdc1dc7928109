// The CUDA matmul ladders against cuBLAS, and cuBLAS on several kinds of data, measured; in
// builds with nvcc (gpu_matmul.cu).
#pragma once

#include <string>
#include <vector>

#include "gpu_program.hpp"

namespace yotta::bench {

// One kernel on one size.
struct GpuMatmul {
  std::string name;
  int size = 0;           // m = n = k
  double tflops = 0;      // of the shortest batch of calls
  double difference = 0;  // from cuBLAS's result, the largest, relative to the largest number
};

// fp32 on the FMA lanes; bf16 with sums in f32 on tensor cores, and its last rungs, which need a
// GPU of compute capability 9.0.
enum class Ladder { fp32, bf16, hopper };
bool has_hopper_instructions();

// cuBLAS first, then every rung.
std::vector<GpuMatmul> measure_gpu_matmul(Ladder ladder, int size,
                                          const ShortestOfBatches& shortest);

// TFLOP/s of tensor cores that do nothing but mma.sync on registers: the roof of the bf16 ladder.
double measure_mma_peak(const ShortestOfBatches& shortest);

// cuBLAS on bf16 matrices of zeros, of random numbers, ... (machine/toggle_power.hpp): the mean
// over so many seconds each, since a GPU lowers its clock after it has drawn power for a while.
std::vector<GpuMatmul> measure_gpu_data(int size, double seconds);

}  // namespace yotta::bench
