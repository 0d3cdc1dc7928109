// Who sees whom in a model's texts, as options: a mask of nn/flex_core.hpp. All may be combined,
// but for ALiBi with a prefix.
//
//     documents   a token sees those of its own document       x . . .     prefix 2
//     window      and of these the last few, itself included   x x . .     x x . .
//     prefix      the first few are seen from both sides       . . x .     x x . .
//     alibi       what is far away weighs less, in place       . . x x     x x x .
//                 of positions                                 documents   x x x x
//
// Without any a token sees itself and all before it.
#pragma once

#include "yotta/core/options.hpp"

namespace yotta {

struct MaskOptions {
  bool document = false;
  int64_t window = 0;  // tokens; 0: no window
  int64_t prefix = 0;  // tokens of each document, or of the sequence
  bool alibi = false;
  int64_t tile = 64;  // queries and keys of a tile

  bool operator==(const MaskOptions&) const = default;
};

// Throws if a number is one that no mask can have.
inline const MaskOptions& checked(const MaskOptions& o, Where where = Where::current()) {
  check_option(where, "MaskOptions::window", o, &MaskOptions::window, zero_or_more);
  check_option(where, "MaskOptions::prefix", o, &MaskOptions::prefix, zero_or_more);
  check_option(where, "MaskOptions::tile", o, &MaskOptions::tile, one_or_more);
  return o;
}

}  // namespace yotta
