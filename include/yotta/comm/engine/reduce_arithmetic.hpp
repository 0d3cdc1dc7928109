// Reductions of two numbers, for a loop on the CPU and as the bodies of kernels.
//
// Two rules hold for every operation. A NaN survives it, so that no rank hides another's. Small
// floats are combined in f32 and rounded once.
#pragma once

#include <type_traits>

#include "yotta/comm/comm_options.hpp"
#include "yotta/core/system/accelerator.hpp"

namespace yotta {

// The type that numbers of type T are combined in: small floats in f32, then rounded once.
template <class T>
using Wide = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

// Calls f(combine), where combine(x, y) is x (op) y on numbers of type T. A NaN on either side
// survives max and min too.
template <class T, class F>
void visit_op(ReduceOp op, F&& f) {
  const auto rounded = [&](auto combine) {
    f([=](T x, T y) {
      return static_cast<T>(combine(static_cast<Wide<T>>(x), static_cast<Wide<T>>(y)));
    });
  };
  using W = Wide<T>;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: return rounded([](W x, W y) { return x + y; });
    case ReduceOp::prod: return rounded([](W x, W y) { return x * y; });
    case ReduceOp::max: return rounded([](W x, W y) { return x > y || x != x ? x : y; });
    case ReduceOp::min: return rounded([](W x, W y) { return x < y || x != x ? x : y; });
  }
}

// The bodies of the kernels behind reduce_into and divide on Device::cuda.
template <class T>
struct ReduceBody {
  T* to;
  const T* from;
  ReduceOp op;
  YOTTA_HOST_DEVICE void operator()(int64_t i, OneLane) const {
    const auto x = static_cast<Wide<T>>(to[i]), y = static_cast<Wide<T>>(from[i]);
    auto result = x + y;
    if (op == ReduceOp::prod) result = x * y;
    if (op == ReduceOp::max) result = x > y || x != x ? x : y;
    if (op == ReduceOp::min) result = x < y || x != x ? x : y;
    to[i] = static_cast<T>(result);
  }
};
template <class T>
struct DivideBody {
  T* data;
  int by;
  YOTTA_HOST_DEVICE void operator()(int64_t i, OneLane) const {
    data[i] = static_cast<T>(static_cast<Wide<T>>(data[i]) / static_cast<Wide<T>>(by));
  }
};

}  // namespace yotta
