// What run_ranks throws: its words and its kind, for tests of failures.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "yotta/comm/run_ranks.hpp"

namespace yotta_test {

// The text of the error, which must be a Kind; says so if nothing is thrown.
template <class Kind, class Body>
std::string error_of(int ranks, Body body, const yotta::RunOptions& options = {}) {
  try {
    yotta::run_ranks(ranks, body, options);
  } catch (const Kind& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another kind of error: ") + error.what();
  }
  return "nothing was thrown";
}

inline void check_says(const std::string& text, std::initializer_list<const char*> words) {
  CAPTURE(text);
  for (const char* word : words) {
    CAPTURE(word);
    CHECK(text.find(word) != std::string::npos);
  }
}

// "threads_test.cpp:12" for a line of the caller's file.
inline std::string here(int lines = 0, yotta::Where where = yotta::Where::current()) {
  const std::string text = yotta::at(where);
  const size_t colon = text.rfind(':');
  return text.substr(0, colon + 1) + std::to_string(static_cast<int>(where.line()) + lines);
}

}  // namespace yotta_test
