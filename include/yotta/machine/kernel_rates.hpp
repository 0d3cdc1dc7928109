// Kernel rates: how near its chip's peaks an operation comes, by what it does and how large it is.
//
//     computing  FLOPs / (share of the peak)          a large product reaches 75 to 95%
//     moving     bytes / (share of the bandwidth)     85% or so
//
//     roofline   max(computing, moving)               each hides all of the other
//     a kernel   max + (1 - overlap) min              it loads before it multiplies, stores after
//
// So a product's efficiency grows with its size, since FLOPs grow faster than bytes. With overlap 0
// a product of m x k by k x n reaches the share
//
//     s h / (h + corner)     h = 1 / (1/m + 1/n + 1/k)     corner: FLOPs per byte of the roofline's
//
// and flash attention over T tokens the share s T / (T + 2 corner) or so.
//
// What multiplies nothing (norms, activations, sums, the optimizer) is bound by memory. Its passes
// are the bytes that software moves for it, over those of fused kernels, which read each input and
// write each output once:
//
//     compiled, or fused by hand     1
//     eager, operation by operation  2.75: a gate's silu is written and read again before the
//                                    product, a norm's square before its mean; so that Llama 3.1
//                                    8B is 16% slower than with torch.compile, as on 8 and on 128
//                                    H100 (torchtitan, benchmarks of December 2024, tables 1 and 3)
//
// Products in fp8, as mixed-precision recipes have them: weights, activations and gradients stay in
// bf16, and each operand of a product with weights is read in bf16, written in fp8, and read again
// by the two products that it is in: 5 bytes in place of 4. All such products, the output matrix
// too; attention is not among them.
#pragma once

#include <algorithm>
#include <string_view>

#include "yotta/core/ledger.hpp"
#include "yotta/machine/chip.hpp"

namespace yotta {

inline constexpr double compiled_passes = 1, eager_passes = 2.75;

struct Efficiency {
  double matmul = 1, attention = 1, attention_backward = 1;  // shares of the peak
  double memory = 1;                                         // share of the bandwidth
  double overlap = 1;  // of the shorter of computing and moving, what hides behind the longer
  double passes = compiled_passes;  // of what multiplies nothing, over its numbers
  // Of a collective's time beside computing, what kernels lose: it takes multiprocessors and
  // bandwidth from them. Formulas only: the clock lets both run at full speed.
  double interference = 0;
  bool fp8 = false;  // products with weights, on chips that have it

  constexpr bool operator==(const Efficiency&) const = default;
};

constexpr bool is_flash(std::string_view op) {
  return op.starts_with("flash_attention") || op.starts_with("flex_attention");
}
constexpr bool is_product(std::string_view op) {
  return is_flash(op) || op.find("linear") != op.npos;
}
// The share of the peak that an operation's FLOPs can reach, by its name.
constexpr double reached(const Efficiency& efficiency, std::string_view op) {
  if (!is_flash(op)) return efficiency.matmul;
  return op.ends_with("backward") ? efficiency.attention_backward : efficiency.attention;
}

// Whether an operation is computed in fp8: a product with weights, from numbers of 2 bytes.
constexpr bool in_fp8(const Chip& chip, const Efficiency& e, const OpCost& cost) {
  return e.fp8 && chip.fp8 > 0 && cost.flops > 0 && bytes_of(cost.dtype) == 2 &&
         std::string_view(cost.name).find("linear") != std::string_view::npos;
}

// Seconds of an operation, its launch included.
inline double kernel_seconds(const Chip& chip, const Efficiency& e, const OpCost& cost) {
  const bool narrow = in_fp8(chip, e, cost);
  const double most = narrow ? chip.fp8 : cost.flops > 0 ? peak(chip, cost.dtype) : 1;
  const double computing = cost.flops / most / reached(e, cost.name);
  const double passes = is_product(cost.name) ? 1 : e.passes;
  const double moving = passes * ((narrow ? 1.25 : 1) * cost.bytes_read + cost.bytes_written) /
                        (chip.bandwidth * e.memory);
  return std::max(computing, moving) + (1 - e.overlap) * std::min(computing, moving) +
         chip.launch_overhead;
}

// A chip and how near its kernels come to its peaks.
struct Kernels {
  Chip chip = {};
  Efficiency efficiency = {};

  double seconds(const OpCost& cost) const { return kernel_seconds(chip, efficiency, cost); }
};

}  // namespace yotta
