// What ctest tells a test program in its environment. A program that was started by hand has no
// such variable, and each case that needs it fails with what to do.
//
//     const std::string program = from_ctest("YOTTA_TRAIN");
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace yotta_test {

inline std::string from_ctest(const std::string& variable) {
  const char* const value = std::getenv(variable.c_str());
  if (value == nullptr || *value == '\0')
    throw std::runtime_error(
        variable +
        " is not set. Start this test by ctest, which sets it: "
        "`ctest --preset release -R NAME`, and `-N` instead of `-R NAME` lists "
        "the names");
  return value;
}

}  // namespace yotta_test
