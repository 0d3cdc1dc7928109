// nvcc compiles the kernels of f32 attention as they are launched; registers.tsv has their
// registers.
#include "yotta/nn/cuda/attention_f32.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

void every_kernel(const detail::BlockwiseRow<float>& x,
                  const detail::BlockwiseQueryGradient<float>& y,
                  const detail::BlockwiseKeyGradient<float>& z, Where where) {
  launch_attention_f32(x, 1, where);
  launch_attention_f32_queries(y, 1, where);
  launch_attention_f32_keys(z, 1, where);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
