// Embedding: a token's number picks a row of a table. And learned positions: a row for each place.
//
//     ids       [ 2  0  2 ]            forward    y(n) = table(id_n)
//     table (V, C)                     backward   dtable(id_n) += dy(n)
//       0 [ a ]         y  [ c ]                  (token 2 came twice: its row gets two gradients)
//       1 [ b ]            [ a ]
//       2 [ c ]            [ c ]       positions  y(n) = x(n) + table(position of column n mod T)
//
// Forward copies rows. Backward adds rows, and two tokens may add to the same one: threads share out the
// *columns*, so each number of the table is summed by one thread, in the order of the tokens.
//
// Cost: no FLOPs forward, 1 a number backward; bytes of the rows touched, not of the table.
// Letters: N tokens, V vocabulary, C model width, T tokens a sequence.
#pragma once

#include "yotta/nn/columns.hpp"
#include "yotta/nn/positions.hpp"

namespace yotta {

constexpr OpCost embedding_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("embedding", dtype, 0, N * C, N * C);
}
constexpr OpCost embedding_backward_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("embedding_backward", dtype, N * C, 2 * N * C, N * C);
}
constexpr OpCost add_positions_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("add_positions", dtype, N * C, 2 * N * C, N * C);
}
constexpr OpCost positions_backward_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("positions_backward", dtype, N * C, 2 * N * C, N * C);
}

namespace detail {

inline void expect_ids(const char* operation, const Tensor& ids, int64_t V, Where where) {
  expect_dims(operation, "ids", ids, 1, "(N)", where);
  expect_dtype(operation, "ids", ids, DType::i32, where);
  if (ids.device() == Device::meta) return;
  for (int64_t n = 0; const int32_t id : ids.span<int32_t>(where)) {
    if (id < 0 || id >= V)
      fail(where, "{}: id {} of token {} is outside the vocabulary of {}", operation, id, n, V);
    ++n;
  }
}

inline void expect_positions(const char* operation, const Tensor& x, const Tensor& table, int64_t T,
                             const Positions& at, Where where) {
  expect_dims(operation, "x", x, 2, "(N, C)", where);
  expect_dims(operation, "positions", table, 2, "(T, C)", where);
  if (T <= 0 || x.dim(0) % T != 0)
    fail(where, "{}: {} rows are no whole sequences of {} tokens", operation, x.dim(0), T);
  if (x.dim(1) != table.dim(1) || at.first < 0 || at.end(T) > table.dim(0))
    fail(where, "{}: x is {}, positions is {}; positions {} to {} are needed", operation,
         x.describe(), table.describe(), at.first, at.end(T));
}

// to(row(n)) += from(n) for n = 0, 1, ..., columns shared out over threads.
template <class Real, class Row>
void add_rows(const Real* from, int64_t N, int64_t C, Row row, Real* to) {
  parallel_for(C, std::max<int64_t>(64, rows_per_thread(N)), [&](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < N; ++n) {
      Real* sum = to + row(n) * C + begin;
      for_lanes<Real>(end - begin, [&](int64_t c, auto count) {
        store(
            sum + c,
            load(static_cast<const Real*>(sum) + c, count) + load(from + n * C + begin + c, count),
            count);
      });
    }
  });
}

}  // namespace detail

// The rows of table (V, C) that ids i32 (N) name: (N, C).
inline Tensor embedding(const Tensor& ids, const Tensor& table, Where where = Where::current()) {
  expect_dims("embedding", "table", table, 2, "(V, C)", where);
  const int64_t C = table.dim(1);
  detail::expect_ids("embedding", ids, table.dim(0), where);
  const int64_t N = ids.dim(0);
  charge(embedding_cost(table.dtype(), N, C));
  Tensor y = empty_beside(table, {N, C}, table.dtype(), where);
  if (y.device() == Device::meta) return y;
  const int32_t* id = ids.data<int32_t>(where);
  const int64_t row_bytes = C * bytes_of(table.dtype());
  const std::byte* from = static_cast<const std::byte*>(table.raw());
  std::byte* to = static_cast<std::byte*>(y.raw());
  parallel_for(N, rows_per_thread(C), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      std::memcpy(to + n * row_bytes, from + id[n] * row_bytes, static_cast<size_t>(row_bytes));
  });
  return y;
}

// dtable (V, C) += dy (N, C) in the rows that ids name.
inline void embedding_backward(const Tensor& dy, const Tensor& ids, Tensor& dtable,
                               Where where = Where::current()) {
  expect_dims("embedding_backward", "dtable", dtable, 2, "(V, C)", where);
  const int64_t C = dtable.dim(1);
  detail::expect_ids("embedding_backward", ids, dtable.dim(0), where);
  const int64_t N = ids.dim(0);
  expect_shape("embedding_backward", "dy", dy, {N, C}, where);
  charge(embedding_backward_cost(dy.dtype(), N, C));
  if (dy.device() == Device::meta) return;
  visit_real(dy.dtype(), where, [&]<class Real>(Type<Real>) {
    const int32_t* id = ids.data<int32_t>(where);
    detail::add_rows(
        dy.data<Real>(where), N, C, [id](int64_t n) { return int64_t{id[n]}; },
        dtable.data<Real>(where));
  });
}

// x(n) += the row of n's position, in place: x (N, C) holds N / T sequences of T tokens, whose columns
// stand at `at`. positions (max T, C).
inline void add_positions(Tensor& x, const Tensor& positions, int64_t T, const Positions& at = {},
                          Where where = Where::current()) {
  detail::expect_positions("add_positions", x, positions, T, at, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  charge(add_positions_cost(x.dtype(), N, C));
  if (x.device() == Device::meta) return;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    Real* to = x.data<Real>(where);
    const Real* from = positions.data<Real>(where);
    parallel_for(N, rows_per_thread(C), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        Real* row = to + n * C;
        const Real* position = from + at.of(n % T, T) * C;
        for_lanes<Real>(C, [&](int64_t c, auto count) {
          store(row + c, load(static_cast<const Real*>(row) + c, count) + load(position + c, count),
                count);
        });
      }
    });
  });
}

// dpositions (max T, C) += dy (N, C), summed over the sequences.
inline void positions_backward(const Tensor& dy, Tensor& dpositions, int64_t T,
                               const Positions& at = {}, Where where = Where::current()) {
  detail::expect_positions("positions_backward", dy, dpositions, T, at, where);
  const int64_t N = dy.dim(0), C = dy.dim(1);
  charge(positions_backward_cost(dy.dtype(), N, C));
  if (dy.device() == Device::meta) return;
  visit_real(dy.dtype(), where, [&]<class Real>(Type<Real>) {
    detail::add_rows(
        dy.data<Real>(where), N, C, [=](int64_t n) { return at.of(n % T, T); },
        dpositions.data<Real>(where));
  });
}

}  // namespace yotta
