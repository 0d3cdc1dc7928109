// A rank that is killed, or throws, ends all others within seconds, with its name: whatever they
// do. Here mpirun is started as the course's own programs start it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "support/longest_wait.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/processes/job_start.hpp"
#include "yotta/comm/processes/process_supervision.hpp"

using namespace yotta;
using yotta_test::longest_wait;

namespace {

struct Ending {
  int status = 0;
  std::string output;

  bool says(const std::string& words) const { return output.find(words) != std::string::npos; }
};

// mpi_mishaps on three ranks; status 124: it had to be stopped.
Ending run(const std::string& kind, int rank, int step,
           const std::vector<std::string>& before = {}) {
  const MpiKind mpi = std::string_view(MPI_NAME) == "mpich" ? MpiKind::mpich : MpiKind::open_mpi;
  std::vector<std::string> program = before;
  for (const std::string& word :
       {std::string(MISHAPS), kind, std::to_string(rank), std::to_string(step)})
    program.push_back(word);
  const MpirunCall call = mpirun_call(mpi, MPIRUN, 3, program);
  for (const auto& [name, value] : call.setting) setenv(name.c_str(), value.c_str(), 0);
  std::string command = fmt::format("timeout -k 1 {}", longest_wait);
  for (const std::string& word : call.words) command += " '" + word + "'";
  command += " 2>&1";
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

TEST_CASE("a rank that leaves before MPI ends is no good end, whatever mpirun says of it") {
  const MpiKind mpi = std::string_view(MPI_NAME) == "mpich" ? MpiKind::mpich : MpiKind::open_mpi;
  const auto end_of = [&](const std::string& kind) {
    return start_mpirun(
        mpirun_call(mpi, MPIRUN, 3,
                    {"timeout", std::to_string(longest_wait), MISHAPS, kind, "1", "0"}),
        3);
  };
  const LaunchResult left = end_of("leave"), well = end_of("none");
  CAPTURE(left.text);
  CAPTURE(well.text);
  CHECK(left.status != 0);
  CHECK(left.status != 124);  // it had to be stopped
  CHECK(well.status == 0);
  CHECK(well.text.empty());
}

// Where mpirun itself says nothing of it: then the starter has only the ranks' words.
TEST_CASE("a rank that leaves before MPI ends is named, where mpirun reports success") {
  const MpiKind mpi = std::string_view(MPI_NAME) == "mpich" ? MpiKind::mpich : MpiKind::open_mpi;
  MpirunCall call = mpirun_call(
      mpi, MPIRUN, 3, {"timeout", std::to_string(longest_wait), MISHAPS, "leave", "1", "0"});
  const std::vector<std::string> silenced = {"/bin/sh", "-c", "\"$@\" >/dev/null 2>&1; exit 0",
                                             "sh"};
  call.words.insert(call.words.begin(), silenced.begin(), silenced.end());
  const LaunchResult result = start_mpirun(call, 3);
  CHECK(result.status == 1);
  CHECK(result.text.find("rank 1 ended before MPI_Finalize") != std::string::npos);
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

// Without mpirun what the ranks print goes nowhere, so here they all print into a file.
TEST_CASE("when mpirun is killed all ranks end by themselves, and say why") {
  const yotta_test::TemporaryFolder folder;
  const std::string fifo = folder / "words";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const int words = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  const Ending ending =
      run("orphan", 1, 0, {"sh", "-c", "file=$1; shift; exec \"$@\" 2>$file", "sh", fifo});
  CHECK(ending.status != 124);
  fcntl(words, F_SETFL, 0);
  std::string said;  // to the end: until all have gone
  std::array<char, 4096> some;
  for (ssize_t count; (count = read(words, some.data(), some.size())) > 0;)
    said.append(some.data(), static_cast<size_t>(count));
  close(words);
  CAPTURE(ending.output);
  CAPTURE(said);
  for (int process = 0; process < 3; ++process)
    CHECK(said.find(fmt::format("So process {} of its job ends", process)) != said.npos);
}
