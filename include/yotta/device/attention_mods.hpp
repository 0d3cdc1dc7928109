// Variants of attention as ordinary functions: who sees whom, and what is done to a score.
//
//     mask_mod(b, h, q, kv) -> bool                    may query q see key kv?
//     score_mod(score, b, h, q, kv) -> score           the score that softmax gets
//
//     causal         window 3       documents      prefix 2       two in one: and_masks(causal,
//     x . . . . .    x . . . . .    x x . . . .    x x . . . .    documents)
//     x x . . . .    x x . . . .    x x . . . .    x x . . . .    x . . . . .
//     x x x . . .    x x x . . .    . . x x x .    x x x . . .    x x . . . .
//     x x x x . .    . x x x . .    . . x x x .    x x x x . .    . . x . . .
//     x x x x x .    . . x x x .    . . x x x .    x x x x x .    . . x x . .
//     x x x x x x    . . . x x x    . . . . . x    x x x x x x    . . x x x .
//     rows: queries, columns: keys                                . . . . . x
//
// Each is a struct with an operator(); a lambda does as well. The attention kernel is a template on
// it, so that the compiler puts its code into the loop over the scores of a tile: on the CPU and in
// a CUDA kernel alike. A kernel that had an argument for every variant would need a new one each
// month, and pay for all of them in each call.
//
// score_mod is called with a float, and backward with a Dual (dual_numbers.hpp): so it is a
// template on its score. What it captures and may be trained (slopes, a table) it reads by
// Score(captured[i]), and says with `reads` how many such numbers one score needs. tanh_of is a
// tanh that the compiler can compute for a register full of scores at once; the library's would
// make the soft cap cost more than both products of attention.
//
// Contract: b and h are the sequence's and the query head's number, q and kv positions; all from 0.
// score has been multiplied by 1 / sqrt(d). Pointers are not owned.
// Letters: B batch, T sequence, H query heads, q and kv positions of a query and of a key.
// References: Dong et al. (2024), FlexAttention; Press et al. (2021), ALiBi; Beltagy et al. (2020),
// Longformer (windows); Raffel et al. (2019), T5 (relative positions, prefix); Gemma team (2024),
// Gemma 2 (soft cap); Hassani et al. (2022), neighbourhoods; Miao et al. (2023), trees of tokens.
#pragma once

#include "yotta/device/dual_numbers.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// ---- masks -------------------------------------------------------------------------------------

// All keys.
struct NoMask {
  YOTTA_HOST_DEVICE bool operator()(int, int, int, int) const { return true; }
};

// A query sees keys up to its own position.
struct Causal {
  YOTTA_HOST_DEVICE bool operator()(int, int, int q, int kv) const { return kv <= q; }
};

// The last `window` keys up to its own position, which counts.
struct SlidingWindow {
  int window = 1;
  YOTTA_HOST_DEVICE bool operator()(int, int, int q, int kv) const {
    return kv <= q && q - kv < window;
  }
};

// Keys of its own document; and_masks(Causal{}, ...) for language models.
struct SameDocument {
  const int* document = nullptr;  // (B, T): which document a position belongs to
  int T = 0;
  YOTTA_HOST_DEVICE bool operator()(int b, int, int q, int kv) const {
    return document[b * T + q] == document[b * T + kv];
  }
};

// The first `prefix` keys (a question, a picture) are seen by all, the others causally.
struct PrefixLm {
  int prefix = 0;
  YOTTA_HOST_DEVICE bool operator()(int, int, int q, int kv) const {
    return kv < prefix || kv <= q;
  }
};

// Positions are the pixels of a picture, row by row: a query sees the pixels at most `radius` rows
// and columns away.
struct Neighbourhood {
  int width = 1, radius = 0;
  YOTTA_HOST_DEVICE bool operator()(int, int, int q, int kv) const {
    const int rows = q / width - kv / width, columns = q % width - kv % width;
    return -radius <= rows && rows <= radius && -radius <= columns && columns <= radius;
  }
};

// Positions are a tree's nodes, each before its descendants (preorder): a query sees the path from
// the root to itself. So several continuations of a text are checked in one pass.
struct TreePath {
  const int* last = nullptr;  // (T): the last descendant of each node, itself if it has none
  YOTTA_HOST_DEVICE bool operator()(int, int, int q, int kv) const {
    return kv <= q && q <= last[kv];
  }
};

template <class A, class B>
struct BothMasks {
  A a;
  B b;
  YOTTA_HOST_DEVICE bool operator()(int batch, int h, int q, int kv) const {
    const bool first = a(batch, h, q, kv), second = b(batch, h, q, kv);  // without a branch
    return first && second;
  }
};
template <class A, class B>
struct EitherMask {
  A a;
  B b;
  YOTTA_HOST_DEVICE bool operator()(int batch, int h, int q, int kv) const {
    const bool first = a(batch, h, q, kv), second = b(batch, h, q, kv);
    return first || second;
  }
};
// A key is seen if all masks say so; if any does.
template <class A, class B, class... More>
auto and_masks(A a, B b, More... more) {
  if constexpr (sizeof...(More) == 0)
    return BothMasks<A, B>{a, b};
  else
    return and_masks(BothMasks<A, B>{a, b}, more...);
}
template <class A, class B, class... More>
auto or_masks(A a, B b, More... more) {
  if constexpr (sizeof...(More) == 0)
    return EitherMask<A, B>{a, b};
  else
    return or_masks(EitherMask<A, B>{a, b}, more...);
}

// ---- score modifiers ---------------------------------------------------------------------------

// How many captured numbers one score depends on; 0 for a function that does not say.
template <class ScoreMod>
constexpr int captured_reads() {
  if constexpr (requires { ScoreMod::reads; })
    return ScoreMod::reads;
  else
    return 0;
}

struct NoScoreMod {
  template <class Score>
  YOTTA_HOST_DEVICE Score operator()(Score score, int, int, int, int) const {
    return score;
  }
};

// ALiBi: what is farther away weighs less, at a rate of each head's own.
template <class Number>
struct Alibi {
  static constexpr int reads = 1;
  Captured<Number> slopes;  // (H)
  template <class Score>
  YOTTA_HOST_DEVICE Score operator()(Score score, int, int h, int q, int kv) const {
    return score - Score(slopes[h]) * Score(q - kv);
  }
};
// The slopes that ALiBi begins with: 2^(-8/H), 2^(-16/H), ..., 2^-8.
inline double alibi_slope(int h, int heads) { return std::exp2(-8.0 * (h + 1) / heads); }

// Scores stay between -cap and cap.
template <class Number>
struct SoftCap {
  static constexpr int reads = 1;
  Captured<Number> cap;  // (1)
  template <class Score>
  YOTTA_HOST_DEVICE Score operator()(Score score, int, int, int, int) const {
    return Score(cap[0]) * tanh_of(score / Score(cap[0]));
  }
};

// A number for each distance and head is added; distances beyond `reach` share the last one.
template <class Number>
struct RelativePositions {
  static constexpr int reads = 1;
  Captured<Number> table;  // (H, 2 reach + 1), by kv - q from -reach on
  int reach = 0;
  template <class Score>
  YOTTA_HOST_DEVICE Score operator()(Score score, int, int h, int q, int kv) const {
    const int distance = kv - q < -reach ? -reach : kv - q > reach ? reach : kv - q;
    return score + Score(table[h * (2 * reach + 1) + distance + reach]);
  }
};

// One after the other.
template <class First, class Second>
struct ScoreModsInTurn {
  static constexpr int reads = captured_reads<First>() + captured_reads<Second>();
  First first;
  Second second;
  template <class Score>
  YOTTA_HOST_DEVICE Score operator()(Score score, int b, int h, int q, int kv) const {
    return second(first(score, b, h, q, kv), b, h, q, kv);
  }
};
template <class First, class Second>
auto in_turn(First first, Second second) {
  return ScoreModsInTurn<First, Second>{first, second};
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
