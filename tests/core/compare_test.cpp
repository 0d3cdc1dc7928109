#include "yotta/core/compare.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "support/verdicts.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("equal numbers are equal, within the tolerance") {
  CHECK(compare(numbers(), numbers(), 0).equal);
  CHECK(compare(Numbers{}, Numbers{}, 0).equal);
  CHECK(compare(Numbers{100.5}, Numbers{100}, 0.005).equal);
  CHECK_FALSE(compare(Numbers{101}, Numbers{100}, 0.005).equal);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(compare(Numbers{infinity}, Numbers{infinity}, 0).equal);
  CHECK_FALSE(compare(Numbers{-infinity}, Numbers{infinity}, 1).equal);
}

TEST_CASE("the count is compared first") {
  CHECK_SAYS(said(numbers(16)), "has 16 elements, expected 17");
}

TEST_CASE("without an explanation the worst elements are shown") {
  Numbers wrong = numbers();
  wrong[2] += 1;
  wrong[7] += 3;
  wrong[9] -= 2;
  wrong[11] += 0.5;
  Clues clues;
  clues.what = "rank 1's chunk";
  const std::string text = said(wrong, clues);
  CHECK_SAYS(text, "rank 1's chunk: 4 of 17 elements are wrong");
  CHECK(text.find("element 7 ") < text.find("element 9 "));
  CHECK(text.find("element 9 ") < text.find("element 2 "));
  CHECK_FALSE(contains(text, "element 11"));
  wrong = numbers();
  std::swap(wrong[0], wrong[10]);
  CHECK_SAYS(said(wrong), "the right values in the wrong order: 2 of 17");
}

TEST_CASE("numbers that differ late are shown with the digits that differ") {
  const Numbers expected = {2.57889, 1, 7}, actual = {2.57889 + 1e-9, 1, 7};
  const std::string text = compare(actual, expected, 1e-12, {}).text;
  CHECK_SAYS(text, "expected 2.57889      got 2.578890001");
  CHECK_SAYS(text, "by 2.8e-10 of their size at most: rounded to a narrower type");
}

TEST_CASE("when all are wrong and nothing explains it, that is said") {
  const Numbers expected = {1, 2, 3, 4, 5}, actual = {7, -3, 11, 0.5, 2};
  CHECK_SAYS(compare(actual, expected, 1e-12, {}).text,
             "5 of 5 elements are wrong, and not by a factor, a shift or a missing rank");
}

TEST_CASE("tensors are compared with their shapes") {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({3, 2});
  CHECK(compare(a, a.clone(), 0).equal);
  CHECK_SAYS(compare(a, b, 0).text, "(2, 3) f32, expected (3, 2) f32");
}
