#include "yotta/core/options.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

#include "support/message_of.hpp"

using namespace yotta;
using yotta_test::message_of;

namespace {
struct Knobs {
  double rate = 0.5;
  int64_t count = 3;
};
struct MoreKnobs : Knobs {};
constexpr double infinite = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("a range holds its ends where it says so, and never NaN") {
  for (const NumberRange& range : {zero_or_more, one_or_more, above_zero, below_one,
                                   above_zero_or_endless, NumberRange{1, 9}}) {
    CAPTURE(describe(range));
    CHECK_FALSE(range.holds(NAN));
    CHECK_FALSE(range.holds(-infinite));
    CHECK(range.holds(range.least) == range.with_least);
    CHECK(range.holds(range.most) == range.with_most);
    CHECK(range.holds(range.least + 0.5));
  }
}

TEST_CASE("a range in words") {
  CHECK(describe(zero_or_more) == "0 or more");
  CHECK(describe(above_zero) == "above 0");
  CHECK(describe(below_one) == "0 or more and below 1");
  CHECK(describe(above_zero_or_endless) == "above 0, or infinite");
  CHECK(describe({1, 9}) == "a number from 1 to 9");
  CHECK(describe({0, 1, false}) == "above 0 and at most 1");
}

TEST_CASE("an impossible option says where it is, which, what is possible and what is usual") {
  const auto error = [](const Knobs& knobs) {
    return message_of([&] {
      check_option(Where::current(), "Knobs::rate", knobs, &Knobs::rate, below_one);
      check_option(Where::current(), "Knobs::count", MoreKnobs(knobs), &Knobs::count, one_or_more);
    });
  };
  CHECK(error({}) == "nothing was thrown");
  const std::string rate = error({.rate = 1});
  CHECK(rate.starts_with("options_test.cpp:"));
  CHECK(rate.ends_with(": Knobs::rate is 1, expected 0 or more and below 1; by default it is 0.5"));
  CHECK(error({.rate = NAN}).find("is nan, expected a finite number, 0 or more") != rate.npos);
  CHECK(error({.count = -7}).find("Knobs::count is -7, expected 1 or more; by default it is 3") !=
        rate.npos);
}
