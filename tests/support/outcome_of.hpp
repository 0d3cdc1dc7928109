// A program as a user starts it: what it prints, on both streams, and the status that it ends with.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace yotta_test {

struct Outcome {
  int status;  // -1: killed by a signal
  std::string text;
};
inline Outcome outcome_of(const std::string& program, const std::string& arguments) {
  const std::string command = "'" + program + "' " + arguments + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
    outcome.text += static_cast<char>(c);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

}  // namespace yotta_test
