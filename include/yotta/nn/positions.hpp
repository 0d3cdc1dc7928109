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
//
//     Packing: of sequences that hold several documents, a number for each token
//
//     document   0  0  0  0 │ 1  1 │ 2  2 ...     who sees whom (nn/flex_core.hpp)
//     place      0  1  2  3   4  5   6  7         in the sequence: dropout
//     position   0  1  2  3   0  1   0  1         in the document: learned positions, rope
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "yotta/core/error.hpp"

namespace yotta {

// What is computed once for a microbatch, and read in all layers: an attention core's tiles.
struct MadeOnce {
  virtual ~MadeOnce() = default;
};

// The B sequences of a microbatch, token by token. A rank may have any of their columns.
struct Packing {
  int64_t T = 0;                   // tokens of a whole sequence
  std::vector<int32_t> documents;  // (B, T), of whole sequences: which document, from 0
  std::vector<int32_t> places;     // (B, columns here)
  std::vector<int32_t> positions;  // (B, columns here)
  mutable std::shared_ptr<const MadeOnce> made;

  int64_t sequences() const { return std::ssize(documents) / T; }
};

// The position of each token of documents (B, T) in its own document.
inline std::vector<int32_t> positions_in(const std::vector<int32_t>& documents, int64_t T) {
  std::vector<int32_t> positions(documents.size());
  for (size_t i = 1; i < documents.size(); ++i)
    if (i % static_cast<size_t>(T) != 0 && documents[i] == documents[i - 1])
      positions[i] = positions[i - 1] + 1;
  return positions;
}

// Columns `places` (B, n) of sequences of T tokens.
inline Packing packing_of(std::vector<int32_t> documents, int64_t T, std::vector<int32_t> places) {
  const std::vector<int32_t> whole = positions_in(documents, T);
  std::vector<int32_t> own(places.size());
  const size_t columns = places.size() / (documents.size() / static_cast<size_t>(T));
  for (size_t i = 0; i < places.size(); ++i)
    own[i] = whole[i / columns * static_cast<size_t>(T) + static_cast<size_t>(places[i])];
  return {T, std::move(documents), std::move(places), std::move(own), {}};
}
// All columns.
inline Packing packing_of(std::vector<int32_t> documents, int64_t T) {
  std::vector<int32_t> places(documents.size());
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = static_cast<int32_t>(i % static_cast<size_t>(T));
  return packing_of(std::move(documents), T, std::move(places));
}

struct Positions {
  int64_t first = 0;  // of column 0
  int64_t second =
      -1;  // of the first column of the second half; -1: it goes on from the first half
  const Packing* packing = nullptr;  // of packed sequences, not owned: these numbers count instead

  constexpr Positions(int64_t first_position = 0, int64_t second_half = -1)
      : first(first_position), second(second_half) {}

  constexpr int64_t runs() const { return second < 0 ? 1 : 2; }
  // The position of one of T columns (T is even if there are two runs).
  constexpr int64_t of(int64_t column, int64_t T) const {
    return second < 0 || column < T / 2 ? first + column : second + column - T / 2;
  }
  // Of token n of a microbatch of T columns: its place in its sequence.
  constexpr int64_t place(int64_t n, int64_t T) const {
    return packing != nullptr ? packing->places[static_cast<size_t>(n)] : of(n % T, T);
  }
  // Positions of a microbatch's tokens, one by one; null: those of its columns, in all sequences.
  constexpr const int32_t* each() const {
    return packing != nullptr ? packing->positions.data() : nullptr;
  }
  // Throws if an op on `tokens` tokens cannot read its packing.
  void expect_packing(const char* operation, int64_t tokens, bool on_gpu, Where where) const {
    if (packing == nullptr || (!on_gpu && tokens == std::ssize(packing->places))) return;
    fail(where,
         "{}: {} tokens{}, and a packing of {}: it is read by the CPU, and has a number for "
         "each token of the microbatch",
         operation, tokens, on_gpu ? " on a GPU" : "", packing->places.size());
  }
  // One after the last position of T columns.
  constexpr int64_t end(int64_t T) const {
    if (packing != nullptr) return packing->T;
    return second < 0 ? first + T : std::max(first, second) + T / 2;
  }
  constexpr bool operator==(const Positions&) const = default;
};

class BatchLoads;  // load_balance.hpp

// Where a microbatch is in the whole run; the forward pass's random numbers depend on this only.
struct BatchPosition {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t first_sequence = 0;   // of its rows, in the whole batch of this step
  Positions positions = {};     // of its columns, in the whole sequence
  bool training = false;        // false: nothing is dropped
  int64_t tokens = 0;           // of the whole batch of this step; 0: not known
  BatchLoads* loads = nullptr;  // of its routers, not owned; null: each microbatch has its own
};

}  // namespace yotta
