#include "yotta/model/nearest.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("only what works is suggested") {
  CHECK(nearest_of({}) == "");
  CHECK(nearest_of({{"dp 4", false}}) == "");
  CHECK(nearest_of({{"dp 4", false}, {"ep 2", true}}) == ". Nearest: ep 2");
  CHECK(nearest_of({{"dp 4", true}, {"ep 2", true}}) == ". Nearest: dp 4, or ep 2");
}
