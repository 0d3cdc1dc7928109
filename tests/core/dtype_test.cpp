#include "yotta/core/dtype.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace yotta;

namespace {
// The slow, obvious rounding: among all values of the type, the nearest; of two, the even one.
template <class Small>
uint32_t nearest_by_search(float x) {
  uint32_t best = 0;
  double best_distance = INFINITY;
  for (uint32_t bits = 0; bits < Small::sign_bit; ++bits) {
    const auto value = static_cast<double>(Small::decode(static_cast<decltype(Small::bits)>(bits)));
    if (!std::isfinite(value)) continue;
    const double distance = std::abs(value - std::abs(static_cast<double>(x)));
    if (distance < best_distance || (distance == best_distance && bits % 2 == 0)) {
      best = bits;
      best_distance = distance;
    }
  }
  return best | (std::signbit(x) ? Small::sign_bit : 0u);
}

template <class Small>
void check_every_value() {
  for (uint32_t bits = 0; bits < 2 * Small::sign_bit; ++bits) {
    const float value = Small::decode(static_cast<decltype(Small::bits)>(bits));
    if (std::isnan(value)) {
      CHECK(std::isnan(Small::decode(Small::encode(value))));
    } else {
      CHECK(Small::encode(value) == bits);
    }
  }
}
}  // namespace

TEST_CASE_TEMPLATE("every small float survives decode and encode", T, bfloat16, float16,
                   float8_e5m2, float8_e4m3) {
  check_every_value<T>();
}

TEST_CASE_TEMPLATE("rounding is to the nearest, ties to even", T, float8_e5m2, float8_e4m3) {
  for (int i = -4000; i <= 4000; ++i) {
    const float x = static_cast<float>(i) * 0.01f;
    CHECK(T::encode(x) == nearest_by_search<T>(x));
    const float tiny = static_cast<float>(i) * 1e-5f;
    CHECK(T::encode(tiny) == nearest_by_search<T>(tiny));
  }
}

TEST_CASE("ties, limits and overflow") {
  CHECK(static_cast<float>(bfloat16(1.00390625f)) == 1.0f);       // 1 + 2^-8: a tie, to even
  CHECK(static_cast<float>(bfloat16(1.01171875f)) == 1.015625f);  // 1 + 3 * 2^-8: a tie, to even
  CHECK(static_cast<float>(float16(65504.f)) == 65504.f);
  CHECK(std::isinf(static_cast<float>(float16(65520.f))));
  CHECK(static_cast<float>(float16(0x1p-24f)) == 0x1p-24f);
  CHECK(static_cast<float>(float16(0x1p-26f)) == 0);
  CHECK(static_cast<float>(float8_e4m3(448.f)) == 448.f);
  CHECK(std::isnan(static_cast<float>(float8_e4m3(480.f))));
  CHECK(static_cast<float>(float8_e5m2(57344.f)) == 57344.f);
  CHECK(std::isinf(static_cast<float>(float8_e5m2(-INFINITY))));
  CHECK(std::isinf(static_cast<float>(bfloat16(std::numeric_limits<float>::max()))));
  CHECK(std::signbit(static_cast<float>(float16(-0.0f))));
  CHECK(std::isnan(static_cast<float>(bfloat16(NAN))));
}

TEST_CASE("sizes and names agree with the C++ types") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::fp8_e5m2,
                            DType::fp8_e4m3, DType::i64, DType::i32, DType::u8})
    visit(dtype, [&]<class T>(Type<T>) {
      CHECK(bytes_of(dtype) == sizeof(T));
      CHECK(dtype_of<T> == dtype);
    });
  CHECK(std::string(name(DType::fp8_e4m3)) == "fp8_e4m3");
  CHECK_THROWS_WITH_AS(visit_real(DType::bf16, Where::current(), [](auto) {}),
                       doctest::Contains("computes in f32 or f64, not bf16"), Error);
}
