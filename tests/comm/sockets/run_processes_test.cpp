#include "yotta/comm/sockets/run_processes.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include "support/message_of.hpp"
#include "support/stderr_text.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/sockets/job_children.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

LaunchResult run_script(int n, const std::string& script, double patience = 20) {
  return run_processes(n, {"/bin/bash", "-c", script}, nullptr, patience);
}
std::string ready;  // a file that the process makes when it can take the signal
int usr1_when_ready() { return std::filesystem::exists(ready) ? SIGUSR1 : 0; }

}  // namespace

TEST_CASE("each process has its place, and a line to its starter that no other has") {
  const LaunchResult result = run_script(
      3,
      "test $RANK = $LOCAL_RANK -a $RANK -lt 3 -a $WORLD_SIZE = 3 -a $LOCAL_WORLD_SIZE = 3 "
      "-a $YOTTA_LAUNCHER = $PPID -a -n \"$PATH\" && test -S /proc/$$/fd/${YOTTA_WORDS#fd:} "
      "&& test $(find /proc/$$/fd -lname 'socket:*' | wc -l) = 1");
  CHECK(result.status == 0);
  CHECK(result.text.empty());
}

TEST_CASE("what a process says is printed once, also if it ends early") {
  const LaunchResult result =
      run_script(3, "test $RANK = 0 || { printf 'says no disk' >&${YOTTA_WORDS#fd:}; exit 3; }");
  CHECK(result.status == 3);
  CHECK(result.text == "no disk\n");
}

TEST_CASE("a process that has come and ends with status 0 without a word has failed") {
  const std::string come = "printf 'come 1' >&${YOTTA_WORDS#fd:}; ";
  const std::string well = "test $RANK = 1 || printf well >&${YOTTA_WORDS#fd:}; exit 0";
  const LaunchResult result = run_script(3, come + well);
  CHECK(result.status == 1);
  CHECK(result.text == "rank 1 ended with status 0 in the middle of the job (did it call exit?)\n");
}

TEST_CASE("a stopped process is named, once, and goes on when it is continued") {
  const std::string said = stderr_of([] {
    // When its starter has said so, or after a minute.
    const std::string named =
        "for i in {1..6000}; do test -s /dev/stderr && break; sleep 0.01; done";
    const std::string continued = "(" + named + "; kill -CONT $$) & kill -STOP $$; ";
    CHECK(run_script(2, "test $RANK = 0 && exit; " + continued + "exit 4").status == 4);
  });
  CHECK(said == "rank 1 is stopped: the run goes on when it is continued\n");
}

TEST_CASE("a signal that has come to the starter is passed on to all") {
  const TemporaryFolder folder;
  ready = (folder / "ready1").string();
  const std::string script = "trap 'exit 7' USR1; touch " + (folder / "ready").string() +
                             "$RANK; while :; do sleep 0.01; done";
  const std::string zero = "test $RANK = 0 && exit; ";
  CHECK(run_processes(2, {"/bin/sh", "-c", zero + script}, usr1_when_ready).status == 7);
}

TEST_CASE("a process that is stopped when another fails is killed after a while, and named") {
  const TemporaryFolder folder;
  const std::string rank = "echo $$ > " + (folder / "$RANK").string() + "; ",
                    zero = (folder / "0").string(), two = (folder / "2").string();
  // Rank 1 fails when rank 0 is stopped and rank 2 has ended.
  const std::string others = fmt::format(
      "until test -s {0} && grep -q '^State:.T' /proc/$(cat {0})/status && test -s {1} && "
      "! test -e /proc/$(cat {1}); do sleep 0.01; done; ",
      zero, two);
  std::string text;
  stderr_of([&] {
    const LaunchResult result = run_script(3,
                                           rank +
                                               "test $RANK = 0 && kill -STOP $$; test $RANK = 2 "
                                               "&& exit; " +
                                               others + "exit 4",
                                           0.2);
    CHECK(result.status == 128 + 9);
    text = result.text;
  });
  CHECK(
      text ==
      "rank 0 has not ended within 0.2 s after that. Was it stopped?\nrank 0 was killed: Killed\n");
  CHECK(run_script(2, "test $RANK = 1 || sleep 0.5", 0.1).text.empty());  // none has failed
}

TEST_CASE("what is not ranks of one machine is refused") {
  for (const int n : {0, -1, most_child_ranks + 1})
    CHECK(contains(message_of([&] { run_script(n, "exit 0"); }),
                   fmt::format("from 1 to 250 ranks, not {}", n)));
}

TEST_CASE("a job leaves no file, whatever becomes of it") {
  const yotta_test::TemporaryFolder folder;
  const char* const before = getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", folder.path().c_str(), 1);
  run_script(2, "exit 0");
  run_script(2, "kill -9 $$");
  kept.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("an older place in the environment is replaced") {
  setenv("RANK", "17", 1);
  CHECK(run_script(1, "test $RANK = 0").status == 0);
  unsetenv("RANK");
}

TEST_CASE("the status is that of the lowest rank that failed; one that was killed is named") {
  CHECK(run_script(3, "exit $RANK").status == 1);
  const LaunchResult killed = run_script(3, "test $RANK != 2 || kill -9 $$");
  CHECK(killed.status == 128 + 9);
  CHECK(killed.text == "rank 2 was killed: Killed\n");
}

TEST_CASE("a program that ignores SIGCHLD hears of failures too") {
  signal(SIGCHLD, SIG_IGN);
  CHECK(run_script(2, "exit 3").status == 3);
  CHECK((signal(SIGCHLD, SIG_DFL) == SIG_IGN));  // as before
}

TEST_CASE("a program that is not there") {
  CHECK(contains(message_of([] { run_processes(2, {"/no/such/program"}); }),
                 "cannot start /no/such/program: No such file or directory"));
}
