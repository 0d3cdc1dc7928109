// Numbers: how many bits a number gets, what it loses by that, and how large the numbers of
// training are.
//
// A float is a ruler whose marks lie at most 2^-M of the number apart: E exponent bits say how far
// the ruler reaches, M mantissa bits how fine it is. Everything between two marks is rounded to one
// of them.
//
//          sign  exponent  mantissa      1 ──┬──┬──┬──┬──┬──┬──┬── 2 ─────┬─────┬─────┬───── 4
//     fp32   0   10000000  10010010000111111011011         from 1 to 2: 2^M marks,
//     tf32   0   10000000  1001001000                      from 2 to 4: as many, twice as far apart
//     bf16   0   10000000  1001001                         x = +-2^(exponent - bias) * 1.mantissa
//     fp16   0     10000   1001001000
//     e5m2   0     10000   10                              the same number, pi, in six formats
//     e4m3   0      1000   101
//
// Cost: b bits move b/8 bytes, and half the bits are twice the rate on most chips. The price: an
// error of up to 2^-(M+1) of the number at each rounding, and sums that stop growing once a term is
// no more than half the distance between two marks. So matmuls multiply in 16 or 8 bits and add in
// 32: the product of two bf16 is exact there.
//
// dtype.hpp does the same rounding on the bits of an f32, as hardware does; here it is arithmetic,
// for any E and M, and the tests hold one against the other.
// Letters: E exponent bits, M mantissa bits, u a uniform random number in [0, 1).
// References: IEEE 754-2019; OCP 8-bit Floating Point Specification 1.0; Goldberg, "What Every
// Computer Scientist Should Know About Floating-Point Arithmetic" (1991), theorem 8 (Kahan's sum);
// Gupta et al., "Deep Learning with Limited Numerical Precision" (2015), section 3 (stochastic
// rounding).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace yotta {

struct NumberFormat {
  const char* name;
  int exponent, mantissa;    // bits: E and M; one more is the sign
  bool has_infinity = true;  // false: the largest exponent holds numbers too, and one NaN

  constexpr int bits() const { return 1 + exponent + mantissa; }
  constexpr int bias() const { return (1 << (exponent - 1)) - 1; }
};

namespace formats {
inline constexpr NumberFormat fp32{"fp32", 8, 23}, tf32{"tf32", 8, 10}, fp16{"fp16", 5, 10},
    bf16{"bf16", 8, 7}, e5m2{"fp8 e5m2", 5, 2}, e4m3{"fp8 e4m3", 4, 3, false};
inline constexpr NumberFormat all[] = {fp32, tf32, bf16, fp16, e5m2, e4m3};
}  // namespace formats

// 2^n.
inline double power_of_two(int n) { return std::ldexp(1.0, n); }

// ---- Range and spacing ----
inline double smallest_normal(NumberFormat f) { return power_of_two(1 - f.bias()); }
inline double smallest(NumberFormat f) { return power_of_two(1 - f.bias() - f.mantissa); }

// All mantissa bits one, except in e4m3, where that code of the largest exponent is NaN.
inline double largest(NumberFormat f) {
  const double ulp = power_of_two(-f.mantissa);
  return f.has_infinity ? (2 - ulp) * power_of_two(f.bias())
                        : (2 - 2 * ulp) * power_of_two(f.bias() + 1);
}

// How far apart the marks are at a finite x. Below the smallest normal number they come no closer.
inline double spacing(double x, NumberFormat f) {
  int exponent = 1 - f.bias();
  if (std::abs(x) >= smallest_normal(f)) exponent = std::ilogb(x);
  return power_of_two(exponent - f.mantissa);
}

// What a value beyond the largest becomes.
inline double beyond_largest(double x, NumberFormat f) {
  return f.has_infinity ? std::copysign(std::numeric_limits<double>::infinity(), x)
                        : std::numeric_limits<double>::quiet_NaN();
}

// ---- Rounding ----
// x to the nearest number of the format, of two equally near ones to the even; too large:
// beyond_largest().
inline double round_to(double x, NumberFormat f) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return beyond_largest(x, f);
  const double step = spacing(x, f);
  const double rounded = std::nearbyint(x / step) * step;  // nearbyint: ties to even
  return std::abs(rounded) > largest(f) ? beyond_largest(x, f) : rounded;
}

// x to one of its two neighbours by chance: up with probability (x - lower) / spacing. So the mean
// of many roundings is x.
inline double round_stochastically(double x, NumberFormat f, double u) {
  const double step = spacing(x, f);
  const double rounded = std::floor(x / step + u) * step;
  return std::abs(rounded) > largest(f) ? beyond_largest(x, f) : rounded;
}

// ---- Bits ----
// The code of x, rounded to the format: sign, exponent, mantissa. The leading 1 of a normal number
// is not stored: it is mark 2^M, which carries into the exponent's field and is taken off there.
inline uint32_t code_of(double x, NumberFormat f) {
  const double value = round_to(x, f), size = std::abs(value);
  uint32_t code = 0;
  const uint32_t top = ((1u << f.exponent) - 1) << f.mantissa;  // infinity, where there is one
  if (std::isnan(value)) {
    code = top | ((1u << f.mantissa) - 1);
  } else if (std::isinf(value)) {
    code = top;
  } else {
    const int field = size < smallest_normal(f) ? 1 : std::ilogb(size) + f.bias();
    const auto marks = static_cast<uint32_t>(size / spacing(size, f));
    code = (static_cast<uint32_t>(field - 1) << f.mantissa) + marks;
  }
  if (std::signbit(value)) code |= 1u << (f.bits() - 1);
  return code;
}

// The number that a code stands for.
inline double value_of(uint32_t code, NumberFormat f) {
  const uint32_t ones = (1u << f.exponent) - 1, last = (1u << f.mantissa) - 1;
  const uint32_t field = code >> f.mantissa & ones, mantissa = code & last;
  double value = field == 0 ? mantissa * smallest(f)
                            : (1 + mantissa * power_of_two(-f.mantissa)) *
                                  power_of_two(static_cast<int>(field) - f.bias());
  const bool none = field == ones && (f.has_infinity ? mantissa != 0 : mantissa == last);
  if (field == ones && f.has_infinity) value = std::numeric_limits<double>::infinity();
  if (none) value = std::numeric_limits<double>::quiet_NaN();
  return (code >> (f.bits() - 1) & 1) != 0 ? -value : value;
}

// "0 10000000 1001001": the code of x with its three parts apart.
inline std::string draw_bits(double x, NumberFormat f) {
  std::string text;
  const uint32_t code = code_of(x, f);
  for (int bit = f.bits() - 1; bit >= 0; --bit) {
    text += (code >> bit & 1) != 0 ? '1' : '0';
    if (bit == f.bits() - 1 || bit == f.mantissa) text += ' ';
  }
  return text;
}

// ---- Sums ----
struct RunningSum {
  double value = 0;
  int64_t lost = 0;  // additions of something that left the sum as it was

  void add(double term, NumberFormat f) {
    const double next = round_to(value + term, f);
    lost += next == value && term != 0;
    value = next;
  }
};

// Left to right, rounding after each addition, as a loop with an accumulator of that format does.
inline RunningSum sum_in_order(std::span<const double> terms, NumberFormat f) {
  RunningSum sum;
  for (const double term : terms) sum.add(term, f);
  return sum;
}

// Halves, their halves, ...: every addition is of two sums alike in size, so the error grows with
// log n.
inline double sum_pairwise(std::span<const double> terms, NumberFormat f) {
  if (terms.size() <= 1) return terms.empty() ? 0 : round_to(terms[0], f);
  const size_t half = terms.size() / 2;
  return round_to(sum_pairwise(terms.first(half), f) + sum_pairwise(terms.subspan(half), f), f);
}

// A sum, and beside it what rounding has taken from it so far; both are numbers of the format.
// (Kahan 1965.)
struct CompensatedSum {
  double value = 0, missing = 0;

  void add(double term, NumberFormat f) {
    const double wanted = round_to(term + missing, f);
    const double next = round_to(value + wanted, f);
    const double arrived = round_to(next - value, f);
    missing = round_to(wanted - arrived, f);
    value = next;
  }
};

inline CompensatedSum sum_compensated(std::span<const double> terms, NumberFormat f) {
  CompensatedSum sum;
  for (const double term : terms) sum.add(term, f);
  return sum;
}

// Adding 1 again and again stops here: the next mark is 2 away, and a tie goes to the even one.
inline double ones_stop_at(NumberFormat f) { return power_of_two(f.mantissa + 1); }

// x . y, one product after the other: x and y are rounded to `in`, products are exact, and the sum
// is rounded to `sums` after each. (A tensor core adds several products first: lesson 04.)
// x, y: (k)
inline double dot_product(std::span<const double> x, std::span<const double> y, NumberFormat in,
                          NumberFormat sums) {
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i)
    total = round_to(total + round_to(x[i], in) * round_to(y[i], in), sums);
  return total;
}

// Whether any product of two numbers of `in` has few enough bits to be exact in `sums` (range
// aside).
constexpr bool products_are_exact(NumberFormat in, NumberFormat sums) {
  return 2 * (in.mantissa + 1) <= sums.mantissa + 1;
}

// ---- Integers ----
// A signed integer of b bits has no rounding and no overflow to infinity: it has -2^(b-1) to
// 2^(b-1)-1.
constexpr int64_t largest_integer(int bits) { return (int64_t{1} << (bits - 1)) - 1; }

// How many products of two b-bit integers are sure to fit into a sum of so many bits.
constexpr int64_t products_that_fit(int bits, int sum_bits) {
  return largest_integer(sum_bits) / (int64_t{1} << (2 * (bits - 1)));
}

// x in whole steps of `scale`; what does not fit is clamped, symmetrically.
inline int64_t quantize(double x, double scale, int bits) {
  const auto limit = static_cast<double>(largest_integer(bits));
  return static_cast<int64_t>(std::clamp(std::nearbyint(x / scale), -limit, limit));
}

// ---- Large numbers ----
// FLOP: one operation. FLOP/s: a rate. PF-day: 10^15 FLOP/s for a day, again an amount of work.
constexpr double pf_day = 1e15 * 86'400;  // FLOP
constexpr double pf_days(double flops) { return flops / pf_day; }

// Training costs 6 FLOP per parameter and token: 2 forward (a multiply and an add), 4 backward,
// which has two matmuls for each one. Attention's own part comes on top: step_flops() in
// nn/transformer_config.hpp.
constexpr double training_flops(double parameters, double tokens) {
  return 6 * parameters * tokens;
}

// Seconds of work on `chips`, each at `share` of its peak rate in FLOP/s.
constexpr double training_seconds(double flops, double chips, double peak, double share) {
  return flops / (chips * peak * share);
}

}  // namespace yotta
