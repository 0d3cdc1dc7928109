// Launches a student's attention kernel on the emulator, as launch_matmul.hpp does a matmul's.
#pragma once

#include <vector>

#include "yotta/device/flash_attention_unfused.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// o and L of q, k and v; l is room for the kernel's own sums.
using AttentionKernel = void (*)(const float* q, const float* k, const float* v, float* o, float* L,
                                 float* l, AttentionShape shape);

struct AttentionLaunch {
  AttentionKernel kernel = nullptr;
  unsigned threads = 32;
  size_t shared_bytes = 0;
};

// Runs it, a block for each head, on copies of q, k and v; gives back o and then L, one behind the
// other. Throws what the emulator finds.
std::vector<float> launch_attention(const AttentionLaunch& how, const std::vector<float>& q,
                                    const std::vector<float>& k, const std::vector<float>& v,
                                    const AttentionShape& shape, uint64_t seed = 1);

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
