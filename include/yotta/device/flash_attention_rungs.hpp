// How the kernels of flash attention are launched, rung by rung.
//
// d is a number in an AttentionShape and a type's constant in a kernel: with_head_size() goes from
// one to the other.
//     run_unfused_attention     three kernels; s has room for B H Tq Tk scores
//     run_online_attention      a warp for each query
//     run_flash_tile            FlashAttention; l has room for B H Tq sums
//     run_flash_attention       FlashAttention-2 on tensor cores
//     run_flash_decoding        the same, keys split over blocks, heads of a group in one tile
//     run_flash_backward        dq, dk and dv, dq by atomics or in a fixed order
// Contract: d as the kernel's, 32, 64 or 128 for with_head_size(); sizes that no kernel computes
// are refused.
#pragma once

#include "yotta/device/device_memory.hpp"
#include "yotta/device/flash_attention_backward.hpp"
#include "yotta/device/flash_attention_decoding.hpp"
#include "yotta/device/flash_attention_tile.hpp"
#include "yotta/device/flash_attention_unfused.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Where a kernel finds its numbers: q and o (B, Tq, H, d), k and v (B, Tk, Hkv, d), L (B, H, Tq).
template <class T, class Out = T>
struct AttentionArrays {
  const T *q, *k, *v;
  Out* o;
  float* L;
};

// Refuses what no kernel computes, and a kernel that is made for another d.
inline void check_shape(const AttentionShape& s, int d, Where where) {
  if (s.d != d) fail(where, "a head has {} numbers; this kernel is made for {}", s.d, d);
  if (s.B < 1 || s.Tq < 1 || s.Tk < 1 || s.Hkv < 1 || s.H < 1 || s.H % s.Hkv != 0)
    fail(where,
         "{} sequences, {} queries, {} keys, {} query heads on {} heads of keys: each must be 1 or "
         "more, and query heads a multiple of heads of keys",
         s.B, s.Tq, s.Tk, s.H, s.Hkv);
}

// run<d>() for the d of the shape.
template <class Run>
void with_head_size(const AttentionShape& shape, Run run, Where where = Where::current()) {
  if (shape.d == 32) return run.template operator()<32>();
  if (shape.d == 64) return run.template operator()<64>();
  if (shape.d == 128) return run.template operator()<128>();
  fail(where, "a head has {} numbers; the kernels are made for 32, 64 and 128", shape.d);
}

constexpr unsigned attention_blocks(int64_t size, int64_t each) {
  return static_cast<unsigned>(tiles_along(size, each));
}

inline void run_unfused_attention(const AttentionArrays<float>& x, float* s,
                                  const AttentionShape& shape, cudaStream_t stream = nullptr,
                                  Where where = Where::current()) {
  check_shape(shape, shape.d, where);
  constexpr int tile = 32;
  const auto heads = static_cast<unsigned>(shape.B * shape.H);
  const unsigned queries = attention_blocks(shape.Tq, tile);
  launch(attention_scores<tile>, {attention_blocks(shape.Tk, tile), queries, heads}, {tile, tile},
         0, stream, x.q, x.k, s, shape);
  launch(attention_softmax<4>, attention_blocks(shape.query_rows(), 4), 128, 0, stream, s, x.L,
         shape);
  launch(attention_values<tile>, {attention_blocks(shape.d, tile), queries, heads}, {tile, tile}, 0,
         stream, s, x.v, x.o, shape);
}

inline void run_online_attention(const AttentionArrays<float>& x, const AttentionShape& shape,
                                 cudaStream_t stream = nullptr, Where where = Where::current()) {
  check_shape(shape, shape.d, where);
  const auto run = [&]<int d>() {
    launch(attention_online<d, 4>, attention_blocks(shape.query_rows(), 4), 128, 0, stream, x.q,
           x.k, x.v, x.o, x.L, shape);
  };
  with_head_size(shape, run, where);
}

template <class T>
void run_flash_tile(const AttentionArrays<float>& x, float* l, const AttentionShape& shape,
                    cudaStream_t stream = nullptr, Where where = Where::current()) {
  check_shape(shape, T::d, where);
  launch(flash_attention_tile<T>, static_cast<unsigned>(shape.B * shape.H), T::threads,
         sizeof(float) * T::numbers, stream, x.q, x.k, x.v, x.o, x.L, l, shape);
}

// One block for each tile of queries of each head.
template <class T, class Out, class Mask, class ScoreMod, class Keys>
void run_flash_attention(const AttentionArrays<bfloat16, Out>& x, const AttentionShape& shape,
                         const Mask& mask, const ScoreMod& mod, const Keys& keys,
                         cudaStream_t stream = nullptr, Where where = Where::current()) {
  check_shape(shape, T::d, where);
  launch(flash_attention<T, false, Out, Mask, ScoreMod, Keys>,
         {attention_blocks(shape.Tq, T::BQ), static_cast<unsigned>(shape.B * shape.H)}, T::threads,
         T::shared_bytes, stream, x.q, x.k, x.v, x.o, x.L, shape, mask, mod, keys);
}

// run(mask) with the mask that the shape asks for.
template <class T, class Run>
void with_mask(const AttentionShape& shape, Run run) {
  const auto tiles = static_cast<int>(tiles_along(shape.Tk, T::BK));
  if (shape.causal)
    run(CausalKeys{tiles, T::BK, shape.Tk - shape.Tq});
  else
    run(AllKeys{tiles});
}

template <class T, class Out>
void run_flash_attention(const AttentionArrays<bfloat16, Out>& x, const AttentionShape& shape,
                         cudaStream_t stream = nullptr, Where where = Where::current()) {
  with_mask<T>(shape, [&](const auto& mask) {
    run_flash_attention<T>(x, shape, mask, ScoreAsIs{}, KeyRows{shape}, stream, where);
  });
}

// `splits` blocks for each tile of queries; partial has `splits` o and L, in f32.
template <class T, class Out>
void run_flash_decoding(const AttentionArrays<bfloat16, Out>& x, float* partial_o, float* partial_L,
                        int splits, const AttentionShape& shape, cudaStream_t stream = nullptr,
                        Where where = Where::current()) {
  check_shape(shape, T::d, where);
  if (splits < 1) fail(where, "keys are split into 1 part or more, not {}", splits);
  with_mask<T>(shape, [&]<class Mask>(const Mask& mask) {
    launch(flash_attention<T, true, float, Mask, ScoreAsIs, KeyRows>,
           {attention_blocks(int64_t{shape.Tq} * shape.group(), T::BQ),
            static_cast<unsigned>(shape.B * shape.Hkv), static_cast<unsigned>(splits)},
           T::threads, T::shared_bytes, stream, x.q, x.k, x.v, partial_o, partial_L, shape, mask,
           ScoreAsIs{}, KeyRows{shape});
  });
  launch(merge_splits<Out, 4>, attention_blocks(shape.query_rows(), 4), 128, 0, stream, partial_o,
         partial_L, splits, x.o, x.L, shape);
}

// Where the backward pass finds its numbers: q, o, dout and dq (B, Tq, H, d), k, v, dk and dv
// (B, Tk, Hkv, d), L and D (B, H, Tq).
template <class Out, class Grad = float>
struct AttentionGradientArrays {
  const bfloat16 *q, *k, *v;
  const Out* o;
  const bfloat16* dout;
  const float* L;
  float* D;
  Grad *dq, *dk, *dv;           // f32 or bf16
  Into into = Into::overwrite;  // what becomes of dq, dk and dv
};

// How dq is summed. In the order in which blocks come its last bits differ from run to run. Atomics
// add to f32: bf16 is summed in the fixed order alone.
enum class SumOrder { as_blocks_come, fixed };

// by_key and by_query are one mask, seen from the keys and from the queries.
template <class T, class Out, class Grad, class Queries, class Keys, class ScoreMod>
void run_flash_backward(const AttentionGradientArrays<Out, Grad>& x, const AttentionShape& shape,
                        SumOrder order, const Queries& by_key, const Keys& by_query,
                        const ScoreMod& mod, cudaStream_t stream = nullptr,
                        Where where = Where::current()) {
  check_shape(shape, T::d, where);
  const auto blocks = [&](int length, int heads) {
    return Grid(attention_blocks(length, T::side), static_cast<unsigned>(shape.B * heads));
  };
  launch(rows_of_dout_o<Out, 4>, attention_blocks(shape.query_rows(), 4), 128, 0, stream, x.dout,
         x.o, x.D, shape);
  const auto run_keys = [&](auto kernel) {
    launch(kernel, blocks(shape.Tk, shape.Hkv), T::threads, T::shared_bytes, stream, x.q, x.k, x.v,
           x.dout, x.L, x.D, x.dq, x.dk, x.dv, x.into, shape, by_key, mod);
  };
  if constexpr (std::is_same_v<Grad, float>)
    if (order == SumOrder::as_blocks_come) {
      const auto bytes = static_cast<size_t>(shape.query_numbers()) * sizeof(float);
      if (x.into == Into::overwrite) check_cuda(cudaMemsetAsync(x.dq, 0, bytes, stream));
      return run_keys(flash_backward_keys<T, true, Queries, ScoreMod, Grad>);
    }
  run_keys(flash_backward_keys<T, false, Queries, ScoreMod, Grad>);
  launch(flash_backward_queries<T, Keys, ScoreMod, Grad>, blocks(shape.Tq, shape.H), T::threads,
         T::shared_bytes, stream, x.q, x.k, x.v, x.dout, x.L, x.D, x.dq, x.into, shape, by_query,
         mod);
}

template <class T, class Out, class Grad>
void run_flash_backward(const AttentionGradientArrays<Out, Grad>& x, const AttentionShape& shape,
                        SumOrder order, cudaStream_t stream = nullptr,
                        Where where = Where::current()) {
  const auto query_tiles = static_cast<int>(tiles_along(shape.Tq, T::side));
  const auto key_tiles = static_cast<int>(tiles_along(shape.Tk, T::side));
  const int ahead = shape.Tk - shape.Tq;
  if (shape.causal)
    run_flash_backward<T>(x, shape, order, CausalQueries{query_tiles, T::side, ahead},
                          CausalKeys{key_tiles, T::side, ahead}, ScoreAsIs{}, stream, where);
  else
    run_flash_backward<T>(x, shape, order, AllQueries{query_tiles}, AllKeys{key_tiles}, ScoreAsIs{},
                          stream, where);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
