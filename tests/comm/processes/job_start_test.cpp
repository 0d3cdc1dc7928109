#include "yotta/comm/processes/job_start.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// A stand-in for mpirun, which starts nothing and ends with this status.
MpirunCall stand_in(const std::string& script) { return {{"/bin/sh", "-c", script}, {}}; }

LaunchResult watch(const std::vector<std::string>& scripts, double patience = 20) {
  RankWords words(static_cast<int>(scripts.size()));
  std::vector<pid_t> processes;
  for (const std::string& script : scripts)
    processes.push_back(
        start_process({"/bin/sh", "-c", script}, own_environment_with({}), SIGKILL));
  return JobWatch(processes, words, patience).wait();
}

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

TEST_CASE("mpirun finds its settings, unless they are set already") {
  MpirunCall call = stand_in("test $ONE = 1 -a $TWO = mine && exit 5");
  call.setting = {{"ONE", "1"}, {"TWO", "2"}};
  setenv("TWO", "mine", 1);
  CHECK(start_mpirun(call, 1).status == 5);
  unsetenv("TWO");
}

TEST_CASE("the status of a job is that of its lowest rank that failed") {
  CHECK(watch({"exit 0", "exit 0"}).status == 0);
  CHECK(watch({"exit 0", "exit 4", "exit 5"}).status == 4);
  CHECK(watch({"kill -9 $$", "exit 0"}).text == "rank 0 was killed: Killed\n");
}

namespace {
std::string ready;  // a file that the process makes when it can take the signal
int usr1_when_ready() { return std::filesystem::exists(ready) ? SIGUSR1 : 0; }
}  // namespace

TEST_CASE("a signal that has come to the starter is passed on, to mpirun too") {
  const TemporaryFolder folder;
  ready = (folder / "ready").string();
  const std::string script =
      "trap 'exit 7' USR1; touch " + ready + "; while :; do sleep 0.01; done";
  RankWords words(1);
  const pid_t process = start_process({"/bin/sh", "-c", script}, own_environment_with({}), SIGKILL);
  CHECK(JobWatch({process}, words, 20, usr1_when_ready).wait().status == 7);
  std::filesystem::remove(ready);
  CHECK(start_mpirun(stand_in(script), 1, usr1_when_ready).status == 7);
}

TEST_CASE("a process that is stopped when another fails is killed after a while, and named") {
  const LaunchResult result = watch({"kill -STOP $$", "exit 4", "exit 0"}, 0.2);
  CHECK(result.status == 128 + 9);
  CHECK(
      result.text ==
      "rank 0 has not ended within 0.2 s after that. Was it stopped?\nrank 0 was killed: Killed\n");
  CHECK(watch({"sleep 0.5", "exit 0"}, 0.1).text.empty());  // none has failed
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
