// ShardRange: which rows and columns of a whole matrix a rank holds.
//
//     whole (4, 6)      . . . . . .
//                       . . . . . .       ShardRange{.rows = 2, .columns = 3,
//                       . . . # # #                  .first_row = 2, .first_column = 3,
//                       . . . # # #                  .whole_rows = 4, .whole_columns = 6}
//
// A vector is one row. A shard may have rows beyond the whole's last one, padding: of a table cut
// over ranks that do not divide it. They are zeros, and in no file. take_shard and put_shard copy
// from the whole to the shard and back: checkpoints hold whole matrices, whatever the layout of the
// run that wrote them.
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
  // Of the rows held here, those that are not padding.
  constexpr int64_t rows_in_whole() const {
    const int64_t left = whole_rows > 0 ? whole_rows - first_row : rows;
    return left < 0 ? 0 : left < rows ? left : rows;
  }
  constexpr bool is_whole() const { return all_rows() == rows && all_columns() == columns; }
  constexpr bool operator==(const ShardRange&) const = default;
};

namespace detail {

// Calls copy(row of the shard, its place in the whole, bytes) for each row.
template <class Copy>
void each_shard_row(const char* operation, const Tensor& whole, const Tensor& shard,
                    const ShardRange& range, Where where, Copy copy) {
  if (whole.numel() != range.all_rows() * range.all_columns() ||
      shard.numel() != range.rows * range.columns || whole.dtype() != shard.dtype())
    fail(where, "{}: the whole is {} and the shard {}; expected ({}, {}) and ({}, {}) of one type",
         operation, whole.describe(), shard.describe(), range.all_rows(), range.all_columns(),
         range.rows, range.columns);
  const int64_t bytes = bytes_of(whole.dtype());
  for (int64_t r = 0; r < range.rows_in_whole(); ++r)
    copy(static_cast<std::byte*>(shard.raw()) + r * range.columns * bytes,
         static_cast<std::byte*>(whole.raw()) +
             ((range.first_row + r) * range.all_columns() + range.first_column) * bytes,
         static_cast<size_t>(range.columns * bytes));
}

}  // namespace detail

// shard = its range of the whole, and zeros where that ends.
inline void take_shard(const Tensor& whole, const ShardRange& range, Tensor& shard,
                       Where where = Where::current()) {
  if (range.rows_in_whole() < range.rows) shard.zero();
  detail::each_shard_row("take_shard", whole, shard, range, where,
                         [](std::byte* in_shard, const std::byte* in_whole, size_t bytes) {
                           std::memcpy(in_shard, in_whole, bytes);
                         });
}

// Its range of the whole = shard.
inline void put_shard(const Tensor& shard, const ShardRange& range, Tensor& whole,
                      Where where = Where::current()) {
  detail::each_shard_row("put_shard", whole, shard, range, where,
                         [](const std::byte* in_shard, std::byte* in_whole, size_t bytes) {
                           std::memcpy(in_whole, in_shard, bytes);
                         });
}

}  // namespace yotta
