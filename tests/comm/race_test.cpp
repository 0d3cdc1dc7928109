#include "yotta/comm/race.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("one rank after the other: no addition is lost") {
  CHECK(play_race("000111", 41).back().counter == 43);
  CHECK(play_race("111000", 41).back().counter == 43);
  CHECK(play_race("000111222").back().counter == 3);
  CHECK(play_race("000000").back().counter == 2);  // one rank may add again
  CHECK(play_race("").empty());
}

TEST_CASE("both have read before one has written: an addition is lost") {
  const std::vector<RaceStep> steps = play_race("010101", 41);
  REQUIRE(steps.size() == 6);
  CHECK(steps.back().counter == 42);
  const int64_t held[] = {41, 41, 42, 42, 42, 42}, counter[] = {41, 41, 41, 41, 42, 42};
  for (size_t i = 0; i < 6; ++i) {
    CHECK(steps[i].rank == static_cast<int>(i % 2));
    CHECK(steps[i].kind == static_cast<RaceStep::Kind>(i / 2));
    CHECK(steps[i].held == held[i]);
    CHECK(steps[i].counter == counter[i]);
  }
  for (const char* order : {"001101", "011100", "001011"})
    CHECK(play_race(order).back().counter == 1);
}

TEST_CASE("of all orders, those are right in which ranks follow each other: p! of (3p)! / 6^p") {
  CHECK(count_race_orders(1).all == 1);
  CHECK(count_race_orders(2).all == 20);
  CHECK(count_race_orders(2).right == 2);
  CHECK(count_race_orders(3).all == 1680);
  CHECK(count_race_orders(3).right == 6);
}
