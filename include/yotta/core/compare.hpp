// compare: are these the numbers that were expected, and if not, what kind of mistake makes such
// numbers?
//
// A wrong gradient is seldom random. It is p times too large because a sum was taken for a mean, or
// it is the neighbour's chunk because a ring started one rank off. So before it lists differences,
// compare() tries the mistakes that distributed programs make, and says which of them fits:
//
//     every value is 4x too large, the world size: a sum where a mean was expected?
//     every chunk is shifted by one rank: chunk 1 is in the place of chunk 0
//     element 16 is untouched: still -7, what was there before
//     the numbers of rank 3 are missing from the sum
//
// What it can recognise depends on what it is told: Clues names the ranks, the shape, what each
// rank put in, what the buffer held before. NaN is never equal to anything. Cost: linear in the
// count, times 2^p for the search of missing ranks (p <= 10), and only when something is wrong.
#pragma once

#include "yotta/core/cpu/mismatch_diagnosis.hpp"

namespace yotta {

struct Verdict {
  bool equal = true;
  std::string text;  // empty when equal
  explicit operator bool() const { return equal; }
};

// Equal means |actual - expected| <= tolerance * (1 + |expected|) for every element; a NaN is
// unequal.
Verdict compare(std::span<const double> actual, std::span<const double> expected, double tolerance,
                const Clues& clues = {});

// The same for tensors of any type, which must agree in shape.
Verdict compare(const Tensor& actual, const Tensor& expected, double tolerance, Clues clues = {});

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/impl/compare.ipp"
#endif
