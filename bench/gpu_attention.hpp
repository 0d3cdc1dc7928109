// The CUDA ladder of attention against cuBLAS, measured; in builds with nvcc (gpu_attention.cu).
#pragma once

#include <string>
#include <vector>

#include "gpu_program.hpp"

namespace yotta::bench {

// Heads of d numbers in sequences of T tokens; as FlashAttention's authors measure: 16,384 tokens
// and a width of 2,048 in all.
struct AttentionSetting {
  static constexpr int tokens = in_emulator ? 64 : 16384, width = in_emulator ? 128 : 2048;
  int T = 0, d = 0;
  bool causal = false;

  int sequences() const { return T < tokens ? tokens / T : 1; }
  int heads() const { return width / d; }
};

// One kernel in one setting.
struct GpuAttention {
  std::string name;
  double tflops = 0;      // of the shortest try; causal counts half of the FLOPs
  double difference = 0;  // from cuBLAS's o, or between two ways for gradients
  bool backward = false;
};

// Decoding: one token for each of `sequences`, a cache of `keys` keys.
struct DecodingSetting {
  int sequences = 0, keys = 0, H = 0, Hkv = 0;
};
struct GpuDecoding {
  std::string name;
  int splits = 0;
  double gigabytes_a_second = 0;  // of the cache
};

// Two matmuls of cuBLAS with a softmax between first, then the ladder, then the backward pass.
std::vector<GpuAttention> measure_gpu_attention(const AttentionSetting& setting,
                                                const ShortestOfBatches& shortest);

// A block for each query head, one for each group, and the group's keys split over blocks.
std::vector<GpuDecoding> measure_gpu_decoding(const DecodingSetting& setting,
                                              const ShortestOfBatches& shortest);

}  // namespace yotta::bench
