// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/flash_attention_decoding.hpp"

#include <doctest/doctest.h>

#include "device/flash_attention_cases.hpp"

using namespace yotta;

TEST_CASE("keys split over blocks, heads packed, then merged: the numbers of the formula") {
  for (const AttentionCase& each : attention_cases) {
    const AttentionProblem problem(each.shape, each.logits);
    for (const int splits : {1, 3}) {
      DeviceArray<float> o(splits * problem.o.size()), L(splits * problem.L.size());
      with_head_size(problem.shape, [&]<int d>() {
        check_attention<bfloat16, float>(problem, 0x1p-9, [&](const auto& x) {
          run_flash_decoding<FlashWarps<d, 16, 16, 16>>(x, o.data(), L.data(), splits,
                                                        problem.shape);
        });
      });
    }
  }
}

TEST_CASE("splits: enough blocks for the chip, and a tile of keys for each") {
  const AttentionShape shape = {.B = 1, .Tq = 1, .Tk = 8192, .H = 32, .Hkv = 8, .d = 128};
  CHECK(splits_for(shape, 132, 64) == 17);
  CHECK(splits_for({.B = 1, .Tq = 1, .Tk = 100, .H = 8, .Hkv = 8, .d = 128}, 132, 64) == 2);
  CHECK(splits_for({.B = 64, .Tq = 1, .Tk = 8192, .H = 32, .Hkv = 8, .d = 128}, 132, 64) == 1);
}
