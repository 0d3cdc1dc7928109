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

// Both streams go into a file for as long as it lives.
class StreamsInto {
 public:
  explicit StreamsInto(const std::string& file) {
    std::fflush(nullptr);
    const int to = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(to, STDOUT_FILENO), dup2(to, STDERR_FILENO);
    close(to);
  }
  ~StreamsInto() {
    std::fflush(nullptr);
    dup2(out_, STDOUT_FILENO), dup2(err_, STDERR_FILENO);
    close(out_), close(err_);
  }
  StreamsInto(const StreamsInto&) = delete;
  StreamsInto& operator=(const StreamsInto&) = delete;

 private:
  int out_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3),
      err_ = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
};

// The status of a verb, and what it has said on both streams.
inline runner::Ending said_by(const std::function<int()>& verb) {
  const TemporaryFolder folder;
  runner::Ending ending;
  {
    const StreamsInto file(folder / "said");
    ending.status = verb();
  }
  ending.output = runner::read_text(folder / "said");
  return ending;
}

}  // namespace yotta_test
