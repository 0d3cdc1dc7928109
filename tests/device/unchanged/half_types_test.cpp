#include "yotta/device/unchanged/half_types.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

namespace {

// The number of 16 bits next to an exact value: tries both neighbours of f32's rounding.
template <class T>
T nearest(double exact) {
  const T first(static_cast<float>(exact));
  T best = first;
  for (const int step : {-1, 1}) {
    const T other = T::from_bits(static_cast<uint16_t>(first.bits() + step));
    const double far = std::abs(float(other) - exact), near = std::abs(float(best) - exact);
    if (far < near || (far == near && other.bits() % 2 == 0)) best = other;
  }
  return best;
}

template <class T>
void check_fused() {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const T a = T::from_bits(static_cast<uint16_t>(0x3800 + random() % 0x800)),
            b = T::from_bits(static_cast<uint16_t>(0x3800 + random() % 0x800)),
            c = T::from_bits(static_cast<uint16_t>(0x3000 + random() % 0x1000 + 0x8000 * (i % 2)));
    const double exact = double{float(a)} * float(b) + float(c);  // fits 53 bits here
    CHECK(__hfma(a, b, c).bits() == nearest<T>(exact).bits());
  }
}

}  // namespace

TEST_CASE("each operation rounds once, to nearest even") {
  const __half x = 2048.0f;  // its neighbours are 2046, or 2047 below, and 2050
  CHECK(float(x + __half(1.0f)) == 2048.0f);
  CHECK(float(x + __half(3.0f)) == 2052.0f);
  CHECK(float(__hmul(__half(65504.0f), 2.0f)) == INFINITY);
  CHECK(float(__nv_bfloat16(257.0f)) == 256.0f);
  CHECK(float(__nv_bfloat16(1.0f) / __nv_bfloat16(3.0f)) == 0.333984375f);
  CHECK(__half_as_ushort(__half(1.0f)) == 0x3c00);
  CHECK(__bfloat16_as_ushort(__nv_bfloat16(1.0f)) == 0x3f80);
  CHECK(float(-__half(2.0f)) == -2.0f);
  CHECK(__hisnan(hsqrt(__half(-1.0f))));
  CHECK(__hisinf(__half(-1e6f)) == -1);
  CHECK(float(__hmax(__half(NAN), 1.0f)) == 1.0f);
  CHECK(__half2int_rn(__half(2.5f)) == 2);
}

TEST_CASE("numbers of more digits are rounded once") {
  CHECK(float(__double2half(1 + 0x1p-11 + 0x1p-40)) == 1 + 0x1p-10f);
  CHECK(float(__double2half(-1 - 0x1p-11 - 0x1p-40)) == -1 - 0x1p-10f);
  CHECK(float(__double2half(1 + 0x1p-11)) == 1.0f);
  CHECK(float(__double2half(1 + 0x3p-11 - 0x1p-40)) == 1 + 0x1p-10f);
  CHECK(float(__double2half(1e300)) == INFINITY);
  CHECK(__hisnan(__double2half(double{NAN})));
  CHECK(float(__double2bfloat16(1 + 0x1p-8 + 0x1p-50)) == 1 + 0x1p-7f);
  CHECK(float(__int2bfloat16_rn((1 << 30) + (1 << 22) + 1)) == float((1 << 30) + (1 << 23)));
  CHECK(float(__int2bfloat16_rn(-(1 << 30) - (1 << 22) - 1)) == -float((1 << 30) + (1 << 23)));
  CHECK(float(__nv_bfloat16((1ll << 60) + (1ll << 52) + 1)) == 0x1p60f + 0x1p53f);
}

TEST_CASE("what is no integer becomes one as on a GPU") {
  const int most = std::numeric_limits<int>::max(), least = std::numeric_limits<int>::min();
  CHECK(__half2int_rn(__half(INFINITY)) == most);
  CHECK(__half2int_rz(__half(-INFINITY)) == least);
  CHECK(__half2int_rz(__half(NAN)) == 0);
  CHECK(__half2int_rz(__half(-2.75f)) == -2);
  CHECK(__bfloat162int_rn(__nv_bfloat16(3e38f)) == most);
}

template <class T>
void check_comparisons_with_nan() {
  const T x(1.0f), y(2.0f), nan(NAN);
  CHECK(__hne(x, y));
  CHECK_FALSE(__hne(x, x));
  CHECK_FALSE(__hne(x, nan));
  CHECK(x != nan);
  CHECK_FALSE(__hequ(x, y));
  CHECK_FALSE(__hltu(y, x));
  CHECK_FALSE(__hleu(y, x));
  CHECK_FALSE(__hgtu(x, y));
  CHECK_FALSE(__hgeu(x, y));
  CHECK_FALSE(__hneu(x, x));
  for (const bool unordered : {__hequ(x, nan), __hneu(x, nan), __hltu(x, nan), __hleu(x, nan),
                               __hgtu(nan, x), __hgeu(nan, x)})
    CHECK(unordered);
}

TEST_CASE("NaN is not ordered: comparisons are false, those that end in u are true") {
  check_comparisons_with_nan<__half>();
  check_comparisons_with_nan<__nv_bfloat16>();
  const __half2 pair = __floats2half2_rn(1.0f, NAN), ones = __float2half2_rn(1.0f);
  CHECK(__high2float(__hne2(pair, ones)) == 0.0f);
  CHECK(__high2float(__hneu2(pair, ones)) == 1.0f);
}

TEST_CASE("a fused multiply-add is rounded once") {
  check_fused<__half>();
  check_fused<__nv_bfloat16>();
  // 2^-9 + 2^-20 lies in the middle of two numbers.
  const __half a = 1.0f + 0x1p-10f, most = 65504.0f;
  CHECK(float(__hfma(a, a, __half(-1.0f))) == 0x1p-9f);
  // So does 3 x 683 / 2048 = 1 + 2^-11, and c, which f32 has no digits for, decides.
  const __half b = 683.0f / 2048;
  CHECK(float(__hfma(__half(3.0f), b, __half(0.0f))) == 1.0f);
  CHECK(float(__hfma(__half(3.0f), b, __half(0x1p-24f))) == 1 + 0x1p-10f);
  CHECK(float(__hfma(most, most, __half(0x1p-24f))) == INFINITY);
  // 7 x 37 / 256 = 1 + 3/256, and c, which f64 has no digits for.
  const __nv_bfloat16 d = 37.0f / 256;
  CHECK(float(__hfma(__nv_bfloat16(7.0f), d, __nv_bfloat16(0.0f))) == 1 + 4.0f / 256);
  CHECK(float(__hfma(__nv_bfloat16(7.0f), d, __nv_bfloat16(-0x1p-100f))) == 1 + 2.0f / 256);
}

TEST_CASE("pairs compute two numbers") {
  const __half2 a = __floats2half2_rn(1.5f, -2.0f), b = __float2half2_rn(3.0f);
  const __half2 sum = a + b, product = __hfma2(a, b, __half2half2(__float2half(1.0f)));
  CHECK(__low2float(sum) == 4.5f);
  CHECK(__high2float(sum) == 1.0f);
  CHECK(__low2float(product) == 5.5f);
  CHECK(__high2float(product) == -5.0f);
  CHECK(float(__hgt2(a, b).x) == 0.0f);
  CHECK(float(__hlt2(a, b).y) == 1.0f);
  CHECK(__low2float(__lowhigh2highlow(a)) == -2.0f);
  CHECK(__high2float(h2exp2(__floats2bfloat162_rn(1.0f, 3.0f))) == 8.0f);
}
