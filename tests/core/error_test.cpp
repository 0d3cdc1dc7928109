#include "yotta/core/error.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
struct Special : Error {
  using Error::Error;
};
void callee(Where where = Where::current()) { fail(where, "expected {}, got {}", 3, "four"); }
}  // namespace

TEST_CASE("an error names the caller's line and keeps its kind") {
  try {
    callee();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          fmt::format("error_test.cpp:{}: expected 3, got four", error.where().line()));
    CHECK(error.where().line() > 10);
  }
  CHECK_THROWS_AS(fail_as<Special>(Where::current(), "x"), Special);
}

TEST_CASE("an error from elsewhere keeps its text") {
  const Special error(Error::Verbatim{}, Where::current(), "far.cpp:7: expected 3, got four");
  CHECK(std::string(error.what()) == "far.cpp:7: expected 3, got four");
}
