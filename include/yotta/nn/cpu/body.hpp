// Bodies: an op's arithmetic, written once, run by a loop on the CPU and by a kernel on a GPU.
//
//     a body of numbers    body(i, count)      y[i] = f(x[i])              elementwise.hpp
//     a body of rows       body(n, team)       a row is normalised         norm.hpp, softmax.hpp
//     a body of columns    body(n, c, count)   sums down a column          embedding.hpp
//
//                  CPU: a thread has many rows, and       GPU: a warp has one row,
//                  a register full of columns             and each of its lanes a column
//     row n        [ 0 1 2 3 | 4 5 6 7 | 8 9 ]            [ 0 1 2 3 4 5 6 7 8 9 ]
//                    count = 4  4        2                  count = OneLane, 10 times at once
//
// `count` and `team` say which of the two it is. load(p, count) gives a Vector on the CPU and a
// number on the GPU; what a body does with it is the same code. A team is the threads that work on
// one row together: one thread of the CPU, or the 32 lanes of a warp. It loops over a row (each)
// and sums along it (sum, sums).
//
// A body is a struct of pointers and numbers, so that a kernel can take it as an argument, and its
// operator() is a template, compiled by g++ for the loop here and by nvcc for the kernel
// (nn/cuda/cuda_kernels.hpp). The two never clash: the types of count and team differ.
//
// A body is a template on the type in which its activations are stored, `Number`, and computes in
// `Real`, which is Computed<Number>: f32 for bf16, else the same. load widens and store rounds, so
// that a body says nothing about it; it stores each result once, when it is whole.
#pragma once

#include <array>

#include "yotta/core/parallel_for.hpp"
#include "yotta/core/system/kernel_batch.hpp"
#include "yotta/device/emulator/device_build.hpp"
#include "yotta/nn/cpu/vectors.hpp"
#include "yotta/nn/op.hpp"

namespace yotta {

inline namespace YOTTA_DEVICE_BUILD {
// nvcc has no Vectors and compiles bodies as kernels only: a .cu file runs no ops on the CPU.
#if defined(__CUDACC__)
inline constexpr bool has_loops = false;
#else
inline constexpr bool has_loops = true;
#endif
}  // namespace YOTTA_DEVICE_BUILD

// A kernel's lane loads, stores and masks one number.
template <class Real>
YOTTA_BODY Real load(const Real* from, OneLane) {
  return *from;
}
template <class Real>
YOTTA_BODY void store(Real* to, Real value, OneLane) {
  *to = value;
}
YOTTA_BODY float load(const bfloat16* from, OneLane) { return static_cast<float>(*from); }
YOTTA_BODY void store(bfloat16* to, float value, OneLane) { *to = bfloat16(value); }

// The team of one thread on the CPU.
template <class Real>
struct LaneTeam {
  // body(c, count) for all columns c < n.
  template <class Body>
  [[gnu::always_inline]] void each(int64_t n, Body&& body) const {
    for_lanes<Real>(n, body);
  }
  // The sum over c < n of term(c, count).
  template <class Term>
  [[gnu::always_inline]] Real sum(int64_t n, Term&& term) const {
    return sum_lanes<Real>(n, term);
  }
  // Several sums in one walk; term gives an array of its numbers.
  template <size_t Sums, class Term>
  [[gnu::always_inline]] std::array<Real, Sums> sums(int64_t n, Term&& term) const {
    std::array<Vector<Real>, Sums> total{};
    for_lanes<Real>(n, [&](int64_t c, auto count) {
      const auto values = term(c, count);
      for (size_t k = 0; k < Sums; ++k) total[k] += first_lanes<Real>(values[k], count);
    });
    std::array<Real, Sums> out;
    for (size_t k = 0; k < Sums; ++k) out[k] = sum_of_lanes<Real>(total[k]);
    return out;
  }
  template <class Number>
  Real largest(const Number* x, int64_t n) const {
    return yotta::largest(x, n);
  }
  // Runs what one thread of the team does for all.
  template <class Do>
  [[gnu::always_inline]] void once(Do&& one) const {
    one();
  }
  // From here on every thread of the team sees what the others have written.
  void meet() const {}
};

inline namespace YOTTA_DEVICE_BUILD {

// body(i, count) for i < n; its numbers are stored as `Number`.
template <class Number, class Body>
void run_elementwise(const char* operation, Device device, int64_t n, const Body& body,
                     Where where) {
  if (device == Device::cuda) return run_kernel(operation, body, n, where);
  if constexpr (has_loops)
    parallel_for(n, elements_per_thread, [&](int64_t begin, int64_t end) {
      for_lanes<Computed<Number>>(end - begin,
                                  [&](int64_t i, auto count) { body(begin + i, count); });
    });
}

// body(n, team) for n < N; a row has about C numbers.
template <class Number, class Body>
void run_rows(const char* operation, Device device, int64_t N, int64_t C, const Body& body,
              Where where) {
  if (device == Device::cuda) return run_kernel(operation, body, N, where);
  if constexpr (has_loops)
    parallel_for(N, rows_per_thread(C), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) body(n, LaneTeam<Computed<Number>>{});
    });
}

}  // namespace YOTTA_DEVICE_BUILD

// ---- sums down the columns: how the gradient of anything that all rows share is made ------
//
//            c -> C              forward: every row is given b     y(n, c) = x(n, c) + b(c)
//        n [ . . . . ]           backward: every row gives back    db(c) += sum over n of dy(n, c)
//        | [ . . . . ]
//        v [ . . . . ]           thread 0 owns the left columns, thread 1 the right ones, so no sum
//        N [ + + + + ]           crosses a thread and its order is fixed
//
// Rows are summed in groups of 32 and the groups' sums are added: the rounding error of f32 grows
// with 32 + N/32 additions instead of N. Cost: 1 FLOP for each number read: memory-bound.

// out[k][c] += sum over n < N of term(n, c, count)[k], for all c < C. term returns `Sums` Vectors
// (numbers in a kernel): its values at row n and columns c, c+1, ...
template <class Real, size_t Sums, class Term>
struct ColumnSums {
  int64_t N;
  std::array<Real*, Sums> out;
  Term term;
};

template <class Real, size_t Sums, class Term>
void add_column_sums(const char* operation, Device device, int64_t C,
                     const ColumnSums<Real, Sums, Term>& body, Where where) {
  if (device == Device::cuda) return run_together(operation, body, C, where);
  constexpr int64_t group = 32;
  const int64_t N = body.N, columns_per_thread = std::max<int64_t>(64, rows_per_thread(N));
  if constexpr (has_loops)
    parallel_for(C, columns_per_thread, [&](int64_t begin, int64_t end) {
      for (int64_t first = 0; first < N; first += group) {
        const int64_t last = std::min(first + group, N);
        for_lanes<Real>(end - begin, [&](int64_t i, auto count) {
          std::array<Vector<Real>, Sums> sum{};
          for (int64_t n = first; n < last; ++n) {
            const std::array<Vector<Real>, Sums> values = body.term(n, begin + i, count);
            for (size_t k = 0; k < Sums; ++k) sum[k] += values[k];
          }
          for (size_t k = 0; k < Sums; ++k) {
            Real* to = body.out[k] + begin + i;
            store(to, load(static_cast<const Real*>(to), count) + sum[k], count);
          }
        });
      }
    });
}

}  // namespace yotta
