// Sums down the columns of a matrix: how the gradient of anything that all rows share is made.
//
//            c -> C              forward: every row is given b     y(n, c) = x(n, c) + b(c)
//        n [ . . . . ]           backward: every row gives back    db(c) += sum over n of dy(n, c)
//        | [ . . . . ]
//        v [ . . . . ]           thread 0 owns the left columns, thread 1 the right ones, so no sum
//        N [ + + + + ]           crosses a thread and its order is fixed
//
// Rows are summed in groups of 32 and the groups' sums are added: the rounding error of f32 grows with
// 32 + N/32 additions instead of N. Cost: 1 FLOP for each number read: memory-bound.
// Letters: N rows (tokens), C columns (channels).
#pragma once

#include <array>

#include "yotta/nn/cpu/body.hpp"

namespace yotta {

// out[k][c] += sum over n < N of term(n, c, count)[k], for all c < C. term returns `Sums` Vectors (numbers in a
// kernel): its values at row n and columns c, c+1, ...
template <class Real, size_t Sums, class Term>
struct ColumnSums {
  int64_t N;
  std::array<Real*, Sums> out;
  Term term;
};

template <class Real, size_t Sums, class Term>
void add_column_sums(const char* operation, Device device, int64_t C,
                     const ColumnSums<Real, Sums, Term>& body, Where where) {
  if (device == Device::cuda) return run_kernel(operation, body, C, where);
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

namespace detail {

template <class Real>
struct AddBias {
  int64_t C;
  const Real *x, *bias;
  Real* y;
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    team.each(C, [&](int64_t c, auto count) {
      store(y + n * C + c, load(x + n * C + c, count) + load(bias + c, count), count);
    });
  }
};
template <class Real>
struct BiasTerm {
  int64_t C;
  const Real* dy;
  template <class Count>
  YOTTA_BODY auto operator()(int64_t n, int64_t c, Count count) const {
    return std::array{load(dy + n * C + c, count)};
  }
};

}  // namespace detail

// Of N rows and C columns.
constexpr OpCost add_bias_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("add_bias", dtype, N * C, N * C + C, N * C);
}
constexpr OpCost bias_backward_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("bias_backward", dtype, N * C, N * C + C, C);
}

// x + b in every row; x (N, C), b (C). Its dx is dy itself.
inline Tensor add_bias(const Tensor& x, const Tensor& bias, Where where = Where::current()) {
  expect_dims("add_bias", "x", x, 2, "(N, C)", where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("add_bias", "bias", bias, {C}, where);
  charge(add_bias_cost(x.dtype(), N, C));
  Tensor y = empty_like(x, where);
  const Device device = x.device();
  if (device == Device::meta) return y;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const detail::AddBias<Real> body{C, x.address<Real>(device, where),
                                     bias.address<Real>(device, where), y.address<Real>(device)};
    run_rows<Real>("add_bias", device, N, C, body, where);
  });
  return y;
}

// dbias (C) += the column sums of dy (N, C).
inline void bias_backward(const Tensor& dy, Tensor& dbias, Where where = Where::current()) {
  expect_dims("bias_backward", "dy", dy, 2, "(N, C)", where);
  const int64_t N = dy.dim(0), C = dy.dim(1);
  expect_shape("bias_backward", "dbias", dbias, {C}, where);
  charge(bias_backward_cost(dy.dtype(), N, C));
  const Device device = dy.device();
  if (device == Device::meta) return;
  visit_real(dy.dtype(), where, [&]<class Real>(Type<Real>) {
    const detail::BiasTerm<Real> term{C, dy.address<Real>(device, where)};
    const ColumnSums<Real, 1, detail::BiasTerm<Real>> body{
        N, {dbias.address<Real>(device, where)}, term};
    add_column_sums("bias_backward", device, C, body, where);
  });
}

}  // namespace yotta
