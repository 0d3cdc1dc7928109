// A rank that is killed, or throws, ends all others within seconds, with its name: whatever they do. Here mpirun is
// started as the course's own programs start it.
// starts mpirun
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "yotta/comm/processes.hpp"

using namespace yotta;

namespace {

struct Ending {
  int status = 0;
  std::string output;

  bool says(const std::string& words) const { return output.find(words) != std::string::npos; }
};

// mpi_mishaps on three ranks; status 124: it had to be stopped after half a minute.
Ending run(const std::string& kind, int rank, int step) {
  const MpiKind mpi = std::string_view(MPI_NAME) == "mpich" ? MpiKind::mpich : MpiKind::open_mpi;
  const MpirunCall call =
      mpirun_call(mpi, MPIRUN, 3, {MISHAPS, kind, std::to_string(rank), std::to_string(step)});
  for (const auto& [name, value] : call.setting) setenv(name.c_str(), value.c_str(), 0);
  const std::string command = fmt::format("timeout 30 {} 2>&1", fmt::join(call.words, " "));
  Ending ending;
  FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> some;
  while (const size_t count = fread(some.data(), 1, some.size(), pipe))
    ending.output.append(some.data(), count);
  const int status = pclose(pipe);
  ending.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return ending;
}

}  // namespace

TEST_CASE("without a mishap the program ends well") {
  const Ending ending = run("none", 0, 0);
  CAPTURE(ending.output);
  CHECK(ending.status == 0);
}

TEST_CASE("a rank that is killed at any step is named, and all others end") {
  for (int step = 0; step <= 4; ++step) {
    const int rank = step % 3;
    const Ending ending = run("kill", rank, step);
    CAPTURE(step);
    CAPTURE(ending.output);
    CHECK(ending.status != 0);
    CHECK(ending.status != 124);
    // By Open MPI's mpirun, or by the other ranks.
    CHECK((ending.says(fmt::format("process rank {} with PID", rank)) ||
           ending.says(fmt::format("rank {} has failed: its process, ", rank))));
  }
}

TEST_CASE("a rank that throws at any step ends the job with its message, on every rank") {
  for (int step = 0; step <= 4; ++step) {
    const int rank = step % 3;
    const Ending ending = run("throw", rank, step);
    CAPTURE(step);
    CAPTURE(ending.output);
    CHECK(ending.status == 1);
    for (int process = 0; process < 3; ++process)
      CHECK(ending.says(fmt::format("process {}: ", process)));
    CHECK(ending.says(fmt::format("rank {} failed: mpi_mishaps.cpp:", rank)));
    CHECK(ending.says(fmt::format("the disk is full at step {}", step)));
  }
}
