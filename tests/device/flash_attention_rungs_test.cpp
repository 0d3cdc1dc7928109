#include "yotta/device/flash_attention_rungs.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace yotta;

TEST_CASE("sizes that no kernel computes are refused, with words") {
  const AttentionArrays<float> none = {};
  const AttentionArrays<bfloat16> no_bf16 = {};
  const AttentionShape fits = {.B = 1, .Tq = 8, .Tk = 8, .H = 4, .Hkv = 2, .d = 64};
  const auto check = [](const auto& run, const char* words) {
    CHECK_THROWS_WITH_AS(run(), doctest::Contains(words), std::runtime_error);
  };
  AttentionShape shape = fits;
  shape.d = 48;
  check([&] { run_online_attention(none, shape); },
        "a head has 48 numbers; the kernels are made for 32, 64 and 128");
  check([&] { run_flash_attention<FlashWarps<64, 16, 16, 16>>(no_bf16, shape); },
        "a head has 48 numbers; this kernel is made for 64");
  shape = fits;
  shape.Hkv = 3;
  check([&] { run_unfused_attention(none, nullptr, shape); }, "4 query heads on 3 heads of keys");
  check([&] { run_flash_decoding<FlashWarps<64, 16, 16, 16>>(no_bf16, nullptr, nullptr, 0, fits); },
        "keys are split into 1 part or more, not 0");
}

TEST_CASE("bytes fall as 1 / M in FlashAttention, and only three kernels have S in memory") {
  constexpr AttentionShape shape = {.B = 1, .Tq = 4096, .Tk = 4096, .H = 1, .Hkv = 1, .d = 64};
  const auto keys = [&](const MemoryTraffic& traffic) {
    return static_cast<double>(traffic.bytes()) / (4.0 * 4096 * 64);  // times that Q is moved
  };
  CHECK(keys(unfused_attention_traffic(shape, 32)) ==
        doctest::Approx(2 + 7 * 64 + 128 * 3.0).epsilon(0.01));
  CHECK(keys(flash_tile_traffic<FlashTile<64, 32, 32, 128>>(shape)) ==
        doctest::Approx(3 * 128.0).epsilon(0.05));
  CHECK(keys(flash_tile_traffic<FlashTile<64, 64, 64, 128>>(shape)) ==
        doctest::Approx(3 * 64.0).epsilon(0.05));
  // Loops exchanged: K and V are read for each tile of queries, in bf16.
  CHECK(keys(flash_attention_traffic<FlashWarps<64, 64, 64, 16>>(shape, 2)) ==
        doctest::Approx(64 + 1).epsilon(0.05));
  CHECK(keys(flash_attention_traffic<FlashWarps<64, 128, 64, 32>>(shape, 2)) ==
        doctest::Approx(32 + 1).epsilon(0.05));
}
