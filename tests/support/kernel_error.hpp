// For tests of kernels that must be caught: the message of a launch, and what it must say.
#pragma once

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <exception>
#include <fstream>
#include <initializer_list>
#include <string>

#include "yotta/core/error.hpp"

// What run() throws, or "no error".
template <class Run>
std::string error_of(Run run) {
  try {
    run();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

// "x_test.cpp:17: ", the line of the calling test file that ends in "// line: mark".
inline std::string line_at(const std::string& mark, yotta::Where where = yotta::Where::current()) {
  std::string path = where.file_name();
#ifdef YOTTA_BUILD_DIR  // where the compiler ran
  if (!path.starts_with('/')) path = std::string(YOTTA_BUILD_DIR) + "/" + path;
#endif
  std::ifstream file(path);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.ends_with("// line: " + mark)) {
      const std::string name = yotta::at(where);
      return fmt::format("{}:{}: ", name.substr(0, name.find(':')), number);
    }
  }
  return "no line is marked " + mark;
}

inline void check_says(const std::string& message, std::initializer_list<std::string> words) {
  for (const std::string& each : words) {
    INFO("expected: " << each << "\n  got: " << message);
    CHECK(message.find(each) != std::string::npos);
  }
}
