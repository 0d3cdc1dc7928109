// Embedding: a token's number picks a row of a table. Learned positions: each position has a row.
//
//     ids       [ 2  0  2 ]            forward    y(n) = table(id_n)
//     table (V, C)                     backward   dtable(id_n) += dy(n)
//       0 [ a ]         y  [ c ]                  (token 2 came twice: its row gets two gradients)
//       1 [ b ]            [ a ]
//       2 [ c ]            [ c ]       positions  y(n) = x(n) + table(position of column n mod T)
//
// Forward copies rows. Backward adds rows, and two tokens may add to the same one: threads share
// out the *columns*, so each number of the table is summed by one thread, in the tokens' order.
//
// A rank of tensor parallelism may hold a shard of the table. Forward, the rows that it does not
// hold give zeros; backward, they are skipped. The sum over the ranks is that of the whole table.
//
// Cost: no FLOPs forward, 1 per number backward; bytes of the rows touched, not of the table. A
// shard is charged its share of the tokens, whichever they are.
// Letters: N tokens, V vocabulary, C model width, T tokens per sequence.
#pragma once

#include "yotta/nn/cpu/body.hpp"
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

// The rows that ids i32 (N) name: (N, C). `table` (rows, C) holds rows `first` and on of a table of
// V; ids of other rows give zeros.
Tensor embedding_shard(const Tensor& ids, const Tensor& table, int64_t first, int64_t V,
                       Where where = Where::current());

// The same of a whole table (V, C).
Tensor embedding(const Tensor& ids, const Tensor& table, Where where = Where::current());

// dtable (rows, C), f32 for bf16 dy, += dy (N, C) in the rows that ids name; it holds rows `first`
// and on, of V.
void embedding_shard_backward(const Tensor& dy, const Tensor& ids, Tensor& dtable, int64_t first,
                              int64_t V, Where where = Where::current());

// The same of a whole table (V, C).
void embedding_backward(const Tensor& dy, const Tensor& ids, Tensor& dtable,
                        Where where = Where::current());

// x(n) += the row of n's position, in place: x (N, C) holds N / T sequences of T tokens, whose
// columns are at positions `at`. positions (max T, C).
void add_positions(Tensor& x, const Tensor& positions, int64_t T, const Positions& at = {},
                   Where where = Where::current());

// dpositions (max T, C) += dy (N, C), summed over the sequences.
void positions_backward(const Tensor& dy, Tensor& dpositions, int64_t T, const Positions& at = {},
                        Where where = Where::current());

namespace detail {

// Throws unless ids are i32 (N), each in [0, V).
void expect_ids(const char* operation, const Tensor& ids, int64_t V, Where where);

// Which row of the table token n has; -1: none, the row is in another shard.
struct RowOfId {
  const int32_t* ids;
  int64_t first, rows;  // held here, of the whole table
  YOTTA_BODY int64_t operator()(int64_t n) const {
    const int64_t row = ids[n] - first;
    return row >= 0 && row < rows ? row : -1;
  }
};

struct RowOfPosition {
  Positions at;
  int64_t T;
  const int32_t* each;  // (N); null: as `at` says, in each sequence
  YOTTA_BODY int64_t operator()(int64_t n) const {
    return each != nullptr ? each[n] : at.of(n % T, T);
  }
};

// y(n) = table(row(n)), zeros if there is none; or y(n) += table(row(n)).
template <class Number, class Row, bool adds>
struct ReadRow {
  int64_t C;
  const Number* table;
  Row row;
  Number* y;
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const int64_t r = row(n);
    Number* to = y + n * C;
    team.each(C, [&](int64_t c, auto count) {
      auto value = r < 0 ? decltype(load(table, count)){} : load(table + r * C + c, count);
      if constexpr (adds) value = load(to + c, count) + value;
      store(to + c, value, count);
    });
  }
};
template <class Number>
using EmbeddingRow = ReadRow<Number, RowOfId, false>;
template <class Number>
using AddPosition = ReadRow<Number, RowOfPosition, true>;

// to(row(n), c) += from(n, c): a body of columns, since two tokens may have the same row.
template <class Number, class Row, class Real = Computed<Number>>
struct AddRows {
  int64_t N, C;
  const Number* from;
  Row row;
  Real* to;
  template <class Count>
  YOTTA_BODY void operator()(int64_t n, int64_t c, Count count) const {
    const int64_t r = row(n);
    if (r < 0) return;
    Real* sum = to + r * C + c;
    store(sum, load(sum, count) + load(from + n * C + c, count), count);
  }
};

}  // namespace detail

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/embedding.ipp"
#endif
