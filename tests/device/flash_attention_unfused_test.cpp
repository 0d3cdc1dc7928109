// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/flash_attention_unfused.hpp"

#include <doctest/doctest.h>

#include "device/flash_attention_cases.hpp"

using namespace yotta;

TEST_CASE("three kernels, and one pass, compute attention") {
  for (const AttentionCase& each : attention_cases) {
    const AttentionProblem problem(each.shape, each.logits);
    check_attention<float>(problem, 1e-6, [&](const AttentionArrays<float>& x) {
      DeviceArray<float> s(static_cast<size_t>(problem.shape.query_rows() * problem.shape.Tk));
      run_unfused_attention(x, s.data(), problem.shape);
    });
    check_attention<float>(problem, 1e-6, [&](const AttentionArrays<float>& x) {
      run_online_attention(x, problem.shape);
    });
  }
}
