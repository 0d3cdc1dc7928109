#include "counts.hpp"

#include <algorithm>
#include <cmath>

#include "yotta/core/random.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/flash_attention_rungs.hpp"
#include "yotta/device/profile.hpp"

namespace yotta {
namespace {

constexpr const char* mma_name = "mma_m16n8k16_bf16()";

// q, k and v that bf16 can hold, in both types, and room for what kernels write.
struct Problem {
  AttentionShape shape;
  DeviceArray<float> q, k, v, o, L;
  DeviceArray<bfloat16> q16, k16, v16;

  explicit Problem(const AttentionShape& s)
      : shape(s),
        q(normal<float>(s.query_numbers(), "q")),
        k(normal<float>(s.key_numbers(), "k")),
        v(normal<float>(s.key_numbers(), "v")),
        o(static_cast<size_t>(s.query_numbers())),
        L(static_cast<size_t>(s.query_rows())),
        q16(normal<bfloat16>(s.query_numbers(), "q")),
        k16(normal<bfloat16>(s.key_numbers(), "k")),
        v16(normal<bfloat16>(s.key_numbers(), "v")) {}

  AttentionArrays<float> f32() { return {q.data(), k.data(), v.data(), o.data(), L.data()}; }
  AttentionArrays<bfloat16, float> bf16() {
    return {q16.data(), k16.data(), v16.data(), o.data(), L.data()};
  }

 private:
  template <class T>
  static std::vector<T> normal(int64_t count, const char* name) {
    std::vector<T> x(static_cast<size_t>(count));
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = T(static_cast<float>(bfloat16(static_cast<float>(Random(7, name).normal(i)))));
    return x;
  }
};

double largest_difference(const std::vector<float>& x, const std::vector<float>& y) {
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    if (!(error <= largest)) largest = error;
  }
  return largest;
}

// Bytes that cp.async reads: q, k and v.
int64_t copied(const Profile& profile) {
  const auto by_cp_async = [](const LineCounts& line) {
    return line.file == "flash_attention_warp.hpp" && !line.shared && !line.write;
  };
  return profile.sum(by_cp_async).bytes;
}

}  // namespace

std::vector<LadderCounts> count_ladder(int T) {
  Problem x({.B = 1, .Tq = T, .Tk = T, .H = 1, .Hkv = 1, .d = 64});
  const AttentionShape& shape = x.shape;
  AttentionShape large = shape;
  large.Tq = large.Tk = 8192;
  using Tile = FlashTile<64, 32, 32, 128>;
  using Warps = FlashWarps<64, 64, 32, 32>;
  DeviceArray<float> scores(static_cast<size_t>(T) * static_cast<size_t>(T)), l(x.L.size());
  std::vector<LadderCounts> all;
  std::vector<float> first;
  const auto count = [&](const char* name, auto traffic, int64_t extra, const auto& run) {
    const Profile profile;
    run();
    const std::vector<float> o = x.o.to_host();
    if (first.empty()) first = o;
    LadderCounts counts = {.name = name,
                           .read = profile.global_reads().bytes,
                           .written = profile.global_writes().bytes,
                           .expected = traffic(shape).bytes(),
                           .at_8192 = traffic(large).bytes(),
                           .extra = extra,
                           .mma = profile.instructions(mma_name),
                           .difference = largest_difference(o, first)};
    all.push_back(counts);
  };
  count(
      "three kernels", [](const AttentionShape& s) { return unfused_attention_traffic(s, 32); },
      4 * int64_t{T} * T, [&] { run_unfused_attention(x.f32(), scores.data(), shape); });
  count("online rows", online_attention_traffic, 0, [&] { run_online_attention(x.f32(), shape); });
  count("FlashAttention", flash_tile_traffic<Tile>, 4 * int64_t{T},
        [&] { run_flash_tile<Tile>(x.f32(), l.data(), shape); });
  count(
      "FlashAttention-2, mma",
      [](const AttentionShape& s) { return flash_attention_traffic<Warps>(s, 4); }, 0,
      [&] { run_flash_attention<Warps>(x.bf16(), shape); });
  return all;
}

KernelTraffic count_traffic() {
  Problem x(traffic_shape);
  const auto q = static_cast<double>(x.shape.query_numbers());
  DeviceArray<float> scores(static_cast<size_t>(x.shape.Tq * x.shape.Tk)), l(x.L.size());
  const auto moved = [&](const auto& run) {
    const Profile profile;
    run();
    return static_cast<double>(profile.global_reads().bytes + profile.global_writes().bytes) / 4 /
           q;
  };
  KernelTraffic all;
  all.unfused = moved([&] { run_unfused_attention(x.f32(), scores.data(), x.shape); });
  each_traffic_tile([&]<int side>() {
    using T = TrafficTile<side>;
    TileTraffic tile{side, T::numbers};
    tile.flash = moved([&] { run_flash_tile<T>(x.f32(), l.data(), x.shape); });
    if constexpr (side >= 16) {
      const Profile profile;
      run_flash_attention<TrafficWarps<side>>(x.bf16(), x.shape);
      tile.exchanged = static_cast<double>(copied(profile)) / 2 / q + 1;  // and o, written once
    }
    all.tiles.push_back(tile);
  });
  return all;
}

VisitedTiles count_visited_tiles(int T) {
  using Warps = FlashWarps<32, 32, 32, 16>;
  const auto tiles = [&](bool causal) {
    Problem x({.B = 1, .Tq = T, .Tk = T, .H = 1, .Hkv = 1, .d = 32, .causal = causal});
    const Profile profile;
    run_flash_attention<Warps>(x.bf16(), x.shape);
    return profile.instructions(mma_name) / mma_of_tile<Warps>();
  };
  return {tiles(true), tiles(false)};
}

std::vector<DecodingCounts> count_decoding(int Tk) {
  std::vector<DecodingCounts> all;
  for (const int Hkv : {8, 2, 1}) {
    using Warps = FlashWarps<64, 16, 32, 16>;
    constexpr int splits = 4;
    Problem x({.B = 1, .Tq = 1, .Tk = Tk, .H = 8, .Hkv = Hkv, .d = 64, .causal = true});
    const AttentionShape& shape = x.shape;
    DeviceArray<float> o(splits * x.o.size()), L(splits * x.L.size());
    DecodingCounts counts = {.Hkv = Hkv,
                             .splits = splits,
                             .cache = cache_bytes(shape),
                             .merge = merge_bytes(shape, splits)};
    const Profile by_head;
    run_flash_attention<Warps>(x.bf16(), shape);
    counts.by_head = copied(by_head) - 2 * shape.query_numbers();
    const Profile packed;
    run_flash_decoding<Warps>(x.bf16(), o.data(), L.data(), splits, shape);
    counts.packed = copied(packed) - 2 * splits * shape.query_numbers();
    all.push_back(counts);
  }
  return all;
}

}  // namespace yotta
