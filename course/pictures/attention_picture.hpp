// Two pictures of what happens inside attention, as SVG:
//
//     online_softmax_svg    five keys in blocks of two: how m, l and o change from block to block
//     rope_svg              pairs of numbers that rope turns by the token's position
//
// The numbers come from the library's own functions: online_softmax_row of flash attention, and
// rope. The files in course/pictures/ are what `./yotta lesson 12 -- --draw 1` writes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace yotta {

// Five keys of one query; a value is one number.
inline const std::vector<double> online_scores = {2, 1, 4, 0, 3}, online_values = {1, 2, 3, 4, 5};
inline constexpr int64_t online_block = 2;

// After a block of keys.
struct OnlineStep {
  int64_t first, keys;               // of this block
  double kept;                       // what the sums before it are multiplied with: e^(m_old - m)
  double m, l, o;                    // of all keys so far
  double sum, weighted;              // what this block adds to l and to o
  std::vector<double> weights = {};  // e^(s - m) of all keys so far
};
std::vector<OnlineStep> online_steps();

// A pair of numbers of a head.
using RopePair = std::array<double, 2>;

// The pair (a, b) number i of a head of d numbers, turned by rope at a position.
RopePair turned_pair(RopePair pair, int64_t i, int64_t d, int64_t position);

std::string online_softmax_svg();
std::string rope_svg();

}  // namespace yotta
