// MismatchDiagnosis: what kind of error makes such numbers? The guesses behind compare.hpp.
//
// Each guess knows one mistake of distributed programs and how its numbers look:
//
//     expected  10 20 30 40 | 50 60 70 80   2 ranks, 2 chunks
//     got       20 40 60 80 | 100 ...       twice too large, 2 is the world size: a sum, not a mean
//     got       50 60 70 80 | 10 20 30 40   every chunk is shifted by one rank
//     got       10 20 30 -7 | 50 60 70 80   element 3 is untouched: -7 was there before
//
// and returns its sentence if that explains every number, or nothing. The first that fits is told.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "yotta/core/parallel_for.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta {

using Numbers = std::vector<double>;

// Numbers that a wrong result might be by mistake: {"the local gradient", values}.
struct Suspect {
  std::string name;
  Numbers values;
};

// What is known about a result. Every field is optional.
struct Clues {
  std::string what = "the result";  // "rank 2's chunk"; opens the message
  int ranks = 1;                    // p
  Shape shape;                      // (rows, columns): to notice a transpose
  Numbers before;                   // what the buffer held before the call
  std::vector<Numbers> parts;       // what each rank put in, when a sum was expected
  Numbers whole;                    // when one chunk of p was expected: all of them, in order
  int chunk = 0;                    // and which one it was
  std::vector<Suspect> suspects;
};

// A result that is wrong, and the mistakes that might explain it. Each guess returns its sentence
// when it explains the numbers, or nothing.
class MismatchDiagnosis {
 public:
  using Guess = std::optional<std::string>;

  MismatchDiagnosis(std::span<const double> actual, std::span<const double> expected,
                    double tolerance, const Clues& clues);

  bool found() const { return !wrong_.empty(); }

  std::string explain() const;

  // The three largest differences, one a line.
  std::string worst() const;

 private:
  bool near(double a, double b) const;
  // Whether element i is other(i) for every i in [begin, end), or for all.
  template <class Other>
  bool explains(Other other, size_t begin = 0, size_t end = SIZE_MAX) const {
    for (size_t i = begin; i < std::min(end, actual_.size()); ++i)
      if (!near(actual_[i], other(i))) return false;
    return true;
  }
  size_t begin_of(int64_t chunk, int64_t p) const;

  // What is left to say when no guess explains the numbers; may be empty.
  std::string how_far() const;
  // Two numbers with as many digits as it takes to tell them apart.
  static std::string pair_of(double expected, double actual);

  // "element 16 is", "elements 4 to 7 are", "5 of 17 elements, the first is 2, are"
  std::string where() const;

  Guess not_finite() const;

  Guess untouched() const;

  Guess zeros() const;

  Guess suspect() const;

  // "shifted by one rank", "shifted by 2 ranks", "shifted by -1 rank"
  static std::string by_ranks(int64_t ranks);
  // A step of p - 1 around a ring is a step of -1.
  static int64_t shortest(int64_t shift, int64_t p) { return 2 * shift > p ? shift - p : shift; }

  // Chunks differ in length by one at most, so what two chunks share is compared.
  Guess another_chunk() const;

  Guess shifted_chunks() const;

  // One factor for all values, by least squares.
  Guess ratio() const;
  // The factor that brings `from` nearest to `to`; 0 if there is none.
  static double fit(std::span<const double> from, std::span<const double> to);

  // Which ranks' numbers add up to what is there? Looked for in the first wrong chunk, because a
  // ring may drop a rank in one chunk and not in the others.
  Guess missing_ranks() const;
  std::string missing(unsigned present) const;

  Guess shifted() const;

  Guess transposed() const;

  Guess permuted() const;

  std::span<const double> actual_, expected_;
  double tolerance_;
  const Clues& clues_;
  std::vector<size_t> wrong_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/cpu/impl/mismatch_diagnosis.ipp"
#endif
