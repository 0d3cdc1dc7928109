// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/flash_attention_mma.hpp"

#include <doctest/doctest.h>

#include "device/flash_attention_cases.hpp"

using namespace yotta;

namespace {

// Causal attention in other words: a modifier that hides keys, a mask that visits tiles from the
// last to the first, keys that lie in reverse order.
struct HideLaterKeys {
  int ahead;
  __device__ float operator()(float score, int, int, int q, int kv) const {
    return kv <= q + ahead ? score : -INFINITY;
  }
};
struct LastTileFirst : CausalKeys {
  __device__ int tile(const QueryTile& at, int i) const { return count(at) - 1 - i; }
  __device__ bool partial(const QueryTile& at, int i) const {
    return CausalKeys::partial(at, tile(at, i));
  }
};
struct ReversedKeys {
  AttentionShape shape;
  __device__ int count(int) const { return shape.Tk; }
  __device__ int64_t at(int b, int key, int kv) const {
    return shape.key_at(b, shape.Tk - 1 - key, kv);
  }
};

// k or v (B, Tk, Hkv, d) with the keys of each sequence in reverse order.
Doubles reversed(const Doubles& x, const AttentionShape& s) {
  Doubles y(x.size());
  const int64_t row = int64_t{s.Hkv} * s.d;
  for (int b = 0; b < s.B; ++b)
    for (int t = 0; t < s.Tk; ++t)
      std::copy_n(x.begin() + s.key_at(b, t, 0), row, y.begin() + s.key_at(b, s.Tk - 1 - t, 0));
  return y;
}

}  // namespace

TEST_CASE("on tensor cores: the numbers of the formula, in f32 and in bf16") {
  for (const AttentionCase& each : attention_cases) {
    const AttentionProblem problem(each.shape, each.logits);
    with_head_size(problem.shape, [&]<int d>() {
      check_attention<bfloat16, float>(problem, 0x1p-9, [&](const auto& x) {
        run_flash_attention<FlashWarps<d, 32, 32, 16>>(x, problem.shape);
      });
    });
  }
}

TEST_CASE("scores, visited tiles and places of keys may be others") {
  using T = FlashWarps<32, 32, 16, 32>;
  AttentionProblem problem({.B = 2, .Tq = 35, .Tk = 41, .H = 4, .Hkv = 2, .d = 32, .causal = true});
  const AttentionShape& shape = problem.shape;
  const int tiles = static_cast<int>(tiles_along(shape.Tk, T::BK)), ahead = shape.Tk - shape.Tq;
  check_attention<bfloat16, bfloat16>(problem, 0x1p-8, [&](const auto& x) {
    run_flash_attention<T>(x, shape, AllKeys{tiles}, HideLaterKeys{ahead}, KeyRows{shape});
  });
  const LastTileFirst last_first{{tiles, T::BK, ahead}};
  check_attention<bfloat16, bfloat16>(problem, 0x1p-8, [&](const auto& x) {
    run_flash_attention<T>(x, shape, last_first, ScoreAsIs{}, KeyRows{shape});
  });
  problem.k = reversed(problem.k, shape);
  problem.v = reversed(problem.v, shape);
  check_attention<bfloat16, bfloat16>(problem, 0x1p-8, [&](const auto& x) {
    run_flash_attention<T>(x, shape, last_first, ScoreAsIs{}, ReversedKeys{shape});
  });
}
