#include "yotta/core/numbers.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/core/dtype.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;

namespace {

// Equal, or both NaN.
bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

template <class Small>
constexpr NumberFormat format_of() {
  if constexpr (std::is_same_v<Small, bfloat16>) return formats::bf16;
  if constexpr (std::is_same_v<Small, float16>) return formats::fp16;
  if constexpr (std::is_same_v<Small, float8_e5m2>) return formats::e5m2;
  return formats::e4m3;
}

}  // namespace

TEST_CASE_TEMPLATE("arithmetic and the bits of dtype.hpp round alike", T, bfloat16, float16,
                   float8_e5m2, float8_e4m3) {
  constexpr NumberFormat f = format_of<T>();
  const Random random(1, f.name);
  for (uint64_t i = 0; i < 20'000; ++i) {
    const float x = std::bit_cast<float>(random.bits(i));  // any float: tiny, huge, infinite, NaN
    const double y = (random.uniform(i) - 0.5) * power_of_two(static_cast<int>(i % 40) - 20);
    for (const float value : {x, static_cast<float>(y)}) {
      const T small(value);
      CHECK(same(round_to(value, f), static_cast<double>(small)));
      if (!std::isnan(static_cast<double>(small)))
        CHECK(code_of(static_cast<double>(small), f) == small.bits);
    }
  }
}

TEST_CASE("every code of the 8- and 16-bit formats is a number that rounds to itself") {
  for (const NumberFormat f : {formats::e4m3, formats::e5m2, formats::fp16, formats::bf16}) {
    double last = -1;
    int finite = 0;
    for (double x = 0; x <= largest(f); x += spacing(x, f), ++finite) {
      if (!(x > last)) FAIL("does not go up");
      if (code_of(x, f) != static_cast<uint32_t>(finite)) FAIL("wrong code of " << x);
      last = x;
    }
    CHECK(last == largest(f));
    const int codes = 1 << (f.bits() - 1);  // of one sign; the rest are infinities and NaNs
    CHECK(finite == (f.has_infinity ? codes - (1 << f.mantissa) : codes - 1));
  }
}

TEST_CASE("fp32 is float, and tf32 keeps fp32's range with fp16's mantissa") {
  const Random random(2, "x");
  for (uint64_t i = 0; i < 1000; ++i) {
    const double x = random.normal(i) * power_of_two(static_cast<int>(i % 250) - 125);
    CHECK(round_to(x, formats::fp32) == static_cast<double>(static_cast<float>(x)));
    CHECK(round_to(random.normal(i), formats::tf32) ==
          doctest::Approx(round_to(random.normal(i), formats::fp16)).epsilon(1e-3));
  }
  CHECK(largest(formats::fp32) == static_cast<double>(std::numeric_limits<float>::max()));
  CHECK(smallest(formats::fp32) == static_cast<double>(std::numeric_limits<float>::denorm_min()));
  CHECK(round_to(1 + 0x1p-10, formats::tf32) == 1 + 0x1p-10);
  CHECK(round_to(1 + 0x1p-11, formats::tf32) == 1);
  CHECK(formats::tf32.bits() == 19);
}

TEST_CASE("the table of ranges") {
  CHECK(largest(formats::fp16) == 65504);
  CHECK(largest(formats::e5m2) == 57344);
  CHECK(largest(formats::e4m3) == 448);
  CHECK(largest(formats::bf16) == doctest::Approx(3.3895e38).epsilon(1e-4));
  CHECK(smallest_normal(formats::fp16) == 0x1p-14);
  CHECK(smallest(formats::fp16) == 0x1p-24);
  CHECK(smallest(formats::e4m3) == 0x1p-9);
  CHECK(smallest(formats::e5m2) == 0x1p-16);
  CHECK(spacing(1, formats::bf16) == 0x1p-7);
  CHECK(spacing(-3, formats::bf16) == 0x1p-6);
  CHECK(spacing(0, formats::bf16) == smallest(formats::bf16));
  CHECK(spacing(256, formats::bf16) == 2);
}

TEST_CASE("ties to even, and what is too large") {
  CHECK(round_to(1 + 0x1p-8, formats::bf16) == 1);
  CHECK(round_to(1 + 3 * 0x1p-8, formats::bf16) == 1 + 2 * 0x1p-7);
  CHECK(round_to(-(1 + 0x1p-8), formats::bf16) == -1);
  CHECK(round_to(65519, formats::fp16) == 65504);
  CHECK(std::isinf(round_to(65520, formats::fp16)));
  CHECK(round_to(-1e9, formats::fp16) < -1e300);
  CHECK(round_to(464, formats::e4m3) == 448);
  CHECK(std::isnan(round_to(465, formats::e4m3)));
  CHECK(std::isnan(round_to(INFINITY, formats::e4m3)));
  CHECK(std::isnan(round_to(NAN, formats::fp32)));
}

TEST_CASE("a code and its number, back and forth, and the numbers of dtype.hpp") {
  for (const NumberFormat f : {formats::e4m3, formats::e5m2, formats::fp16, formats::bf16})
    for (uint32_t code = 0; code < 1u << f.bits(); ++code) {
      const double x = value_of(code, f);
      if (std::isnan(x)) continue;
      if (code_of(x, f) != code) FAIL(f.name << ": code " << code << " is " << x);
    }
  for (uint32_t code = 0; code < 1u << 16; ++code) {
    bfloat16 a;
    float16 b;
    a.bits = b.bits = static_cast<uint16_t>(code);
    if (!same(value_of(code, formats::bf16), static_cast<double>(a))) FAIL("bf16 " << code);
    if (!same(value_of(code, formats::fp16), static_cast<double>(b))) FAIL("fp16 " << code);
  }
  CHECK(value_of(0x7e, formats::e4m3) == 448);
  CHECK(std::isnan(value_of(0x7f, formats::e4m3)));
  CHECK(std::isinf(value_of(0x7c, formats::e5m2)));
  CHECK(value_of(0x80000001, formats::fp32) == -0x1p-149);
  CHECK(value_of(code_of(3.25, formats::tf32), formats::tf32) == 3.25);
}

TEST_CASE("bits are drawn as sign, exponent and mantissa") {
  CHECK(draw_bits(1, formats::fp16) == "0 01111 0000000000");
  CHECK(draw_bits(-2.5, formats::bf16) == "1 10000000 0100000");
  CHECK(draw_bits(448, formats::e4m3) == "0 1111 110");
  CHECK(draw_bits(0x1p-9, formats::e4m3) == "0 0000 001");
  CHECK(draw_bits(INFINITY, formats::e5m2) == "0 11111 00");
  CHECK(draw_bits(NAN, formats::e4m3) == "0 1111 111");
  CHECK(draw_bits(0, formats::e5m2) == "0 00000 00");
}

TEST_CASE("stochastic rounding is unbiased, and goes to a neighbour only") {
  for (const NumberFormat f : {formats::bf16, formats::e4m3})
    for (const double x : {1.003, -2.7, 0.1, 300.1, 1.0}) {
      const Random random(3, f.name);
      const int n = 40'000;
      const double step = spacing(x, f);
      double sum = 0;
      for (uint64_t i = 0; i < n; ++i) {
        const double rounded = round_stochastically(x, f, random.uniform(i));
        if (!(std::abs(rounded - x) < step)) FAIL(rounded << " is no neighbour of " << x);
        sum += rounded;
      }
      // One draw's deviation is at most step / 2; five of the mean's.
      CHECK_MESSAGE(std::abs(sum / n - x) <= 5 * step / 2 / std::sqrt(n), x);
    }
  CHECK(round_stochastically(1.5, formats::bf16, 0.999) == 1.5);  // what fits stays
  CHECK(std::isinf(round_stochastically(65600, formats::fp16, 0)));
}

TEST_CASE("a sum of ones stops at 2^(M+1), and loses every addition after it") {
  const std::vector<double> ones(5000, 1.0);
  for (const NumberFormat f : {formats::bf16, formats::fp16, formats::e5m2, formats::e4m3}) {
    const RunningSum sum = sum_in_order(ones, f);
    CHECK(sum.value == ones_stop_at(f));
    CHECK(sum.lost == 5000 - static_cast<int64_t>(ones_stop_at(f)));
  }
  CHECK(sum_in_order(ones, formats::fp32).value == 5000);
  CHECK(sum_in_order(ones, formats::fp32).lost == 0);
  CHECK(ones_stop_at(formats::fp32) == 16'777'216);
  CHECK(sum_in_order({}, formats::bf16).value == 0);
  const float stuck = 16'777'216.0f;
  CHECK(stuck + 1.0f == stuck);  // the machine's own floats
}

TEST_CASE("pairwise sums, wide sums and stochastic rounding keep what a narrow loop loses") {
  const Random random(4, "terms");
  std::vector<double> terms(4096);
  double exact = 0, stochastic = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    terms[i] = round_to(random.uniform(i), formats::bf16);
    exact += terms[i];
    stochastic =
        round_stochastically(stochastic + terms[i], formats::bf16, random.uniform(9999 + i));
  }
  const double in_order = sum_in_order(terms, formats::bf16).value;
  CHECK(in_order < 0.3 * exact);
  CHECK(std::abs(sum_pairwise(terms, formats::bf16) / exact - 1) < 0.01);
  CHECK(std::abs(sum_in_order(terms, formats::fp32).value / exact - 1) < 1e-5);
  CHECK(std::abs(stochastic / exact - 1) < 0.1);
  CHECK(sum_pairwise({}, formats::bf16) == 0);
  CHECK(std::abs(sum_compensated(terms, formats::bf16).value / exact - 1) < 0.01);
}

TEST_CASE("a compensated sum: both parts are numbers of the format, and ones are all counted") {
  const std::vector<double> ones(5000, 1.0);
  for (const NumberFormat f : {formats::bf16, formats::fp16}) {
    const CompensatedSum sum = sum_compensated(ones, f);
    CHECK(std::abs(sum.value + sum.missing - 5000) <= spacing(sum.missing, f));
    CHECK(sum.value == round_to(sum.value, f));
    CHECK(sum.missing == round_to(sum.missing, f));
    CHECK(std::abs(sum.missing) <= spacing(sum.value, f));
  }
  CompensatedSum weight{1, 0};
  for (int step = 0; step < 1000; ++step) weight.add(1e-3, formats::bf16);
  CHECK(weight.value == doctest::Approx(2).epsilon(0.01));  // alone it would stay at 1
}

TEST_CASE("dot products: rounded inputs, exact products, rounded sums") {
  const std::vector<double> x = {1.003, 2, -3}, y = {1, 1.003, 0.5};
  CHECK(dot_product(x, y, formats::bf16, formats::fp32) == 1.0 + 2.0 - 1.5);
  CHECK(dot_product(x, y, formats::fp32, formats::fp32) == doctest::Approx(1.509).epsilon(1e-6));
  CHECK(dot_product({}, {}, formats::bf16, formats::fp32) == 0);
  const std::vector<double> ones(1000, 1.0);
  CHECK(dot_product(ones, ones, formats::bf16, formats::bf16) == 256);
  CHECK(dot_product(ones, ones, formats::bf16, formats::fp32) == 1000);
  CHECK(products_are_exact(formats::bf16, formats::fp32));
  CHECK(products_are_exact(formats::fp16, formats::fp32));
  CHECK(products_are_exact(formats::e4m3, formats::fp16));
  CHECK_FALSE(products_are_exact(formats::bf16, formats::bf16));
  CHECK_FALSE(products_are_exact(formats::fp32, formats::fp32));
}

TEST_CASE("integers: range, products that fit, quantisation") {
  CHECK(largest_integer(8) == 127);
  CHECK(largest_integer(32) == 2'147'483'647);
  CHECK(products_that_fit(8, 16) == 1);  // (-128)^2 = 16,384: two of them are 32,768
  CHECK(products_that_fit(8, 32) == 131'071);
  CHECK(quantize(0.5, 0.01, 8) == 50);
  CHECK(quantize(-9, 0.01, 8) == -127);
  CHECK(quantize(2.5, 1, 8) == 2);  // a tie, to even
}

TEST_CASE("amounts of work") {
  CHECK(pf_days(8.64e19) == 1);
  CHECK(training_flops(10, 100) == 6000);
  CHECK(training_seconds(1e15, 10, 1e12, 0.5) == 200);
}
