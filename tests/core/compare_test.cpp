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

TEST_CASE("tensors are compared with their shapes") {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({3, 2});
  CHECK(compare(a, a.clone(), 0).equal);
  CHECK_SAYS(compare(a, b, 0).text, "(2, 3) f32, expected (3, 2) f32");
}
