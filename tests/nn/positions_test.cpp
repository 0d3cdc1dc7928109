#include "yotta/nn/positions.hpp"

#include <doctest/doctest.h>

using yotta::Positions;

TEST_CASE("one run goes on from the first column, two runs each from their own") {
  const Positions whole, later = 5, zigzag(2, 12);
  for (int64_t column = 0; column < 6; ++column) {
    CHECK(whole.of(column, 6) == column);
    CHECK(later.of(column, 6) == 5 + column);
  }
  const int64_t expected[] = {2, 3, 4, 12, 13, 14};
  for (int64_t column = 0; column < 6; ++column) CHECK(zigzag.of(column, 6) == expected[column]);
  CHECK(whole.runs() == 1);
  CHECK(zigzag.runs() == 2);
}

TEST_CASE("the end is one after the largest position, whichever run has it") {
  CHECK(Positions().end(6) == 6);
  CHECK(Positions(5).end(6) == 11);
  CHECK(Positions(2, 12).end(6) == 15);
  CHECK(Positions(12, 2).end(6) == 15);
  CHECK(Positions(5).end(0) == 5);
  CHECK(Positions(2, 12) == Positions(2, 12));
  CHECK_FALSE(Positions(2, 12) == Positions(2));
}
