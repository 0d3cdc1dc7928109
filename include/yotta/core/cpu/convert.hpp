// Conversion of numbers from one type to another, on the host and as the body of a kernel.
//
//     f32  [ 1.00390625  2 ]   ──►   bf16  [ 1  2 ]     rounded to nearest, ties to even
#pragma once

#include <algorithm>
#include <array>
#include <iterator>

#include "yotta/core/cpu/matmul_packing.hpp"
#include "yotta/core/dtype.hpp"
#include "yotta/core/system/accelerator.hpp"

namespace yotta {

// Number i of one type becomes number i of the other.
template <class To, class From>
struct Conversion {
  void* to;
  const void* from;
  template <class Count>
  YOTTA_BODY void operator()(int64_t i, Count) const {
    static_cast<To*>(to)[i] = static_cast<To>(static_cast<const From*>(from)[i]);
  }
};

// n numbers between f32 and bf16, a register at a time.
inline void round_numbers(bfloat16* to, const float* from, int64_t n) {
  constexpr int64_t lanes = TileShape<float>::lanes;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Bf16Bits bits = rounded(load_register<float>(from + i));
    std::memcpy(static_cast<void*>(to + i), &bits, sizeof bits);
  }
  for (; i < n; ++i) to[i] = bfloat16(from[i]);
}
inline void widen_numbers(float* to, const bfloat16* from, int64_t n) {
  constexpr int64_t lanes = TileShape<float>::lanes;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store_register(to + i, load_register<float>(from + i));
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

// The same for code that is compiled for either type.
inline void copy_numbers(bfloat16* to, const float* from, int64_t n) { round_numbers(to, from, n); }
inline void copy_numbers(float* to, const bfloat16* from, int64_t n) { widen_numbers(to, from, n); }
template <class T>
void copy_numbers(T* to, const T* from, int64_t n) {
  if (to != from) std::copy_n(from, n, to);
}

// n numbers on the host. Any type to any other goes by way of f64, a block at a time: 9 + 9 loops
// to compile and not 9 x 9; f32 and bf16 have a loop of their own.
inline void convert(void* to, DType to_type, const void* from, DType from_type, int64_t n) {
  if (to_type == DType::bf16 && from_type == DType::f32)
    return round_numbers(static_cast<bfloat16*>(to), static_cast<const float*>(from), n);
  if (to_type == DType::f32 && from_type == DType::bf16)
    return widen_numbers(static_cast<float*>(to), static_cast<const bfloat16*>(from), n);
  std::array<double, 256> block;
  for (int64_t begin = 0; begin < n; begin += std::ssize(block)) {
    const int64_t count = std::min<int64_t>(std::ssize(block), n - begin);
    visit(from_type, [&]<class From>(Type<From>) {
      const From* source = static_cast<const From*>(from) + begin;
      for (int64_t i = 0; i < count; ++i)
        block[static_cast<size_t>(i)] = static_cast<double>(source[i]);
    });
    visit(to_type, [&]<class To>(Type<To>) {
      To* target = static_cast<To*>(to) + begin;
      for (int64_t i = 0; i < count; ++i)
        target[i] = static_cast<To>(block[static_cast<size_t>(i)]);
    });
  }
}

}  // namespace yotta
