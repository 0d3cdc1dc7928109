// What this process says on stderr while one of these lives.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace yotta_test {

class StderrText {
 public:
  StderrText() {
    std::fflush(stderr);
    dup2(fileno(file_), STDERR_FILENO);
  }
  ~StderrText() {
    std::fflush(stderr);
    dup2(before_, STDERR_FILENO);
    close(before_);
    std::fclose(file_);
  }
  StderrText(const StderrText&) = delete;
  StderrText& operator=(const StderrText&) = delete;

  std::string get() const {
    std::array<char, 4096> text;
    const ssize_t length = pread(fileno(file_), text.data(), text.size(), 0);
    return {text.data(), static_cast<size_t>(length < 0 ? 0 : length)};
  }

 private:
  int before_ = dup(STDERR_FILENO);
  std::FILE* file_ = std::tmpfile();
};

// What it says while this code runs.
template <class Code>
std::string stderr_of(Code code) {
  const StderrText text;
  code();
  std::fflush(stderr);
  return text.get();
}

}  // namespace yotta_test
