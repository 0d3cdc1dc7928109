// Random inputs of attention, for tests of its kernels.
#pragma once

#include "nn/gradient_check.hpp"

namespace yotta_test {

struct Inputs {
  yotta::Tensor q, dout;  // (B, T, H, d)
  yotta::Tensor k, v;     // (B, T, Hkv, d)
};
inline Inputs inputs(int64_t B, int64_t T, int64_t H, int64_t Hkv, int64_t d,
                     yotta::DType dtype = yotta::DType::f64) {
  const auto queries = [&](const char* name) { return random_tensor({B, T, H, d}, name, dtype); };
  const auto keys = [&](const char* name) { return random_tensor({B, T, Hkv, d}, name, dtype); };
  return {queries("q"), queries("dout"), keys("k"), keys("v")};
}

}  // namespace yotta_test
