// A table of calls that are refused, each in these words and at the line of the test.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "support/message_of.hpp"

namespace yotta_test {

struct Refused {
  std::string words;
  std::function<void()> call;
};

inline void check_refused(const std::vector<Refused>& rows,
                          yotta::Where where = yotta::Where::current()) {
  const std::string place = yotta::at(where);
  for (const Refused& row : rows) {
    const std::string message = message_of(row.call);
    CAPTURE(message);
    CHECK(contains(message, row.words));
    CHECK(message.starts_with(place.substr(0, place.find(':') + 1)));
  }
}

}  // namespace yotta_test
