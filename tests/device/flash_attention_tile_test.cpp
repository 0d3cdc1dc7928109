// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/flash_attention_tile.hpp"

#include <doctest/doctest.h>

#include "device/flash_attention_cases.hpp"

using namespace yotta;

TEST_CASE("tiles of keys that meet all queries compute attention") {
  for (const AttentionCase& each : attention_cases) {
    const AttentionProblem problem(each.shape, each.logits);
    check_attention<float>(problem, 1e-6, [&](const AttentionArrays<float>& x) {
      DeviceArray<float> l(static_cast<size_t>(problem.shape.query_rows()));
      with_head_size(problem.shape, [&]<int d>() {
        run_flash_tile<FlashTile<d, 32, 16, 64>>(x, l.data(), problem.shape);
      });
    });
  }
}
