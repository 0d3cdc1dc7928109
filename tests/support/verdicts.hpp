// What the comparison helper says, for its tests.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "support/message_of.hpp"
#include "yotta/core/compare.hpp"

namespace yotta_test {

// 17 distinct numbers, so that nothing fits by chance.
inline yotta::Numbers numbers(int count = 17, double seed = 1) {
  yotta::Numbers made;
  for (int i = 0; i < count; ++i) made.push_back(seed * (3 + i * i) - 7 * i);
  return made;
}

// What is said about `actual` where numbers() was expected, after the name.
inline std::string said(const yotta::Numbers& actual, yotta::Clues clues = {},
                        const yotta::Numbers& expected = numbers()) {
  const yotta::Verdict verdict = yotta::compare(actual, expected, 1e-9, clues);
  CHECK(verdict.equal == verdict.text.empty());
  return verdict.text;
}

#define CHECK_SAYS(text, part) CHECK_MESSAGE(yotta_test::contains(text, part), text)

}  // namespace yotta_test
