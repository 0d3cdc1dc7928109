// What the kernels of flash attention move between memory and chip, by their pages' formulas: the
// numbers that lesson 07 counts in the emulator and draws.
#pragma once

#include <vector>

#include "yotta/device/flash_attention_mma.hpp"
#include "yotta/device/flash_attention_tile.hpp"

namespace yotta {

// Numbers that one head's forward pass moves between memory and chip, in sizes of q, T d.
struct TileTraffic {
  int side = 0;          // queries, and keys, of a tile
  int64_t M = 0;         // numbers in the fast memory: FlashAttention's shared memory
  double flash = 0;      // FlashAttention: keys outside, queries inside
  double exchanged = 0;  // FlashAttention-2; 0: not made for this side
};
struct KernelTraffic {
  double unfused = 0;  // three kernels
  std::vector<TileTraffic> tiles;
};

inline namespace YOTTA_DEVICE_BUILD {

// One head of 128 tokens, d = 32: what the picture shows.
inline constexpr AttentionShape traffic_shape = {
    .B = 1, .Tq = 128, .Tk = 128, .H = 1, .Hkv = 1, .d = 32};
// Theorem 2 of FlashAttention with its constant: M / (4 d) keys a tile, 3 T d numbers for each.
constexpr double traffic_of_memory(int64_t M) {
  return 12.0 * traffic_shape.Tq * traffic_shape.d / static_cast<double>(M);
}

// visit<side>() for the tiles that are drawn.
template <class Visit>
void each_traffic_tile(Visit&& visit) {
  visit.template operator()<8>();
  visit.template operator()<16>();
  visit.template operator()<32>();
  visit.template operator()<64>();
}
template <int side>
using TrafficTile = FlashTile<traffic_shape.d, side, side, 64>;
template <int side>
using TrafficWarps = FlashWarps<traffic_shape.d, side, side, 16>;

// By the formulas of the kernels' pages.
inline KernelTraffic traffic_by_formula() {
  const auto sizes = [](double numbers) {
    return numbers / static_cast<double>(traffic_shape.query_numbers());
  };
  const auto f32 = [&](const MemoryTraffic& x) {
    return sizes(static_cast<double>(x.bytes()) / 4);
  };
  KernelTraffic all{f32(unfused_attention_traffic(traffic_shape, 32)), {}};
  each_traffic_tile([&]<int side>() {
    using T = TrafficTile<side>;
    TileTraffic tile{side, T::numbers, f32(flash_tile_traffic<T>(traffic_shape))};
    if constexpr (side >= 16) {  // q, k and v are read in bf16, o is written once
      const auto traffic = flash_attention_traffic<TrafficWarps<side>>(traffic_shape, 4);
      tile.exchanged = 1 + sizes(static_cast<double>(traffic.read) / 2);
    }
    all.tiles.push_back(tile);
  });
  return all;
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
