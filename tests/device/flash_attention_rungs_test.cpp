#include "yotta/device/flash_attention_rungs.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "support/attention_problem.hpp"

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

TEST_CASE(
    "a NaN in one query is seen in its result alone, in a value by every query that sees it") {
  constexpr AttentionShape shape = {
      .B = 1, .Tq = 40, .Tk = 40, .H = 1, .Hkv = 1, .d = 32, .causal = true};
  constexpr int at = 35;
  const AttentionProblem problem(shape);
  for (const bool in_q : {true, false}) {
    Doubles q = problem.q, v = problem.v;
    (in_q ? q : v)[at * 32 + 3] = NAN;
    const auto check = [&](const std::vector<float>& o) {
      for (int t = 0; t < shape.Tq; ++t) {
        const bool has = std::isnan(o[static_cast<size_t>(t * 32 + 3)]);
        if (in_q) CHECK(has == (t == at));
        if (!in_q && t >= at) CHECK(has);
      }
    };
    DeviceArray<float> o(q.size()), L(40), l(40), scores(40 * 40), parts(2 * q.size()), Ls(2 * 40);
    const auto run = [&]<class T>(const auto& kernel, T) {
      const DeviceArray<T> dq(converted<T>(q)), dk(converted<T>(problem.k)), dv(converted<T>(v));
      kernel(AttentionArrays<T, float>{dq.data(), dk.data(), dv.data(), o.data(), L.data()});
      check(o.to_host());
    };
    run([&](const auto& x) { run_unfused_attention(x, scores.data(), shape); }, float{});
    run([&](const auto& x) { run_online_attention(x, shape); }, float{});
    run([&](const auto& x) { run_flash_tile<FlashTile<32, 32, 32, 64>>(x, l.data(), shape); },
        float{});
    run([&](const auto& x) { run_flash_attention<FlashWarps<32, 32, 32, 16>>(x, shape); },
        bfloat16{});
    run(
        [&](const auto& x) {
          run_flash_decoding<FlashWarps<32, 32, 32, 16>>(x, parts.data(), Ls.data(), 2, shape);
        },
        bfloat16{});
  }
}
