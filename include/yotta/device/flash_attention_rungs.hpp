// How the kernels of flash attention are launched, rung by rung.
//
// d is a number in an AttentionShape and a type's constant in a kernel: with_head_size() goes from
// one to the other.
//     run_unfused_attention     three kernels; s has room for B H Tq Tk scores
//     run_online_attention      a warp for each query
//     run_flash_tile            FlashAttention; l has room for B H Tq sums
// Contract: d is 32, 64 or 128, others are refused.
#pragma once

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

// run<d>() for the d of the shape.
template <class Run>
void with_head_size(const AttentionShape& shape, Run run, Where where = Where::current()) {
  if (shape.d == 32) return run.template operator()<32>();
  if (shape.d == 64) return run.template operator()<64>();
  if (shape.d == 128) return run.template operator()<128>();
  fail(where, "a head has {} numbers; the kernels are made for 32, 64 and 128", shape.d);
}

constexpr unsigned attention_blocks(int64_t size, int64_t each) {
  return static_cast<unsigned>(tiles_of(size, each));
}

inline void run_unfused_attention(const AttentionArrays<float>& x, float* s,
                                  const AttentionShape& shape, cudaStream_t stream = nullptr) {
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
                                 cudaStream_t stream = nullptr) {
  with_head_size(shape, [&]<int d>() {
    launch(attention_online<d, 4>, attention_blocks(shape.query_rows(), 4), 128, 0, stream, x.q,
           x.k, x.v, x.o, x.L, shape);
  });
}

template <class T>
void run_flash_tile(const AttentionArrays<float>& x, float* l, const AttentionShape& shape,
                    cudaStream_t stream = nullptr) {
  launch(flash_attention_tile<T>, static_cast<unsigned>(shape.B * shape.H), T::threads,
         sizeof(float) * T::numbers, stream, x.q, x.k, x.v, x.o, x.L, l, shape);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
