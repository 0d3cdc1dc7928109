// A block mask in the device's memory: how create_block_mask's tiles come to the flex attention
// kernels (device/flex_attention_kernel.hpp).
//
//     using KernelTile = FlashWarps<64, 128, 64, 32>;  // or FlashSquare, for the backward pass
//     const auto tiles = create_block_mask(
//         mask, {.queries = T, .keys = T, .BQ = KernelTile::BQ, .BK = KernelTile::BK});
//     const BlockMaskOnDevice<KernelTile> there(tiles, shape);
//     run_flash_attention<KernelTile>(x, shape, there.by_row(mask), score_mod, KeyRows{shape});
//
//     host    BlockTiles  by_row     first, at, kind  ── copied ──►  forward and dq
//                         by_column  first, at, kind  ── copied ──►  dk and dv
//
// A mask is called on both sides: by create_block_mask here, and by the kernels in partial tiles.
// One that reads memory, such as SameDocument, is given the host's pointer there and the device's
// here.
//
// Contract: tiles are those of the kernel: KernelTile's BQ by BK, or side by side. The kernel's
// launches are over before this goes. Not for packed heads (device/flash_attention_decoding.hpp).
// Letters: as nn/block_mask.hpp. nvcc compiles this file too.
#pragma once

#include "yotta/core/error.hpp"
#include "yotta/device/flex_attention_kernel.hpp"
#include "yotta/nn/block_mask.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// The tile of a kernel of device/flash_attention_mma.hpp or device/flash_attention_backward.hpp.
template <class KernelTile>
constexpr int queries_of_tile() {
  if constexpr (requires { KernelTile::side; })
    return KernelTile::side;
  else
    return KernelTile::BQ;
}
template <class KernelTile>
constexpr int keys_of_tile() {
  if constexpr (requires { KernelTile::side; })
    return KernelTile::side;
  else
    return KernelTile::BK;
}

inline TileListOnDevice list_on_device(const TileList& list) {
  std::vector<uint8_t> partial;
  for (const TileKind kind : list.kind) partial.push_back(kind == TileKind::partial);
  return {list.first, list.at, partial};
}

template <class KernelTile>
class BlockMaskOnDevice {
 public:
  BlockMaskOnDevice(const BlockTiles& tiles, const AttentionShape& shape,
                    Where where = Where::current())
      : B_(tiles.B),
        H_(tiles.H),
        rows_(tiles.rows()),
        columns_(tiles.columns()),
        by_row_(list_on_device(checked(tiles, shape, where).by_row)),
        by_column_(list_on_device(tiles.by_column)) {}

  // For the forward pass and dq.
  template <class Mask>
  ListedTiles<Mask> by_row(const Mask& mask) const {
    return by_row_.asking(mask, B_, H_, rows_);
  }
  // For dk and dv.
  template <class Mask>
  ListedTiles<Mask> by_column(const Mask& mask) const {
    return by_column_.asking(mask, B_, H_, columns_);
  }

 private:
  static const BlockTiles& checked(const BlockTiles& t, const AttentionShape& s, Where where) {
    constexpr int BQ = queries_of_tile<KernelTile>(), BK = keys_of_tile<KernelTile>();
    if (t.BQ != BQ || t.BK != BK || t.queries != s.Tq || t.keys != s.Tk ||
        (t.B != 1 && t.B != s.B) || (t.H != 1 && t.H != s.H))
      fail(
          where,
          "a block mask for B {}, H {}, {} queries and {} keys in tiles of {} x {}, but the kernel "
          "has tiles of {} x {}, and attention B {}, H {}, {} queries and {} keys; make it with "
          "create_block_mask for these sizes, B and H as here or 1",
          t.B, t.H, t.queries, t.keys, t.BQ, t.BK, BQ, BK, s.B, s.H, s.Tq, s.Tk);
    return t;
  }

  int B_, H_, rows_, columns_;
  TileListOnDevice by_row_, by_column_;
};

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
