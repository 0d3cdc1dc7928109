// Attention kernels under the emulator's checks, and what they ask of memory against the formulas.
#include <doctest/doctest.h>

#include "device/flash_attention_cases.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;

namespace {

using Tile = FlashTile<32, 32, 16, 64>;
using Warps = FlashWarps<32, 32, 32, 16>;
constexpr const char* mma = "mma_m16n8k16_bf16()";

MemoryTraffic counted(const Profile& profile) {
  return {profile.global_reads().bytes, profile.global_writes().bytes};
}

// Runs the kernels as run(arrays) launches them, under all checks; what they asked of memory.
template <class T, class Out = T, class Run>
MemoryTraffic traffic(const AttentionProblem& problem, double unit, Run run) {
  const Profile profile;
  check_attention<T, Out>(problem, unit, run);
  return counted(profile);
}

constexpr AttentionShape whole = {.B = 1, .Tq = 64, .Tk = 64, .H = 2, .Hkv = 1, .d = 32};
constexpr AttentionShape ragged = {
    .B = 2, .Tq = 37, .Tk = 41, .H = 2, .Hkv = 2, .d = 32, .causal = true};
constexpr AttentionShape late = {  // the first queries see no key
    .B = 1, .Tq = 40, .Tk = 19, .H = 1, .Hkv = 1, .d = 32, .causal = true};
constexpr AttentionShape grouped = {
    .B = 1, .Tq = 20, .Tk = 33, .H = 4, .Hkv = 2, .d = 32, .causal = true};

// Causal attention by positions that are read from tables of Tq and Tk numbers.
struct ByTable {
  const int *queries, *keys;
  __device__ float operator()(float score, int, int, int q, int kv) const {
    return keys[kv] <= queries[q] ? score : -INFINITY;
  }
  __device__ float derivative(float, int, int, int, int) const { return 1; }
};

}  // namespace

TEST_CASE("f32 kernels are clean, and ask for as many bytes as the formulas say") {
  for (const AttentionShape& shape : {whole, ragged, late}) {
    const AttentionProblem problem(shape);
    DeviceArray<float> s(static_cast<size_t>(shape.query_rows() * shape.Tk));
    DeviceArray<float> l(static_cast<size_t>(shape.query_rows()));
    CHECK(traffic<float>(problem, 1e-6, [&](const auto& x) {
            run_unfused_attention(x, s.data(), shape);
          }) == unfused_attention_traffic(shape, 32));
    CHECK(traffic<float>(problem, 1e-6, [&](const auto& x) { run_online_attention(x, shape); }) ==
          online_attention_traffic(shape));
    CHECK(traffic<float>(problem, 1e-6, [&](const auto& x) {
            run_flash_tile<Tile>(x, l.data(), shape);
          }) == flash_tile_traffic<Tile>(shape));
  }
}

TEST_CASE("on tensor cores: as many bytes as the formula says") {
  for (const AttentionShape& shape : {whole, ragged, late}) {
    const AttentionProblem problem(shape);
    CHECK(traffic<bfloat16, float>(problem, 0x1p-9, [&](const auto& x) {
            run_flash_attention<Warps>(x, shape);
          }) == flash_attention_traffic<Warps>(shape, 4));
  }
}

TEST_CASE("whatever the tile: as many bytes as the formulas say") {
  const AttentionProblem problem({.B = 1, .Tq = 65, .Tk = 65, .H = 1, .Hkv = 1, .d = 32});
  const AttentionShape& shape = problem.shape;
  DeviceArray<float> l(static_cast<size_t>(shape.query_rows()));
  const auto check = [&]<int side>() {
    using Shared = FlashTile<32, side, side, 64>;
    using Exchanged = FlashWarps<32, side, side, 16>;
    CHECK(traffic<float>(problem, 1e-6, [&](const auto& x) {
            run_flash_tile<Shared>(x, l.data(), shape);
          }) == flash_tile_traffic<Shared>(shape));
    CHECK(traffic<bfloat16, float>(problem, 0x1p-9, [&](const auto& x) {
            run_flash_attention<Exchanged>(x, shape);
          }) == flash_attention_traffic<Exchanged>(shape, 4));
  };
  check.template operator()<16>();
  check.template operator()<32>();
  check.template operator()<64>();
}

TEST_CASE("no copy and no ldmatrix of a swizzled tile has a bank conflict") {
  for (const int d : {32, 64, 128}) {
    const AttentionProblem problem({.B = 1, .Tq = 64, .Tk = 64, .H = 1, .Hkv = 1, .d = d});
    with_head_size(problem.shape, [&]<int size>() {
      using T = FlashWarps<size, 64, 32, 32>;
      const Profile profile;
      check_attention<bfloat16, float>(
          problem, 0x1p-9, [&](const auto& x) { run_flash_attention<T>(x, problem.shape); });
      const int64_t tiles = visited_tiles<T>(problem.shape);
      CHECK(profile.instructions(mma) == tiles * mma_of_tile<T>());
      CHECK(profile.shared_reads().wavefronts == tiles * wavefronts_of_tile<T>());
      CHECK(profile.shared_reads().conflict_free());
      CHECK(profile.shared_writes().conflict_free());
      CHECK(profile.flops() == 4 * 64 * 64 * size);
    });
  }
}

TEST_CASE("causal: tiles above the diagonal are not visited") {
  const AttentionProblem problem(
      {.B = 1, .Tq = 128, .Tk = 128, .H = 1, .Hkv = 1, .d = 32, .causal = true});
  const Profile profile;
  check_attention<bfloat16, float>(
      problem, 0x1p-9, [&](const auto& x) { run_flash_attention<Warps>(x, problem.shape); });
  const int64_t n = 128 / Warps::BK;
  CHECK(visited_tiles<Warps>(problem.shape) == n * (n + 1) / 2);
  CHECK(profile.instructions(mma) == n * (n + 1) / 2 * mma_of_tile<Warps>());
}

TEST_CASE("decoding: fewer heads of keys are fewer bytes of the cache") {
  for (const int Hkv : {4, 2, 1}) {
    using T = FlashWarps<32, 16, 16, 16>;
    const AttentionProblem problem(
        {.B = 2, .Tq = 1, .Tk = 57, .H = 4, .Hkv = Hkv, .d = 32, .causal = true});
    const AttentionShape& shape = problem.shape;
    constexpr int splits = 3;
    DeviceArray<float> o(splits * problem.o.size()), L(splits * problem.L.size());
    const Profile profile;
    check_attention<bfloat16, float>(problem, 0x1p-9, [&](const auto& x) {
      run_flash_decoding<T>(x, o.data(), L.data(), splits, shape);
    });
    const auto copied = [](const LineCounts& line) {  // by cp.async
      return line.file == "flash_attention_warp.hpp" && !line.shared && !line.write;
    };
    CHECK(profile.sum(copied).bytes == decoding_reads<T>(shape, splits));
    CHECK(decoding_reads<T>(shape, splits) ==
          Hkv * 2 * 57 * 32 * 4 + 2 * splits * shape.query_numbers());
    CHECK(profile.global_writes().bytes == merge_bytes(shape, splits) + merge_bytes(shape, 1));
  }
}

TEST_CASE("backward is clean: 5 products a tile with atomics, 4 and 3 in a fixed order") {
  using T = FlashSquare<32, 32>;
  for (const AttentionShape& shape : {whole, ragged, grouped}) {
    const AttentionProblem problem(shape);
    const auto products = [&](SumOrder order) {
      const Profile profile;
      check_backward(problem, [&](const auto& x) { run_flash_backward<T>(x, shape, order); });
      CHECK(profile.shared_reads().conflict_free());
      CHECK(profile.shared_writes().conflict_free());
      const int64_t tiles = shape.B * shape.H * visited_tiles<FlashWarps<32, 32, 32, 16>>(shape);
      return static_cast<double>(profile.instructions(mma)) /
             static_cast<double>(tiles * mma_of_product<T>());
    };
    CHECK(products(SumOrder::as_blocks_come) == 5);  // forward has 2: 2.5 times as many FLOPs
    CHECK(products(SumOrder::fixed) == 7);
  }
}

TEST_CASE("a fixed order gives the same bits, whichever thread runs first") {
  const AttentionProblem problem(ragged);
  std::vector<float> first;
  for (const uint64_t seed : {1, 2, 3}) {
    emulator_options().seed = seed;
    check_backward(problem, [&](const auto& x) {
      run_flash_backward<FlashSquare<32, 32>>(x, ragged, SumOrder::fixed);
      const std::vector<float> dq(x.dq, x.dq + ragged.query_numbers());
      if (first.empty()) first = dq;
      CHECK(dq == first);
    });
  }
  emulator_options().seed = 1;
}

TEST_CASE("a modifier is asked only for queries and keys that are there") {
  using T = FlashSquare<32, 32>;
  using Forward = FlashWarps<32, 32, 32, 32>;
  const AttentionProblem problem(
      {.B = 1, .Tq = 37, .Tk = 21, .H = 1, .Hkv = 1, .d = 32, .causal = true});
  const AttentionShape& shape = problem.shape;
  std::vector<int> queries(37), keys(21);
  for (int i = 0; i < 37; ++i) queries[static_cast<size_t>(i)] = i + 21 - 37;
  for (int i = 0; i < 21; ++i) keys[static_cast<size_t>(i)] = i;
  const DeviceArray<int> query_table(queries), key_table(keys);
  const ByTable mod{query_table.data(), key_table.data()};
  check_attention<bfloat16, float>(problem, 0x1p-9, [&](const auto& x) {
    run_flash_attention<Forward>(x, shape, AllKeys{1}, mod, KeyRows{shape});
  });
  check_backward(problem, [&](const auto& x) {
    run_flash_backward<T>(x, shape, SumOrder::fixed, AllQueries{2}, AllKeys{1}, mod);
  });
}
