// For tests of the runner: the exercise that compiles fastest, and verbs that are called here.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

#include "runner/exercise.hpp"
#include "runner/process.hpp"
#include "support/temporary_folder.hpp"

namespace yotta_test {

inline const runner::Exercise& quick_exercise() {
  static const runner::Exercise matmul = runner::read_exercise(YOTTA_SOURCE_DIR, "03_matmul");
  return matmul;
}

// "library", "starter", or the name of a wrong solution.
inline std::string solution(const std::string& variant) {
  return runner::variant_of(quick_exercise(), variant);
}

// The status of a verb, and what it has said on both streams.
inline runner::Ending said_by(const std::function<int()>& verb) {
  const TemporaryFolder folder;
  const std::string file = folder / "said";
  std::fflush(nullptr);
  const int to = creat(file.c_str(), 0600), out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
  dup2(to, STDOUT_FILENO), dup2(to, STDERR_FILENO);
  runner::Ending ending;
  ending.status = verb();
  std::fflush(nullptr);
  dup2(out, STDOUT_FILENO), dup2(err, STDERR_FILENO);
  for (const int each : {to, out, err}) close(each);
  ending.output = runner::read_text(file);
  return ending;
}

}  // namespace yotta_test
