#include "yotta/core/cpu/mismatch_diagnosis.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "support/verdicts.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

template <class F>
Numbers each(Numbers values, F change) {
  for (double& value : values) value = change(value);
  return values;
}

Clues of_ranks(int ranks) {
  Clues clues;
  clues.ranks = ranks;
  return clues;
}

}  // namespace

TEST_CASE("NaN is never equal, whatever the tolerance, and the first is named") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Numbers bad = numbers();
  bad[4] = bad[9] = nan;
  CHECK_SAYS(said(bad), "element 4 is the first that is NaN");
  CHECK_FALSE(compare(bad, numbers(), 1e300).equal);
  CHECK_FALSE(compare(bad, bad, 1e300).equal);
  CHECK_SAYS(compare(bad, bad, 1).text, "expected element 4 is itself NaN");
  bad[2] = std::numeric_limits<double>::infinity();
  CHECK_SAYS(said(bad), "element 2 is the first that is infinite");
}

TEST_CASE("a constant ratio is named, and the world size recognised in it") {
  const auto times = [](double factor) {
    return each(numbers(), [factor](double x) { return factor * x; });
  };
  CHECK_SAYS(said(times(4), of_ranks(4)), "every value is 4x too large, the world size: a sum");
  CHECK_SAYS(said(times(0.25), of_ranks(4)),
             "every value is 4x too small, the world size: divided");
  CHECK_SAYS(said(times(16), of_ranks(4)), "16x too large, the world size squared");
  CHECK_SAYS(said(times(-1), of_ranks(4)), "wrong sign");
  CHECK_SAYS(said(times(2), of_ranks(4)), "every value is 2x too large\n");
  // One number alone is always some factor off: only a factor with a meaning is told.
  CHECK_SAYS(said({12}, of_ranks(4), {3}), "4x too large, the world size");
  CHECK_SAYS(said({15}, of_ranks(4), {3}), "1 of 1 elements are wrong");
}

TEST_CASE("a shift by ranks is told from a shift by elements") {
  // 17 over 4: chunks 0-4, 5-8, 9-12, 13-16. Rank c has filled chunk c with what belongs to c + 1.
  const Numbers right = numbers();
  Numbers wrong = right;
  for (int c = 0; c < 4; ++c)
    for (int64_t i = chunk_begin(17, 4, c); i < chunk_begin(17, 4, c + 1); ++i) {
      const int64_t from = chunk_begin(17, 4, (c + 1) % 4) + i - chunk_begin(17, 4, c);
      if (from < chunk_begin(17, 4, (c + 1) % 4 + 1)) wrong[i] = right[from];
    }
  CHECK_SAYS(said(wrong, of_ranks(4)), "every chunk is shifted by one rank");

  Numbers turned = right;
  std::rotate(turned.begin(), turned.begin() + 1, turned.end());
  CHECK_SAYS(said(turned, of_ranks(4)), "every element is shifted by 1");
}

TEST_CASE("a chunk that belongs to another rank is recognised, uneven lengths included") {
  Clues clues = of_ranks(4);
  clues.whole = numbers();
  clues.chunk = 0;
  const Numbers chunk0(clues.whole.begin(), clues.whole.begin() + 5);
  Numbers chunk1(clues.whole.begin() + 5, clues.whole.begin() + 9);
  chunk1.push_back(-1);  // its own is one shorter
  CHECK_SAYS(said(chunk1, clues, chunk0), "every chunk is shifted by one rank: chunk 1");
  const Numbers chunk3(clues.whole.begin() + 13, clues.whole.end());
  clues.chunk = 1;
  CHECK_SAYS(said(chunk3, clues, Numbers(clues.whole.begin() + 5, clues.whole.begin() + 9)),
             "shifted by 2 ranks: chunk 3");
}

TEST_CASE("a transpose is recognised") {
  Clues clues;
  clues.shape = {2, 3};
  CHECK_SAYS(said({1, 4, 2, 5, 3, 6}, clues, {1, 2, 3, 4, 5, 6}), "transposed");
  CHECK_SAYS(compare(Tensor::from<float>({1, 3, 2, 4}, {2, 2}),
                     Tensor::from<float>({1, 2, 3, 4}, {2, 2}), 0)
                 .text,
             "transposed");
}

TEST_CASE("missing ranks are named, in sums and means, everywhere or in one chunk") {
  Clues clues = of_ranks(4);
  Numbers total(17), half(17);
  for (int r = 0; r < 4; ++r) {
    clues.parts.push_back(numbers(17, 1.37 * (r + 1) * (r + 2)));
    for (size_t i = 0; i < 17; ++i) {
      total[i] += clues.parts.back()[i];
      if (r % 2 == 0) half[i] += clues.parts.back()[i];
    }
  }
  CHECK_SAYS(said(half, clues, total), "the numbers of ranks 1, 3 are missing from the sum");
  CHECK_SAYS(said(each(half, [](double x) { return x / 4; }), clues,
                  each(total, [](double x) { return x / 4; })),
             "the numbers of ranks 1, 3 are missing");
  CHECK_SAYS(said(clues.parts[2], clues, total), "only rank 2's own numbers: nothing was added");
  Numbers one_chunk = total;
  for (size_t i = 9; i < 13; ++i) one_chunk[i] -= clues.parts[3][i];
  CHECK_SAYS(said(one_chunk, clues, total),
             "in chunk 2 (elements 9 to 12) the numbers of rank 3 are missing");
}

TEST_CASE("untouched, zero and stale values are told apart") {
  Clues clues;
  clues.before = Numbers(17, -100.0);
  Numbers wrong = numbers();
  wrong[16] = -100;
  CHECK_SAYS(said(wrong, clues), "element 16 is untouched: still -100");
  wrong[15] = -100;
  CHECK_SAYS(said(wrong, clues), "elements 15 to 16 are untouched");
  CHECK_SAYS(said(clues.before, clues), "every element is untouched");
  wrong[3] = -100;
  CHECK_SAYS(said(wrong, clues), "3 of 17 elements, the first is 3, are untouched");
  wrong = numbers();
  wrong[5] = 0;
  CHECK_SAYS(said(wrong, clues), "element 5 is zero");
  CHECK_SAYS(said(Numbers(17), clues), "every element is zero");
  clues.suspects = {{"the gradient of the step before", numbers(17, 5)}};
  CHECK_SAYS(said(numbers(17, 5), clues), "every value equals the gradient of the step before");
}
