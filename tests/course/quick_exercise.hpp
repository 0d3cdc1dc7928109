// The exercise that compiles fastest, for tests that grade files.
#pragma once

#include <string>

#include "runner/exercise.hpp"

namespace yotta_test {

inline const runner::Exercise& quick_exercise() {
  static const runner::Exercise matmul = runner::read_exercise(YOTTA_SOURCE_DIR, "03_matmul");
  return matmul;
}

// "library", "starter", or the name of a wrong solution.
inline std::string solution(const std::string& variant) {
  return runner::variant_of(quick_exercise(), variant);
}

}  // namespace yotta_test
