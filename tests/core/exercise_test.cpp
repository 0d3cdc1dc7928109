#include "yotta/core/exercise.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
constexpr int answer() {
  int result = 0;
  not_done("1.2");
  return result;
}
}  // namespace

TEST_CASE("what is not done says so, with its place, when it is run") {
  try {
    answer();
    FAIL("it did not throw");
  } catch (const NotDone& error) {
    const std::string text = error.what();
    CHECK(text.starts_with("exercise_test.cpp:10: "));
    CHECK(text.ends_with("exercise 1.2 is not done yet"));
  }
}

TEST_CASE("what is not done compiles even in a constant") {
  static_assert(answer() == 0);
  CHECK_THROWS_AS(not_done("1.3"), NotDone);
}

TEST_CASE("a grader can have not_done ignored") {
  ignore_not_done = true;
  CHECK_NOTHROW(not_done("1.3"));
  ignore_not_done = false;
  CHECK_THROWS_AS(not_done("1.3"), NotDone);
}
