// The bodies of nn/cuda/cuda_kernels.hpp.
#pragma once

#include "yotta/nn/cuda/cuda_kernels.hpp"

#include "yotta/comm/data.hpp"
#include "yotta/comm/engine/reduce_arithmetic.hpp"
#include "yotta/core/cpu/convert.hpp"
#include "yotta/device/cuda/body_kernels.hpp"
#include "yotta/device/cuda/device_matmul.hpp"
#include "yotta/device/flash_attention_rungs.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/cpu/attention_rows.hpp"
#include "yotta/nn/cpu/step_gate.hpp"
#include "yotta/nn/cpu/zero_gradients.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/cuda/attention_f32.hpp"
#include "yotta/nn/cuda/attention_tiles.hpp"
#include "yotta/nn/dropout.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/norm.hpp"
#include "yotta/nn/rope.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// ---- attention_tiles.hpp: lesson 07's kernels ----

// run(b, AttentionShape) for the sequences that are launched together, from b on.
template <class Run>
void for_sequences(const detail::AttentionRows& at, int64_t B, Run run) {
  const int64_t together = detail::sequences_together(at, B);
  const auto count = [](int64_t x) { return static_cast<int>(x); };
  for (int64_t b = 0; b < B; b += together)
    run(b, {.B = count(std::min(together, B - b)),
            .Tq = count(at.n),
            .Tk = count(at.n),
            .H = count(at.H),
            .Hkv = count(at.Hkv),
            .d = count(at.d),
            .causal = true});
}

// Query 0 is so many positions after key 0; more than n are as good as n.
inline int ahead_of(const detail::AttentionRows& at) {
  return static_cast<int>(std::clamp(at.ahead, -at.n, at.n));
}

template <class Sum>
void launch_attention_tiles(const detail::AttentionTiles<Sum>& x, int64_t /*rows*/, Where where) {
  const detail::AttentionRows& at = x.at;
  for_sequences(at, x.B, [&](int64_t b, const AttentionShape& shape) {
    const AttentionArrays<bfloat16, Sum> arrays = {
        x.q + at.q(b, 0, 0), x.k + at.k(b, 0, 0), x.v + at.k(b, 0, 0), x.o + b * at.n * at.H * at.d,
        x.L + b * at.H * at.n};
    const auto run = [&]<int d>() {
      using T = FlashWarps<d, 128, 64, 32>;
      const CausalKeys mask = {static_cast<int>(tiles_along(at.n, T::BK)), T::BK, ahead_of(at)};
      run_flash_attention<T>(arrays, shape, mask, ScoreAsIs{}, KeyRows{shape}, compute_stream(),
                             where);
    };
    with_head_size(shape, run, where);
  });
}

template <class Sum>
void launch_attention_tiles_backward(const detail::AttentionTilesBackward<Sum>& x, int64_t /*rows*/,
                                     Where where) {
  constexpr Into into = std::is_same_v<Sum, float> ? Into::accumulate : Into::overwrite;
  const detail::AttentionRows& at = x.at;
  const int64_t heads = x.B * at.H, bytes = at.n * int64_t{sizeof(float)};
  const bool whole = at.n == at.T;
  const DeviceScratch D(heads * bytes, where), copied(whole ? 0 : heads * bytes, where);
  if (!whole)
    accelerator_or_fail(where).copy_rows(copied.as<float>(), bytes, x.L + at.query,
                                         at.T * int64_t{sizeof(float)}, bytes, heads);
  const float* const L = whole ? x.L : copied.as<float>();
  for_sequences(at, x.B, [&](int64_t b, const AttentionShape& shape) {
    const int64_t query = at.q(b, 0, 0), key = at.k(b, 0, 0), row = b * at.H * at.n;
    const AttentionGradientArrays<bfloat16, Sum> arrays = {
        x.q + query, x.k + key,           x.v + key,    x.o + query, x.dout + query,
        L + row,     D.as<float>() + row, x.dq + query, x.dk + key,  x.dv + key,
        into};
    const auto run = [&]<int d>() {
      using T = FlashSquare<d, 64>;
      const auto tiles = static_cast<int>(tiles_along(at.n, T::side));
      run_flash_backward<T>(
          arrays, shape, SumOrder::fixed, CausalQueries{tiles, T::side, ahead_of(at)},
          CausalKeys{tiles, T::side, ahead_of(at)}, ScoreAsIs{}, compute_stream(), where);
    };
    with_head_size(shape, run, where);
  });
}

template <class... Sums>
void add_attention_tiles() {
  ((KernelOf<detail::AttentionTiles<Sums>>::launch = launch_attention_tiles<Sums>), ...);
  ((KernelOf<detail::AttentionTilesBackward<Sums>>::launch = launch_attention_tiles_backward<Sums>),
   ...);
}

// ---- all kernels ----

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
  add_rows_kernels<AddBias<Number>, NormForward<Number>, NormForward<Number, Number>,
                   NormBackward<Number>, NormBackward<Number, Number>, SoftmaxRow<Number>,
                   SoftmaxBackwardRow<Number>, CrossEntropyRow<Number>,
                   CrossEntropyBackwardRow<Number>, EmbeddingRow<Number>, AddPosition<Number>,
                   RotateRow<Number>>();
  add_rows_kernels<BlockwiseRow<Number>, BlockwiseQueryGradient<Number>,
                   BlockwiseKeyGradient<Number>, PlainProbabilities<Number>, PlainOutput<Number>,
                   PlainQueryGradient<Number>, PlainKeyGradient<Number>>();
  add_scatter<AddRows<Number, RowOfId>, AddRows<Number, RowOfPosition>>();
  add_sums<ColumnSums<Real, 1, BiasTerm<Number>>, ColumnSums<Real, 2, NormTerm<Number, 2>>,
           ColumnSums<Real, 1, NormTerm<Number, 1>>>();
}

// What is computed in a type.
template <class Real>
void install_computing_kernels_of() {
  add_numbers<detail::RopeAngles<Real>>();
  add_many_numbers<AdamWStep<Real>, OnDevice<AdamWStep<Real>>, detail::Zeros<Real>>();
  add_many_rows<detail::SquaresOfPiece<Real>>();
  add_rows_kernels<detail::SumOfLosses<Real>>();
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
  add_attention_tiles<float, bfloat16>();
  add_attention_f32();
  add_rows_kernels<detail::CheckIds, StepGate>();
  add_numbers<detail::DrawMask, Conversion<float, bfloat16>>();
  add_many_numbers<Conversion<bfloat16, float>>();
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
