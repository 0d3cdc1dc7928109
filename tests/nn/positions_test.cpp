#include "yotta/nn/positions.hpp"

#include <doctest/doctest.h>

using namespace yotta;

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

TEST_CASE("packed sequences: tokens stand at places in the sequence, positions in the document") {
  // Two sequences of 6 tokens; a rank has columns 1, 2, 5 of the first and 0, 3, 4 of the second.
  const std::vector<int32_t> documents = {0, 0, 1, 1, 1, 2, /* second */ 0, 1, 1, 1, 1, 1};
  const Packing all = packing_of(documents, 6);
  CHECK(all.positions == std::vector<int32_t>{0, 1, 0, 1, 2, 0, 0, 0, 1, 2, 3, 4});
  CHECK(all.sequences() == 2);
  const Packing own = packing_of(documents, 6, {1, 2, 5, 0, 3, 4});
  CHECK(own.positions == std::vector<int32_t>{1, 0, 0, 0, 2, 3});
  Positions at;
  at.packing = &own;
  CHECK(at.place(2, 3) == 5);
  CHECK(at.place(4, 3) == 3);
  CHECK(at.each()[5] == 3);
  CHECK(at.end(3) == 6);
  CHECK_THROWS_WITH_AS(at.expect_packing("rope", 7, false, Where::current()),
                       doctest::Contains("rope: 7 tokens, and a packing of 6"), Error);
  CHECK_THROWS_WITH_AS(at.expect_packing("rope", 6, true, Where::current()),
                       doctest::Contains("on a GPU"), Error);
}
