// Ulysses as SVG: who holds which head of which token before attention, during it, and after it.
//
//     token 0 | 0 0 0 0 |               | 0 1 2 3 |               | 0 0 0 0 |      a number: a rank
//           1 | 1 1 1 1 |  all_to_all   | 0 1 2 3 |  all_to_all   | 1 1 1 1 |
//           : |  heads  |  of q, k, v   |         |     of o      |         |
//
// The holders are found by sending labelled numbers through to_heads and to_tokens. The file in
// course/pictures/ is what `./yotta lesson 24 -- --draw 1` writes.
#pragma once

#include <string>
#include <vector>

namespace yotta {

// By token, then head: the rank that holds it.
using Holders = std::vector<std::vector<int>>;

// 4 ranks, 8 tokens, 4 heads: on each rank's shards, after to_heads, and after to_tokens of that.
std::vector<Holders> ulysses_holders();

std::string ulysses_svg();

}  // namespace yotta
