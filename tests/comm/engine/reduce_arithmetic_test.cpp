#include "yotta/comm/engine/reduce_arithmetic.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "yotta/core/dtype.hpp"

using namespace yotta;

namespace {

template <class T>
T combined(ReduceOp op, T x, T y) {
  T result{};
  visit_op<T>(op, [&](auto combine) { result = combine(x, y); });
  return result;
}
// The same by the body of the kernel.
template <class T>
T by_body(ReduceOp op, T x, T y) {
  ReduceBody<T>{&x, &y, op}(0, OneLane{});
  return x;
}

constexpr ReduceOp operations[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::prod, ReduceOp::max,
                                   ReduceOp::min};

}  // namespace

TEST_CASE("operations on two numbers: in a loop and as a kernel's body") {
  const double expected[] = {7, 7, 12, 4, 3};  // a mean is a sum until divide()
  for (int i = 0; const ReduceOp op : operations) {
    CHECK(combined<double>(op, 3, 4) == expected[i]);
    CHECK(combined<int32_t>(op, 4, 3) == static_cast<int32_t>(expected[i]));
    CHECK(by_body<float>(op, 3, 4) == static_cast<float>(expected[i]));
    CHECK(static_cast<double>(by_body(op, bfloat16(4.0f), bfloat16(3.0f))) == expected[i]);
    ++i;
  }
}

TEST_CASE("a NaN on either side survives every operation") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : operations) {
    CHECK(std::isnan(combined(op, nan, 1.0f)));
    CHECK(std::isnan(combined(op, 1.0f, nan)));
    CHECK(std::isnan(by_body(op, nan, 1.0f)));
    CHECK(std::isnan(by_body(op, 1.0f, nan)));
  }
}

TEST_CASE("small floats are combined in f32 and rounded once") {
  static_assert(std::is_same_v<Wide<bfloat16>, float> && std::is_same_v<Wide<double>, double>);
  CHECK(static_cast<float>(combined(ReduceOp::sum, bfloat16(256.0f), bfloat16(1.0f))) == 256.0f);
  bfloat16 seven(7.0f);
  DivideBody<bfloat16>{&seven, 2}(0, OneLane{});
  CHECK(static_cast<float>(seven) == 3.5f);
}
