// nvcc compiles the attention kernels as they are used, without a warning; registers.tsv has their
// registers.
#include "yotta/device/flash_attention_rungs.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Each launcher takes the kernels' addresses.
template <int d>
void every_kernel(const AttentionArrays<float>& x, const AttentionArrays<bfloat16>& y, float* room,
                  const AttentionGradientArrays<bfloat16>& z,
                  const AttentionGradientArrays<bfloat16, bfloat16>& rounded,
                  const AttentionShape& shape) {
  run_unfused_attention(x, room, shape);
  run_online_attention(x, shape);
  run_flash_tile<FlashTile<d, 32, 32, 128>>(x, room, shape);
  run_flash_attention<FlashWarps<d, 128, 64, 32>>(y, shape);
  run_flash_decoding<FlashWarps<d, 16, 64, 16>>(y, room, room, 4, shape);
  run_flash_backward<FlashSquare<d, 64>>(z, shape, SumOrder::as_blocks_come);
  run_flash_backward<FlashSquare<d, 64>>(z, shape, SumOrder::fixed);
  run_flash_backward<FlashSquare<d, 64>>(rounded, shape, SumOrder::fixed);
}
template void every_kernel<32>(const AttentionArrays<float>&, const AttentionArrays<bfloat16>&,
                               float*, const AttentionGradientArrays<bfloat16>&,
                               const AttentionGradientArrays<bfloat16, bfloat16>&,
                               const AttentionShape&);
template void every_kernel<64>(const AttentionArrays<float>&, const AttentionArrays<bfloat16>&,
                               float*, const AttentionGradientArrays<bfloat16>&,
                               const AttentionGradientArrays<bfloat16, bfloat16>&,
                               const AttentionShape&);
template void every_kernel<128>(const AttentionArrays<float>&, const AttentionArrays<bfloat16>&,
                                float*, const AttentionGradientArrays<bfloat16>&,
                                const AttentionGradientArrays<bfloat16, bfloat16>&,
                                const AttentionShape&);

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
