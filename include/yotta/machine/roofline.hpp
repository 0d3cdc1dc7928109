// The roofline: how fast can this run at most, given what it computes and what it must move?
//
// A chip multiplies at one rate and reads memory at another, both at once. So work takes
// max(FLOPs / peak, bytes / bandwidth). Its intensity, FLOPs per byte, decides which of the two:
//
//     FLOP/s                ridge = peak / bandwidth
//      peak ┤              ╭──────────────────────     compute-bound: more bytes cost nothing
//           │            ╱ :        x matmul
//           │          ╱   :
//           │        ╱     :
//           │  x   ╱  memory-bound: more FLOPs cost nothing
//           │ dot ╱        :
//           └──────────────┴──────────────────────     intensity, FLOPs per byte (logarithmic axes)
//
// Contract: rates are dense, in FLOP/s and bytes/s. Bytes are those that must cross the memory's
// bus, each array once. Cache misses and missing overlap only make it slower: a roof, not a
// prediction.
// Letters: m, n, k as in core/matmul.hpp.
// References: Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model"
// (CACM 2009); Kung, "Why Systolic Architectures?" (1982); Jouppi et al., the TPU paper (ISCA
// 2017), section 2.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "yotta/core/matrix_view.hpp"
#include "yotta/machine/chip.hpp"

namespace yotta {

struct Roofline {
  double peak = 0;       // FLOP/s
  double bandwidth = 0;  // bytes/s

  // The intensity at which both limits meet.
  constexpr double ridge() const { return peak / bandwidth; }
  // FLOP/s that work of this intensity can reach.
  constexpr double attainable(double intensity) const {
    return std::min(peak, intensity * bandwidth);
  }
  constexpr double seconds(double flops, double bytes) const {
    return std::max(flops / peak, bytes / bandwidth);
  }
};

// The roofline of a chip, for products of this type. Errors: the chip has no peak for it.
inline Roofline roofline_of(const Chip& chip, DType dtype = DType::bf16,
                            Where where = Where::current()) {
  return {peak(chip, dtype, where), chip.bandwidth};
}

// ---- Workloads ----
struct Workload {
  double flops = 0, bytes = 0;
  constexpr double intensity() const { return flops / bytes; }
};

// x . y of two (k): two numbers in for one multiplication and one addition. About 1/2 in bf16.
constexpr Workload dot_workload(double k, double bytes_per_element = 2) {
  return {2 * k - 1, bytes_per_element * (2 * k + 1)};
}

// y (m) = A (m, k) x (k): each number of A is used once. Never more than 1 in bf16.
constexpr Workload matvec_workload(double m, double k, double bytes_per_element = 2) {
  return {2 * m * k, bytes_per_element * (m * k + k + m)};
}

// C (m, n) = A (m, k) B (k, n): m n k / (m k + k n + m n) in bf16, so n / 3 for squares.
constexpr Workload matmul_workload(int64_t m, int64_t n, int64_t k, int64_t bytes_per_element = 2) {
  return {matmul_flops(m, n, k), matmul_bytes(m, n, k, bytes_per_element)};
}

// `ops` operations on each of n numbers, read once and written once ("fused": all in one kernel).
constexpr Workload elementwise_workload(double n, double ops, double bytes_per_element = 4) {
  return {ops * n, 2 * bytes_per_element * n};
}

// ---- The minimum batch ---- Y (m, n) = X (m, k) W (k, n): the smallest m, in tokens, that is
// compute-bound. Each weight is read once and takes part in 2 m FLOPs, so for wide layers m is
// about the ridge (bf16: 2 FLOPs per token, 2 bytes per weight). X and Y move too:
//     2 m k n / (w k n + a m (k + n)) >= ridge,    w, a: bytes of a weight and of an activation
// Infinite if no batch suffices because the layer is too narrow.
constexpr double minimum_batch(double ridge, double k, double n, double weight_bytes = 2,
                               double activation_bytes = 2) {
  const double gained = 2 * k * n - ridge * activation_bytes * (k + n);
  return gained > 0 ? ridge * weight_bytes * k * n / gained
                    : std::numeric_limits<double>::infinity();
}
// The limit for an infinitely wide layer in bf16.
constexpr double minimum_batch(double ridge) { return ridge; }

// ---- What the peak is made of ---- FLOP/s of `units` units, each of which does so many FLOPs per
// clock (a fused multiply-add is two).
constexpr double peak_of(double units, double flops_per_clock, double hertz) {
  return units * flops_per_clock * hertz;
}

// FLOPs of one SM of an H100 per clock: 128 FMA lanes in fp32; or four tensor cores in bf16, each
// with 512 multiply-adds, as in a (16, 4) by (4, 8) product.
inline constexpr double sm_fma_flops_per_clock = 128 * 2;
inline constexpr double sm_tensor_flops_per_clock = 4 * matmul_flops(16, 8, 4);

// Bytes of registers that one warp instruction reads and writes, per FLOP. FMA: three in, one out,
// for 64. mma.m16n8k16: A, B and C in, D out (A and B in bf16, the rest f32), for 4096.
inline constexpr double fma_register_bytes_per_flop = 4 * 32 * 4.0 / 64;
inline constexpr double mma_register_bytes_per_flop =
    (2.0 * (16 * 16 + 16 * 8) + 4.0 * 2 * 16 * 8) / matmul_flops(16, 8, 16);

}  // namespace yotta
