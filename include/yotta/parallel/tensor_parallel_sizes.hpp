// Whether tp ranks can share the widths of a transformer, and which number of ranks could if not.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "yotta/nn/transformer_config.hpp"

namespace yotta {

// Throws unless tp ranks can share the model's widths evenly (the vocabulary is padded); names the
// nearest number of ranks that can. `works`: what else a number of ranks must keep, to be named;
// empty: nothing.
inline void expect_divides(const TransformerConfig& c, int tp, Where where = Where::current(),
                           const std::function<bool(int)>& works = {}) {
  const std::pair<const char*, int64_t> widths[] = {
      {"heads", c.heads},
      {"key/value heads", c.kv_heads},
      {"numbers of the feed-forward width", c.feed_forward},
      {"numbers of the first blocks' feed-forward width", c.mixture.dense_width}};
  const auto divides = [&](int ranks) {
    return std::all_of(std::begin(widths), std::end(widths),
                       [&](const auto& width) { return width.second % ranks == 0; }) &&
           ranks <= c.vocabulary;
  };
  if (divides(tp)) return;
  // Down and up by turns; tp 1 always divides.
  const auto nearest = [&](const std::function<bool(int)>& fits) {
    for (int step = 1; step < tp; ++step)
      for (const int ranks : {tp - step, tp + step})
        if (fits(ranks)) return ranks;
    return 0;
  };
  const int all = nearest([&](int ranks) { return divides(ranks) && (!works || works(ranks)); });
  for (const auto& [what, size] : widths)
    if (size % tp != 0)
      fail(where,
           "tensor parallelism over {} ranks gives each a tp-th of every width, but {} {} are not "
           "divisible by {}. The nearest that {}: tp {}",
           tp, size, what, tp, all > 0 ? "works for this model" : "divides them all",
           all > 0 ? all : nearest(divides));
  fail(where, "{} tokens of the vocabulary leave some of {} ranks without any; take tp {}",
       c.vocabulary, tp, all > 0 ? all : nearest(divides));
}

}  // namespace yotta
