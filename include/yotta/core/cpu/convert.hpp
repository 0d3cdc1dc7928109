// Conversion of numbers from one type to another, on the host and as the body of a kernel.
//
//     f32  [ 1.00390625  2 ]   ──►   bf16  [ 1  2 ]     rounded to nearest, ties to even
#pragma once

#include <algorithm>
#include <array>
#include <iterator>

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

// n numbers on the host. Any type to any other goes by way of f64, a block at a time: 9 + 9 loops
// to compile and not 9 x 9; f32 and bf16 have a loop of their own.
inline void convert(void* to, DType to_type, const void* from, DType from_type, int64_t n) {
  const auto directly = [&](auto body) {
    for (int64_t i = 0; i < n; ++i) body(i, 1);
  };
  if (to_type == DType::bf16 && from_type == DType::f32)
    return directly(Conversion<bfloat16, float>{to, from});
  if (to_type == DType::f32 && from_type == DType::bf16)
    return directly(Conversion<float, bfloat16>{to, from});
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
