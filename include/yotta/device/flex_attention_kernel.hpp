// Flex attention on tensor cores: lesson 07's kernels with any mask and any score_mod. They ask
// three types what to do; here these are made from a block mask, a function and a page table.
//
//     the kernels ask                     answered by
//     Mask       which tiles?             ListedTiles: a line of the list of those not empty
//                is this one partial?     its kind in the list
//                does q see kv?           mask_mod, for partial tiles alone
//     ScoreMod   what is the score?       any score_mod of attention_mods.hpp, as it is
//                its derivative?          DualScore: the same function, called with a Dual
//     Keys       where is key kv?         PagedRows: in a store that all sequences share
//
// The compiler sees the functions when it makes a kernel, so they cost the instructions that they
// are. Tiles that are not listed are neither copied nor multiplied. Forward and dq go by row, dk
// and dv by column: two lists of the same tiles, two ListedTiles.
//
// Cost: mma_of_tile() instructions for each tile that is listed, and its K and V read once.
// Contract: tiles are those of the kernel, T::BQ by T::BK, or T::side. A TileListOnDevice keeps the
// memory alive. Gradients of captured numbers are the CPU's (nn/flex_attention.hpp).
// Letters: as flash_attention_mma.hpp.
// Reference: Dong et al. (2024), FlexAttention.
#pragma once

#include <vector>

#include "yotta/device/attention_mods.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/flash_attention_mma.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Line (b, h, tile) of the list has tiles first[line] to first[line + 1] - 1. Works for rows of
// queries and for columns of keys: `At` is the kernel's QueryTile or KeyTile.
template <class MaskMod>
struct ListedTiles {
  const int *first, *tile_at;
  const uint8_t* is_partial;
  int B, H, lines;  // masks: B or H 1 is one for all; rows (or columns) of tiles of each
  MaskMod mask_mod;

  template <class At>
  __device__ int begin(const At& at, int more = 0) const {
    return first[((B == 1 ? 0 : at.b) * H + (H == 1 ? 0 : at.h)) * lines + at.tile + more];
  }
  template <class At>
  __device__ int count(const At& at) const {
    return begin(at, 1) - begin(at);
  }
  template <class At>
  __device__ int tile(const At& at, int i) const {
    return tile_at[begin(at) + i];
  }
  template <class At>
  __device__ bool partial(const At& at, int i) const {
    return is_partial[begin(at) + i] != 0;
  }
  __device__ bool sees(int b, int h, int q, int kv) const { return mask_mod(b, h, q, kv); }
};

// A list of nn/block_mask.hpp in the device's memory. nn/cuda/block_mask_on_device.hpp makes both
// from what create_block_mask returns.
class TileListOnDevice {
 public:
  TileListOnDevice(const std::vector<int>& first, const std::vector<int>& tile_at,
                   const std::vector<uint8_t>& is_partial)
      : first_(first), tile_at_(tile_at), is_partial_(is_partial) {}

  template <class MaskMod>
  ListedTiles<MaskMod> asking(const MaskMod& mask_mod, int B, int H, int lines) const {
    return {first_.data(), tile_at_.data(), is_partial_.data(), B, H, lines, mask_mod};
  }

 private:
  DeviceArray<int> first_, tile_at_;
  DeviceArray<uint8_t> is_partial_;
};

// A score_mod with the derivative that the backward kernels ask for.
template <class ScoreMod>
struct DualScore {
  ScoreMod score_mod;
  __device__ float operator()(float score, int b, int h, int q, int kv) const {
    return score_mod(score, b, h, q, kv);
  }
  __device__ float derivative(float score, int b, int h, int q, int kv) const {
    return score_mod(Dual<float>::score(score), b, h, q, kv).slope;
  }
};

// Keys in pages of a store (pages, page, Hkv, d) that all sequences share; key `key` of sequence b
// is in page table[b * pages_each + key / page].
struct PagedRows {
  AttentionShape shape;
  const int *table, *length;  // (B, pages_each), (B)
  int pages_each, page;
  __device__ int count(int b) const { return length[b]; }
  __device__ int64_t at(int b, int key, int kv) const {
    const int slot = table[b * pages_each + key / page] * page + key % page;
    return (int64_t{slot} * shape.Hkv + kv) * shape.d;
  }
};

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
