// The graded cases of exercise 01.
#include <vector>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;
using exercise::expect;
using exercise::solution;

namespace {

// A number with as many digits as it needs.
std::string text(double x) { return fmt::format("{:.17g}", x); }

void expect_value(double got, double expected, const std::string& what,
                  const std::string& advice = "") {
  const bool equal = got == expected || (std::isnan(got) && std::isnan(expected));
  expect(equal, fmt::format("{}: expected {}, got {}{}", what, text(expected), text(got),
                            advice.empty() ? "" : "\n    " + advice));
}

void expect_rounded(double x, NumberFormat f, double expected, const std::string& advice = "") {
  expect_value(solution.round_to(x, f), expected, fmt::format("{} in {}", text(x), f.name), advice);
}

// Some numbers of a format's normal range, none of them one of its marks.
std::vector<double> samples(NumberFormat f) {
  std::vector<double> all;
  const Random random(exercise::seed(1), f.name);
  for (uint64_t i = 0; i < 200; ++i)
    all.push_back(random.normal(i) * power_of_two(static_cast<int>(i % 12) - 5));
  return all;
}

}  // namespace

TEST_CASE("01.1: the distance between neighbours, down to zero") {
  for (const NumberFormat f : formats::all) {
    const auto at = [&](double x, double expected, const char* advice) {
      expect_value(solution.spacing(x, f), expected,
                   fmt::format("the distance between neighbours of {} in {}", x, f.name), advice);
    };
    const double one = power_of_two(-f.mantissa);
    at(1, one, "from 1 to 2 there are 2^M marks");
    at(1.9, one, "the distance is the same from 1 up to 2");
    at(2, 2 * one, "from 2 to 4 there are as many marks as from 1 to 2");
    at(-3, 2 * one, "the sign makes no difference: take the size of x");
    at(0.75, one / 2, "from 1/2 to 1 the marks are closer");
    for (const double x : {smallest_normal(f), smallest_normal(f) / 3, smallest(f), 0.0})
      at(x, smallest(f),
         "below the smallest normal number, 2^(1 - bias), the marks come no closer: they are "
         "subnormal "
         "numbers");
  }
}

TEST_CASE("01.2: every number goes to its nearest neighbour") {
  for (const NumberFormat f : formats::all) {
    int towards_zero = 0, wrong = 0;
    double example = 0;
    for (const double x : samples(f)) {
      const double got = solution.round_to(x, f), expected = round_to(x, f);
      if (got == expected) continue;
      if (wrong++ == 0) example = x;
      towards_zero += std::abs(got) < std::abs(x);
    }
    if (wrong == 0) continue;
    expect_rounded(example, f, round_to(example, f),
                   towards_zero == wrong
                       ? "all mistakes are towards zero: are digits cut off instead of rounded?"
                       : fmt::format("{} of 200 numbers are wrong", wrong));
  }
  CHECK(true);
}

TEST_CASE("01.2: ties go to the even neighbour") {
  const double ulp = 0x1p-7;  // of bf16, at 1
  expect_rounded(1 + ulp / 2, formats::bf16, 1,
                 fmt::format("it lies halfway between 1 and {}; the even one is 1", 1 + ulp));
  expect_rounded(1 + 3 * ulp / 2, formats::bf16, 1 + 2 * ulp,
                 "it lies halfway; the even neighbour is the upper one");
  expect_rounded(-(1 + ulp / 2), formats::bf16, -1, "it lies halfway; the even one is -1");
  expect_rounded(17, formats::e4m3, 16, "it lies halfway between 16 and 18; 16 is 8 steps, even");
}

TEST_CASE("01.2: what is too large is no number any more") {
  expect_rounded(65504, formats::fp16, 65504, "the largest number is still a number");
  expect_rounded(65520, formats::fp16, INFINITY,
                 "it would be rounded to 65536, which fp16 has not: beyond_largest(x, f)");
  expect_rounded(-1e6, formats::fp16, -INFINITY, "");
  expect_rounded(464, formats::e4m3, 448, "a tie, to the even neighbour: that is the largest");
  expect_rounded(500, formats::e4m3, NAN, "e4m3 has no infinity: beyond_largest(x, f)");
}

TEST_CASE("01.3: a number goes to one of its two neighbours") {
  for (const NumberFormat f : {formats::bf16, formats::e4m3})
    for (const double x : {1.003, -2.7, 100.1})
      for (const double u : {0.0, 0.3, 0.6, 0.999}) {
        const double step = spacing(x, f), lower = std::floor(x / step) * step;
        const double got = solution.round_stochastically(x, f, u);
        expect(got == lower || got == lower + step,
               fmt::format("{} in {} is {}, which is not one of its neighbours {} and {}", x,
                           f.name, text(got), text(lower), text(lower + step)));
      }
  for (const double u : {0.0, 0.5, 0.999})
    expect_value(solution.round_stochastically(1.5, formats::bf16, u), 1.5,
                 "1.5 in bf16, where it fits");
}

TEST_CASE("01.3: the average of many draws is the number itself") {
  for (const NumberFormat f : {formats::e4m3, formats::bf16})
    for (const double x : {100.5, 1.003, -2.71}) {
      const int n = 20'000;
      const Random random(exercise::seed(3), "draws");
      double sum = 0;
      for (uint64_t i = 0; i < n; ++i)
        sum += solution.round_stochastically(x, f, random.uniform(i));
      const double off = std::abs(sum / n - x) / spacing(x, f);
      expect(
          off <= 5 * 0.5 / std::sqrt(n),
          fmt::format("{} in {}: over {} draws the average is off by {:.2f} of a step\n    count x "
                      "in steps of the ruler, then add u to that count and cut off",
                      x, f.name, n, off));
    }
}

TEST_CASE("01.3: what is too large is no number any more") {
  for (const double u : {0.0, 0.999}) {
    expect_value(solution.round_stochastically(65600, formats::fp16, u), INFINITY, "65600 in fp16",
                 "also by chance nothing lies beyond the largest number: beyond_largest(x, f)");
    expect_value(solution.round_stochastically(-1e6, formats::e4m3, u), NAN, "-1e6 in fp8 e4m3",
                 "e4m3 has no infinity: beyond_largest(x, f)");
  }
}

namespace {

std::string in_bits(uint32_t code, NumberFormat f) {
  std::string text;
  for (int bit = f.bits() - 1; bit >= 0; --bit) {
    text += (code >> bit & 1) != 0 ? '1' : '0';
    if (bit == f.bits() - 1 || bit == f.mantissa) text += ' ';
  }
  return text;
}

void expect_code(double x, NumberFormat f, const std::string& advice) {
  const uint32_t got = solution.code_of(x, f), expected = code_of(x, f);
  std::string why = advice;
  if (got == expected + (1u << f.mantissa))
    why =
        "the exponent is one too large: the leading 1 is not stored. It is mark 2^M, which carries "
        "into the exponent's field";
  if ((got ^ expected) == 1u << (f.bits() - 1)) {
    why = "the sign is the first bit";
    if (x == 0) why = "-0 has a sign bit too: value < 0 does not see it, std::signbit does";
  }
  expect(got == expected, fmt::format("{} in {}: expected {}, got {}\n    {}", text(x), f.name,
                                      in_bits(expected, f), in_bits(got, f), why));
}

}  // namespace

TEST_CASE("01.4: sign, exponent and mantissa of normal numbers") {
  for (const NumberFormat f : formats::all) {
    for (const double x : {1.0, 1.5, 3.14159265358979, -2.5, largest(f), smallest_normal(f)})
      expect_code(x, f, "the stored exponent is e + bias, for 2^e <= |x|");
    for (const double x : samples(f)) expect_code(x, f, "x is rounded to the format first");
  }
}

TEST_CASE("01.4: zero, subnormal numbers, infinity and NaN") {
  for (const NumberFormat f : formats::all) {
    for (const double x : {smallest(f), -3 * smallest(f), smallest_normal(f) - smallest(f)})
      expect_code(x, f, "a subnormal number has the exponent field 0, and no leading 1");
    expect_code(0, f, "all bits of 0 are 0");
    expect_code(-0.0, f, "");
    const char* top =
        "all bits of the exponent's field are 1; the mantissa is 0 for infinity, and "
        "all ones for NaN";
    expect_code(-INFINITY, f, top);
    const uint32_t nan = solution.code_of(NAN, f) & ~(1u << (f.bits() - 1));  // of either sign
    expect(nan == (code_of(NAN, f) & ~(1u << (f.bits() - 1))),
           fmt::format("NaN in {}: got {}\n    {}", f.name, in_bits(nan, f), top));
  }
}

namespace {

void expect_number(uint32_t code, NumberFormat f) {
  const double got = solution.value_of(code, f), expected = value_of(code, f);
  const uint32_t field = code >> f.mantissa & ((1u << f.exponent) - 1);
  const uint32_t sign = code >> (f.bits() - 1) << (f.bits() - 1);
  const bool right_without = sign != 0 && solution.value_of(code - sign, f) == -expected;
  std::string why = "the leading 1 is not stored: add it";
  if (right_without)
    why = "the sign bit stands in front of the exponent: mask it off, and let it change the sign";
  else if (field == 0)
    why = "an exponent field of 0 means a subnormal number: no leading 1, and steps of smallest(f)";
  else if (!std::isfinite(got) && std::isfinite(expected))
    why = "e4m3 has no infinity, and one NaN: the code whose bits are all ones";
  expect_value(got, expected, fmt::format("{} in {}", in_bits(code, f), f.name), why);
}

}  // namespace

TEST_CASE("01.5: every code of the 8-bit formats, and back") {
  for (const NumberFormat f : {formats::e5m2, formats::e4m3})
    for (uint32_t code = 0; code < 256; ++code) expect_number(code, f);
}

TEST_CASE("01.5: codes of the wider formats") {
  for (const NumberFormat f : {formats::fp32, formats::tf32, formats::bf16, formats::fp16}) {
    for (const double x : samples(f)) expect_number(code_of(x, f), f);
    for (const double x : {0.0, smallest(f), largest(f), double{INFINITY}, double{NAN}})
      expect_number(code_of(x, f), f);
  }
}

namespace {

// The sum and what is missing, and what a plain loop would say.
void expect_sum(const std::vector<double>& terms, NumberFormat f, const std::string& what) {
  double exact = 0;
  for (const double term : terms) exact += term;
  const auto [sum, missing] = solution.sum_compensated(terms, f);
  const double plain = sum_in_order(terms, f).value;
  std::string why =
      ": compare what arrived with what was wanted, the term and what was missing before it";
  if (sum == plain && missing == 0)
    why =
        ", the same as a plain sum: what rounding takes from the sum is to be kept, and added to "
        "the next term";
  expect(std::abs(sum + missing - exact) <= spacing(exact, f) / 2,
         fmt::format("{} in {}: the sum is {} and {} is missing, expected {} in all{}", what,
                     f.name, sum, missing, exact, why));
}

std::vector<double> rounded_terms(size_t count, NumberFormat f) {
  std::vector<double> terms;
  const Random random(exercise::seed(5), "terms");
  for (size_t i = 0; i < count; ++i) terms.push_back(round_to(random.uniform(i), f));
  return terms;
}

}  // namespace

TEST_CASE("01.6: ones and small terms are all counted") {
  const auto [sum, missing] = solution.sum_compensated(std::vector<double>{256, 1}, formats::bf16);
  expect(
      sum == 256 && missing != -1,
      fmt::format("256 and 1 in bf16: the sum is {} and {} is missing, expected 256 and 1: is the "
                  "sign of what is missing right? It is what was wanted less what arrived",
                  sum, missing));
  for (const NumberFormat f : {formats::bf16, formats::fp16})
    expect_sum(std::vector<double>(4 * static_cast<size_t>(ones_stop_at(f)), 1.0), f, "ones");
  std::vector<double> updates(1001, round_to(1e-3, formats::bf16));
  updates[0] = 1;
  expect_sum(updates, formats::bf16, "a weight of 1 and 1000 updates of 0.001");
  expect_sum(rounded_terms(4096, formats::bf16), formats::bf16, "4096 random terms");
}

TEST_CASE("01.6: the sum and what is missing are numbers of the format") {
  const std::vector<double> terms = rounded_terms(64, formats::fp32);
  for (size_t count = 1; count <= terms.size(); ++count) {
    const NumberFormat f = formats::bf16;
    const auto [sum, missing] = solution.sum_compensated({terms.data(), count}, f);
    const std::string what = fmt::format("after {} terms", count);
    expect(round_to(sum, f) == sum,
           fmt::format("{} the sum is {}, no number of {}", what, text(sum), f.name));
    expect(
        round_to(missing, f) == missing,
        fmt::format("{} what is missing is {}, no number of {}: round it, there is nothing wider "
                    "to keep it in",
                    what, text(missing), f.name));
  }
}

TEST_CASE("01.7: inputs are rounded once, the sum in its own format") {
  const std::vector<double> ones(1000, 1.0);
  const double wide = solution.dot_product(ones, ones, formats::bf16, formats::fp32);
  expect(wide == 1000,
         fmt::format("1000 products of 1 and 1 add up to {}{}", wide,
                     wide == 256 ? ": the sum is kept in bf16, the format of the inputs" : ""));
  const double narrow = solution.dot_product(ones, ones, formats::bf16, formats::bf16);
  expect(narrow == 256,
         fmt::format("with sums in bf16 1000 products of 1 and 1 add up to {}, expected 256: round "
                     "the sum each time it grows",
                     narrow));
  const std::vector<double> x = {1.003, 2, -3}, y = {1, 1.003, 0.5};
  const double rounded = solution.dot_product(x, y, formats::bf16, formats::fp32);
  expect(std::abs(rounded - 1.509) > 1e-3,
         "the inputs were not rounded to bf16: 1.003 is 1 there, and the product of it shows");
  expect_value(rounded, 1.5, "(1.003, 2, -3) . (1, 1.003, 0.5), inputs in bf16, sums in fp32");
  expect_value(solution.dot_product({}, {}, formats::bf16, formats::fp32), 0, "nothing . nothing");
}
