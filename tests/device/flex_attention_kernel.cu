// nvcc compiles the attention kernels with block masks, score modifiers and pages.
#include "yotta/device/flash_attention_rungs.hpp"
#include "yotta/device/flex_attention_kernel.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

using Packed = decltype(and_masks(Causal{}, SameDocument{}));
using Bent = decltype(in_turn(Alibi<float>{}, SoftCap<float>{}));

void every_kernel(const AttentionArrays<bfloat16>& x, const AttentionGradientArrays<bfloat16>& z,
                  const AttentionShape& shape, const ListedTiles<Packed>& by_row,
                  const ListedTiles<Packed>& by_column, const Bent& bent, const PagedRows& pages) {
  using T = FlashWarps<64, 128, 64, 32>;
  run_flash_attention<T>(x, shape, by_row, ScoreAsIs{}, KeyRows{shape});
  run_flash_attention<T>(x, shape, by_row, bent, pages);
  run_flash_backward<FlashSquare<64, 64>>(z, shape, SumOrder::fixed, by_column, by_row,
                                          DualScore<Bent>{bent});
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
