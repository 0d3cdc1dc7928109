// Toggle power: why a matrix product of zeros is faster than one of random numbers.
//
// A matmul does the same FLOPs on whatever it is given. But a transistor takes energy when it
// switches, and a wire that carries the bit it carried before switches nothing. So the data set the
// power; and a chip at its power limit lowers its clock:
//
//     a  0 01111111 0000000     a multiplier sees one pair of operands after the other.
//     a' 1 01111110 0100000     Bits that differ toggle: 3 here
//
//     bits that toggle ──► watts ──► clock ──► FLOP/s
//       counted, exact      a model: its constants are fitted to published figures
//
// This is a MODEL. What is counted is exact: operands, products and sums of one multiplier that
// takes k in order. What a real tensor core does with its operands, and in which order, is not
// public. One published figure was not used in the fit: the test compares with it.
//
// Power at full clock is idle + fixed + energy x toggles. Voltage falls with the clock, so what is
// not idle goes with clock^3 (P = C V^2 f, V in proportion to f); a chip above its limit takes the
// clock at which it just keeps it.
//
// Letters: m, n, k as in core/matmul.hpp.
// References: He, "Strangely, Matrix Multiplications on GPUs Run Faster When Given 'Predictable'
// Data!" (2024): an A100, bf16, 8192 cubed: zeros 295, uniform 268, normal 257 TFLOP/s, idle 88 W.
// Gregersen, Patel, Choukse, "Input-Dependent Power Usage in GPUs" (2024): data change the power of
// a matmul by almost 40%. NVIDIA A100 datasheet, SXM: 400 W.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "yotta/core/dtype.hpp"
#include "yotta/core/random.hpp"

namespace yotta {

// ---- The data ----
enum class DataKind : uint8_t { zeros, sparse, sorted, uniform, normal };
inline constexpr std::array all_data_kinds = {DataKind::zeros, DataKind::sparse, DataKind::sorted,
                                              DataKind::uniform, DataKind::normal};
constexpr const char* name(DataKind kind) {
  constexpr const char* names[] = {"zeros", "sparse", "sorted", "uniform", "normal"};
  return names[static_cast<int>(kind)];
}

// So many numbers: uniform in [0, 1); normal with deviation 1; sparse: normal, half of them 0;
// sorted: normal, the smallest first.
inline std::vector<bfloat16> numbers_of(DataKind kind, size_t count, std::string_view stream) {
  const Random random(6, stream), coin(7, stream);
  std::vector<bfloat16> x(count);  // zeros
  for (size_t i = 0; i < count && kind != DataKind::zeros; ++i) {
    if (kind == DataKind::sparse && coin.below(i, 2) == 0) continue;
    x[i] = bfloat16(kind == DataKind::uniform ? random.uniform(i) : random.normal(i));
  }
  const auto less = [](bfloat16 a, bfloat16 b) {
    return static_cast<float>(a) < static_cast<float>(b);
  };
  if (kind == DataKind::sorted) std::sort(x.begin(), x.end(), less);
  return x;
}

// ---- The count ----
constexpr int toggled(float before, float after) {
  return std::popcount(std::bit_cast<uint32_t>(before) ^ std::bit_cast<uint32_t>(after));
}

// Bits that toggle, on average over all multiply-adds of a product.
struct Toggles {
  double operands = 0, products = 0, sums = 0;
  constexpr double all() const { return operands + products + sums; }
};

// Of C (m, n) = A (m, k) B (k, n), in bf16 with sums in f32, as a multiplier an element of C sees
// it: k in order, all its wires 0 before the first.
inline Toggles count_toggles(std::span<const bfloat16> A, std::span<const bfloat16> B, int64_t m,
                             int64_t n, int64_t k) {
  Toggles toggles;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float a = 0, b = 0, product = 0, sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        const auto next_a = static_cast<float>(A[static_cast<size_t>(i * k + l)]);
        const auto next_b = static_cast<float>(B[static_cast<size_t>(l * n + j)]);
        toggles.operands += toggled(a, next_a) + toggled(b, next_b);
        toggles.products += toggled(product, next_a * next_b);
        toggles.sums += toggled(sum, sum + next_a * next_b);
        a = next_a, b = next_b, product = a * b, sum += product;
      }
    }
  const double steps = static_cast<double>(m * n * k);
  return {toggles.operands / steps, toggles.products / steps, toggles.sums / steps};
}

// The same of square matrices of one kind of data.
inline Toggles toggles_of(DataKind kind, int64_t size) {
  const auto count = static_cast<size_t>(size * size);
  return count_toggles(numbers_of(kind, count, "a"), numbers_of(kind, count, "b"), size, size,
                       size);
}

// ---- The model ----
struct PowerModel {
  double limit = 400, idle = 88;        // watts: published
  double rate = 295e12;                 // FLOP/s at full clock: He's figure for zeros
  double fixed = 248;                   // watts at full clock without a toggle: fitted so that
                                        // zeros take 40% less than normal numbers would
  double joules_per_toggle = 48.2e-15;  // fitted to He's 257 TFLOP/s for normal numbers

  // Watts that the data ask for at full clock, which the chip may not have.
  constexpr double demand(double toggles) const {
    return idle + fixed + joules_per_toggle * toggles * rate / 2;  // a multiply-add is two FLOPs
  }
  // The share of the full clock at which the limit is kept.
  double clock(double toggles) const {
    return std::min(1.0, std::cbrt((limit - idle) / (demand(toggles) - idle)));
  }
  double flops(double toggles) const { return rate * clock(toggles); }
  double watts(double toggles) const { return std::min(limit, demand(toggles)); }
};

}  // namespace yotta
