// Flex attention: three documents in one sequence. The mask is a line of C++, a soft cap of scores
// another; what the mask hides is not computed, and each document's output is what it gets alone.
#include <fmt/format.h>

#include "yotta/core/compare.hpp"
#include "yotta/nn/flex_attention.hpp"
#include "yotta/nn/linear_net.hpp"

using namespace yotta;

int main() {
  const int T = 512, tile = 32, ends[] = {96, 384, 512};  // documents of 96, 288 and 128 tokens
  std::vector<int> document;
  for (int t = 0; t < T; ++t) document.push_back(t < ends[0] ? 0 : t < ends[1] ? 1 : 2);
  const auto capped = [](auto score, int, int, int, int) {
    using Score = decltype(score);
    return Score(2) * tanh_of(score / Score(2));  // between -2 and 2
  };
  const auto mask = and_masks(Causal{}, SameDocument{document.data(), T});
  const auto tiles = create_block_mask(mask, {.queries = T, .keys = T, .BQ = tile, .BK = tile});

  const Tensor x = drawn_rows(3 * T, 2 * 16);  // q, k and v of 2 heads
  const auto heads = [&](int which, int begin, int end) {
    return x.rows(which * T + begin, which * T + end).reshape({1, end - begin, 2, 16});
  };
  const Tensor o = flex_attention(heads(0, 0, T), heads(1, 0, T), heads(2, 0, T), capped, tiles).o;
  fmt::print("{} tiles of the {} that are causal\n", count_tiles(tiles), causal_tiles(T / tile));
  for (int d = 0, begin = 0; d < 3; begin = ends[d++]) {
    const int end = ends[d], n = end - begin;
    const auto alone = create_block_mask(Causal{}, {.queries = n, .keys = n});
    const Tensor expected = flex_attention(heads(0, begin, end), heads(1, begin, end),
                                           heads(2, begin, end), capped, alone)
                                .o;
    const Verdict same =
        compare(o.reshape({T, 32}).rows(begin, end), expected.reshape({n, 32}), 1e-5);
    if (!same || count_tiles(tiles) != 6 + 45 + 10) {
      fmt::print("document {} differs from what it gets alone, or not 61 tiles: {}\n", d,
                 same.text);
      return 1;
    }
  }
}
