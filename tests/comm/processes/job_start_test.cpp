#include "yotta/comm/processes/job_start.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// A stand-in for mpirun, which starts nothing and ends with this status.
MpirunCall stand_in(const std::string& script) { return {{"/bin/sh", "-c", script}, {}}; }

}  // namespace

TEST_CASE("mpirun's word is not enough: each rank must have said that it has ended well") {
  const LaunchResult silent = start_mpirun(stand_in("exit 0"), 2);
  CHECK(silent.status == 1);
  CHECK(contains(silent.text,
                 "rank 0 ended before MPI_Finalize, although "
                 "/bin/sh reports success\nrank 1 ended before"));
  CHECK(start_mpirun(stand_in("exit 3"), 2).status == 3);
  CHECK(start_mpirun(stand_in("exit 3"), 2).text.empty());  // mpirun has said why
  CHECK(start_mpirun(stand_in("kill -9 $$"), 2).status == 128 + 9);
  CHECK(contains(message_of([] {
                   start_mpirun({{"/no/such/mpirun"}, {}}, 2);
                 }),
                 "cannot start /no/such/mpirun: No such file or directory"));
}

TEST_CASE("an error that a rank has left for the starter is in the result") {
  const TemporaryFolder folder;
  const std::string name = (folder / "name").string(), said = (folder / "said").string();
  const pid_t rank = fork();
  if (rank == 0) {
    while (!std::filesystem::exists(name)) usleep(1000);
    std::string words;
    std::getline(std::ifstream(name) >> std::ws, words);
    setenv(words_variable, words.c_str(), 1);
    const bool has_said = OwnWords(0).say("this host has no text");
    std::ofstream(said) << "yes";
    _exit(has_said ? 0 : 1);
  }
  const LaunchResult result =
      start_mpirun(stand_in("echo $YOTTA_WORDS > " + name + ".new; mv " + name + ".new " + name +
                            "; while ! test -e " + said + "; do sleep 0.01; done; exit 1"),
                   1);
  int status = 1;
  waitpid(rank, &status, 0);
  CHECK(status == 0);
  CHECK((result.status == 1 && result.text == "this host has no text\n"));
}

TEST_CASE("mpirun finds its settings, unless they are set already") {
  MpirunCall call = stand_in("test $ONE = 1 -a $TWO = mine && exit 5");
  call.setting = {{"ONE", "1"}, {"TWO", "2"}};
  setenv("TWO", "mine", 1);
  CHECK(start_mpirun(call, 1).status == 5);
  unsetenv("TWO");
}

namespace {
std::string ready;  // a file that the process makes when it can take the signal
int usr1_when_ready() { return std::filesystem::exists(ready) ? SIGUSR1 : 0; }
}  // namespace

TEST_CASE("a signal that has come to the starter is passed on to mpirun") {
  const TemporaryFolder folder;
  ready = (folder / "ready").string();
  const std::string script =
      "trap 'exit 7' USR1; touch " + ready + "; while :; do sleep 0.01; done";
  CHECK(start_mpirun(stand_in(script), 1, usr1_when_ready).status == 7);
}

TEST_CASE("a process ends with its starter, however that ends") {
  int ends[2] = {-1, -1};
  REQUIRE(pipe(ends) == 0);
  const pid_t starter = fork();
  if (starter == 0) {
    close(ends[0]);
    const pid_t process = start_process({"/bin/sleep", "300"}, own_environment_with({}), SIGKILL);
    if (write(ends[1], &process, sizeof process) < 0) _exit(1);
    close(ends[1]);
    pause();
  }
  close(ends[1]);
  pid_t process = 0;
  REQUIRE(read(ends[0], &process, sizeof process) == sizeof process);
  close(ends[0]);
  CHECK(kill(process, 0) == 0);
  kill(starter, SIGKILL);
  waitpid(starter, nullptr, 0);
  // Its new parent may take its time to ask how it has ended.
  CHECK(comes([&] {
    std::ifstream command_line("/proc/" + std::to_string(process) + "/cmdline");
    return command_line.get() == std::ifstream::traits_type::eof();
  }));
}
