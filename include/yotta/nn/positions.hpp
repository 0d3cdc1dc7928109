// Positions: which places of the whole sequence the columns of a batch have.
//
//     a whole sequence, or one run of it         zig-zag: two runs of equal length (ring_attention.hpp)
//     column    0  1  2  3  4  5                 0  1  2 │ 3  4  5
//     position  first + 0 ... 5                  first + 0, 1, 2 │ second + 0, 1, 2
//
// Whatever depends on a token's place asks here: learned positions, rope, dropout masks. A rank that holds
// a part of each sequence says which part, and its numbers are those of the whole.
#pragma once

#include <algorithm>
#include <cstdint>

namespace yotta {

struct Positions {
  int64_t first = 0;  // of column 0
  int64_t second =
      -1;  // of the first column of the second half; -1: it goes on from the first half

  constexpr Positions(int64_t first_position = 0, int64_t second_half = -1)
      : first(first_position), second(second_half) {}

  constexpr int64_t runs() const { return second < 0 ? 1 : 2; }
  // The position of one of T columns (T is even if there are two runs).
  constexpr int64_t of(int64_t column, int64_t T) const {
    return second < 0 || column < T / 2 ? first + column : second + column - T / 2;
  }
  // One after the last position of T columns.
  constexpr int64_t end(int64_t T) const {
    return second < 0 ? first + T : std::max(first, second) + T / 2;
  }
  constexpr bool operator==(const Positions&) const = default;
};

}  // namespace yotta
