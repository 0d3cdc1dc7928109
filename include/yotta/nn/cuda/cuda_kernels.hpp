// nvcc
// Every body of nn/ as a kernel, in the slots where its op looks for it.
//
//     install_accelerator();  install_kernels();      from here on the ops run on Device::cuda
//
// nvcc compiles this file too: once per program, in one .cu file, together with the kernels of
// parallel/ (parallel/cuda/parallel_kernels.hpp). g++ compiles it for the emulator.
#pragma once

#include "yotta/device/cuda/cuda_accelerator.hpp"

#if YOTTA_BODIES_OF(nn_kernels) || defined(__CUDACC__)
#include "yotta/comm/data.hpp"
#include "yotta/comm/reduce_ops.hpp"
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
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Kernels for all ops of nn/, and for what collectives compute. Call it once, after
// install_accelerator().
YOTTA_API void install_kernels();

#if YOTTA_BODIES_OF(nn_kernels) || defined(__CUDACC__)

template <class Real>
void install_kernels_of() {
  using namespace detail;
  add_numbers<Map<Real, Plus, 2>, Map<Real, Times, 2>, Map<Real, ScaleBy, 1>,
              Map<Real, Gated<GeluGate>, 1>, Map<Real, GatedSlope<GeluGate>, 2>,
              Map<Real, Gated<SiluGate>, 1>, Map<Real, GatedSlope<SiluGate>, 2>,
              Map<Real, Swiglu, 2>, SwigluBackward<Real>, FillRows<Real>, KeepMasked<Real>,
              RopeAngles<Real>, AdamWStep<Real>>();
  add_rows_kernels<AddBias<Real>, NormForward<Real>, NormBackward<Real>, SoftmaxRow<Real>,
                   SoftmaxBackwardRow<Real>, CrossEntropyRow<Real>, CrossEntropyBackwardRow<Real>,
                   EmbeddingRow<Real>, AddPosition<Real>, RotateRow<Real>, SquaresOfPiece<Real>>();
  add_rows_kernels<BlockwiseRow<Real>, BlockwiseQueryGradient<Real>, BlockwiseKeyGradient<Real>,
                   PlainProbabilities<Real>, PlainOutput<Real>, PlainQueryGradient<Real>,
                   PlainKeyGradient<Real>>();
  add_columns<AddRows<Real, RowOfId>, AddRows<Real, RowOfPosition>>();
  add_sums<ColumnSums<Real, 1, BiasTerm<Real>>, ColumnSums<Real, 2, NormTerm<Real, 2>>,
           ColumnSums<Real, 1, NormTerm<Real, 1>>>();
}

// What collectives of messages compute (comm/data.hpp).
template <class... T>
void install_reductions() {
  add_numbers<ReduceBody<T>..., DivideBody<T>...>();
}

void install_kernels() {
  install_reductions<double, float, bfloat16, float16, float8_e5m2, float8_e4m3, int64_t, int32_t,
                     uint8_t>();
  install_kernels_of<float>();
  install_kernels_of<double>();
  add_numbers<detail::DrawMask, detail::FillRows<bfloat16>, Conversion<bfloat16, float>,
              Conversion<float, bfloat16>>();
}

#endif  // YOTTA_BODIES

}  // namespace YOTTA_DEVICE_BUILD

}  // namespace yotta
