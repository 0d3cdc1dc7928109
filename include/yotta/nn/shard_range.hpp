// ShardRange: which rows and columns of a whole matrix a rank holds.
//
//     whole (4, 6)      . . . . . .
//                       . . . . . .       ShardRange{.rows = 2, .columns = 3, .first_row = 2, .first_column = 3,
//                       . . . # # #            .whole_rows = 4, .whole_columns = 6}
//                       . . . # # #
//
// A vector is one row. take_part and put_part go from the whole to the part and back: for checkpoints, which
// hold whole matrices whatever the layout of the run that wrote them.
#pragma once

#include <cstring>

#include "yotta/core/tensor.hpp"

namespace yotta {

struct ShardRange {
  int64_t rows = 1, columns = 0;              // held here
  int64_t first_row = 0, first_column = 0;    // of them, in the whole
  int64_t whole_rows = 0, whole_columns = 0;  // 0: the same as held here

  constexpr int64_t all_rows() const { return whole_rows > 0 ? whole_rows : rows; }
  constexpr int64_t all_columns() const { return whole_columns > 0 ? whole_columns : columns; }
  constexpr bool is_whole() const { return all_rows() == rows && all_columns() == columns; }
  constexpr bool operator==(const ShardRange&) const = default;
};

namespace detail {
// Calls copy(row of the part, place in the whole, bytes) for each row.
template <class Copy>
void each_part_row(const char* operation, const Tensor& whole, const Tensor& part, const ShardRange& of,
                   Where where, Copy copy) {
  if (whole.numel() != of.all_rows() * of.all_columns() || part.numel() != of.rows * of.columns ||
      whole.dtype() != part.dtype())
    fail(where, "{}: a whole of {} and a part of {}; expected ({}, {}) and ({}, {}) of one type",
         operation, whole.describe(), part.describe(), of.all_rows(), of.all_columns(), of.rows,
         of.columns);
  const int64_t bytes = bytes_of(whole.dtype());
  for (int64_t r = 0; r < of.rows; ++r)
    copy(static_cast<std::byte*>(part.raw()) + r * of.columns * bytes,
         static_cast<std::byte*>(whole.raw()) +
             ((of.first_row + r) * of.all_columns() + of.first_column) * bytes,
         static_cast<size_t>(of.columns * bytes));
}
}  // namespace detail

// part = its place in the whole.
inline void take_part(const Tensor& whole, const ShardRange& of, Tensor& part,
                      Where where = Where::current()) {
  detail::each_part_row("take_part", whole, part, of, where,
                        [](std::byte* in_part, const std::byte* in_whole, size_t bytes) {
                          std::memcpy(in_part, in_whole, bytes);
                        });
}

// Its place in the whole = part.
inline void put_part(const Tensor& part, const ShardRange& of, Tensor& whole,
                     Where where = Where::current()) {
  detail::each_part_row("put_part", whole, part, of, where,
                        [](const std::byte* in_part, std::byte* in_whole, size_t bytes) {
                          std::memcpy(in_whole, in_part, bytes);
                        });
}

}  // namespace yotta
