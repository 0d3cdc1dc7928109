// The bodies of nn/cuda/cuda_kernels.hpp.
#pragma once

#include "yotta/nn/cuda/cuda_kernels.hpp"

#include "yotta/comm/data.hpp"
#include "yotta/comm/engine/reduce_arithmetic.hpp"
#include "yotta/core/cpu/convert.hpp"
#include "yotta/device/cuda/body_kernels.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/cpu/attention_rows.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/dropout.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/norm.hpp"
#include "yotta/nn/rope.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// What activations stored as `Number` go through.
template <class Number>
void install_kernels_of() {
  using namespace detail;
  using Real = Computed<Number>;
  add_numbers<Map<Number, Plus, 2>, Map<Number, Times, 2>, Map<Number, ScaleBy, 1>,
              Map<Number, Gated<GeluGate>, 1>, Map<Number, GatedSlope<GeluGate>, 2>,
              Map<Number, Gated<SiluGate>, 1>, Map<Number, GatedSlope<SiluGate>, 2>,
              Map<Number, Swiglu, 2>, SwigluBackward<Number>, FillRows<Number>,
              KeepMasked<Number>>();
  add_rows_kernels<AddBias<Number>, NormForward<Number>, NormBackward<Number>, SoftmaxRow<Number>,
                   SoftmaxBackwardRow<Number>, CrossEntropyRow<Number>,
                   CrossEntropyBackwardRow<Number>, EmbeddingRow<Number>, AddPosition<Number>,
                   RotateRow<Number>>();
  add_rows_kernels<BlockwiseRow<Number>, BlockwiseQueryGradient<Number>,
                   BlockwiseKeyGradient<Number>, PlainProbabilities<Number>, PlainOutput<Number>,
                   PlainQueryGradient<Number>, PlainKeyGradient<Number>>();
  add_columns<AddRows<Number, RowOfId>, AddRows<Number, RowOfPosition>>();
  add_sums<ColumnSums<Real, 1, BiasTerm<Number>>, ColumnSums<Real, 2, NormTerm<Number, 2>>,
           ColumnSums<Real, 1, NormTerm<Number, 1>>>();
}

// What is computed in a type.
template <class Real>
void install_computing_kernels_of() {
  add_numbers<detail::RopeAngles<Real>, AdamWStep<Real>>();
  add_rows_kernels<detail::SquaresOfPiece<Real>>();
}

// What collectives of messages compute (comm/data.hpp).
template <class... T>
void install_reductions() {
  add_numbers<ReduceBody<T>..., DivideBody<T>...>();
}

YOTTA_INLINE void install_kernels() {
  install_reductions<double, float, bfloat16, float16, float8_e5m2, float8_e4m3, int64_t, int32_t,
                     uint8_t>();
  install_kernels_of<float>();
  install_kernels_of<double>();
  install_kernels_of<bfloat16>();
  install_computing_kernels_of<float>();
  install_computing_kernels_of<double>();
  add_numbers<detail::DrawMask, Conversion<bfloat16, float>, Conversion<float, bfloat16>>();
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
