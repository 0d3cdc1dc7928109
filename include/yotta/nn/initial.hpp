// Initial values: what a weight starts as, the same whoever holds which shard of it.
//
// Value (r, c) of a parameter is draw number r * columns + c of the generator named after it, with
// r and c counted in the whole matrix.
//
//     whole (4, 6)      rank 0 holds rows 0, 1      rank 1 holds rows 2, 3: draws 12 to 23
//
// So a model that is split starts from the values of the serial one, bit for bit.
#pragma once

#include <string_view>

#include "yotta/core/tensor.hpp"
#include "yotta/nn/shard_range.hpp"

namespace yotta {

// What a parameter starts as: a constant, or normally distributed with mean 0.
struct Initial {
  double constant = 0;
  double deviation = 0;  // standard deviation of the normal distribution; 0: the constant
};
constexpr Initial zeros() { return {}; }
constexpr Initial ones() { return {1, 0}; }
constexpr Initial normal(double deviation) { return {0, deviation}; }

// Fills `to` (n) with numbers [first, first + n) of the shard, row-major: the values that they have
// in the whole parameter called `name`.
void fill_initial(Tensor& to, const ShardRange& range, Initial initial, uint64_t seed,
                  std::string_view name, int64_t first = 0);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/initial.ipp"
#endif
