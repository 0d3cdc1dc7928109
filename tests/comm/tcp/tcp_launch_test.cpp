#include "yotta/comm/tcp/tcp_launch.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

JobEnd run_script(int n, const std::string& script) {
  return start_processes(n, {"/bin/sh", "-c", script});
}

}  // namespace

TEST_CASE("each process has its place, and a file in a folder that is there") {
  const JobEnd end = run_script(
      3,
      "test $RANK = $LOCAL_RANK -a $RANK -lt 3 -a $WORLD_SIZE = 3 -a $LOCAL_WORLD_SIZE = 3 "
      "-a -d ${YOTTA_RENDEZVOUS_FILE%/*} -a -z \"$MASTER_ADDR\" -a -n \"$PATH\"");
  CHECK(end.status == 0);
  CHECK(end.text.empty());
}

TEST_CASE("an older place in the environment is replaced") {
  setenv("RANK", "17", 1);
  setenv("MASTER_ADDR", "node1", 1);
  CHECK(run_script(1, "test $RANK = 0 -a -z \"$MASTER_ADDR\"").status == 0);
  unsetenv("RANK");
  unsetenv("MASTER_ADDR");
}

TEST_CASE("the status is that of the lowest rank that failed; who was killed is named") {
  CHECK(run_script(3, "exit $RANK").status == 1);
  const JobEnd killed = run_script(3, "test $RANK != 2 || kill -9 $$");
  CHECK(killed.status == 128 + 9);
  CHECK(killed.text == "rank 2 was killed: Killed\n");
}

TEST_CASE("who ignores SIGCHLD, as some programs that start others do, hears of failures too") {
  signal(SIGCHLD, SIG_IGN);
  CHECK(run_script(2, "exit 3").status == 3);
  CHECK((signal(SIGCHLD, SIG_DFL) == SIG_IGN));  // as before
}

TEST_CASE("a program that is not there") {
  CHECK(contains(message_of([] { start_processes(2, {"/no/such/program"}); }),
                 "cannot start /no/such/program: No such file or directory"));
}
