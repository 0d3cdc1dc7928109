// Where a rank's rows and columns are in the whole batch.
//
//     Positions: of the columns of a batch, in the whole sequence
//
//     a whole sequence, or one run of it     zig-zag: two runs of equal length
//     column    0  1  2  3  4  5             0  1  2 │ 3  4  5
//     position  first + 0 ... 5              first + 0, 1, 2 │ second + 0, 1, 2
//                                            (parallel/ring_attention.hpp)
//
// Learned positions, rope and dropout masks depend on a token's position, and ask here. A rank that
// holds some columns of each sequence says which, and gets the same numbers as in the whole.
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

// Where a microbatch is in the whole run; the forward pass's random numbers depend on this only.
struct BatchPosition {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t first_sequence = 0;  // of its rows, in the whole batch of this step
  Positions positions = {};    // of its columns, in the whole sequence
  bool training = false;       // false: nothing is dropped
  int64_t tokens = 0;          // of the whole batch of this step; 0: not known
};

}  // namespace yotta
