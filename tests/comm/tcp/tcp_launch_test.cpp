#include "yotta/comm/tcp/tcp_launch.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include <map>

#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;
using Variables = std::map<std::string, std::string>;

namespace {

std::optional<TcpEnvironment> environment_with(const Variables& variables) {
  return find_tcp_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}
std::string refusal_of(const Variables& variables) {
  return message_of([&] { environment_with(variables); });
}

const Variables torchrun = {
    {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29511"}};

}  // namespace

TEST_CASE("torchrun's variables") {
  const auto place = environment_with(torchrun);
  REQUIRE(place.has_value());
  CHECK(place->rank == 2);
  CHECK(place->size == 4);
  CHECK(place->rank0.text() == "node1:29511");
  CHECK(place->file.empty());
  CHECK(place->seconds == 60);
  Variables some = torchrun;
  some.erase("MASTER_PORT");
  some["YOTTA_RENDEZVOUS_SECONDS"] = "5";
  CHECK(environment_with(some)->rank0.port == 29500);
  CHECK(environment_with(some)->seconds == 5);
  some["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(environment_with(some)->rank0.port == 29501);
}

TEST_CASE("a file in place of an address; srun's variables in place of a rank") {
  const auto by_file = environment_with(
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"YOTTA_RENDEZVOUS_FILE", "/shared/job"}});
  REQUIRE(by_file.has_value());
  CHECK(by_file->file == "/shared/job");
  const auto by_slurm = environment_with(
      {{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"MASTER_ADDR", "node1"}});
  REQUIRE(by_slurm.has_value());
  CHECK(by_slurm->rank == 3);
  CHECK(by_slurm->size == 8);
}

TEST_CASE("a process that was started alone has no place") {
  CHECK_FALSE(environment_with({}).has_value());
  CHECK_FALSE(environment_with({{"RANK", "1"}, {"WORLD_SIZE", "2"}}).has_value());
  CHECK_FALSE(environment_with({{"RANK", "1"}, {"MASTER_ADDR", "node1"}}).has_value());
  CHECK_FALSE(environment_with({{"MASTER_ADDR", "node1"}}).has_value());
  CHECK_FALSE(
      environment_with({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", ""}}).has_value());
}

TEST_CASE("what is no number is refused by name") {
  for (const auto& [name, value] :
       Variables{{"RANK", "two"}, {"WORLD_SIZE", "0"}, {"MASTER_PORT", "70000"}, {"RANK", "-1"}}) {
    Variables wrong = torchrun;
    wrong[name] = value;
    CHECK(contains(refusal_of(wrong), fmt::format("{} is \"{}\"; it should be", name, value)));
  }
  for (const char* name :
       {"RANK", "WORLD_SIZE", "MASTER_PORT", "YOTTA_RENDEZVOUS_SECONDS", "LOCAL_WORLD_SIZE"}) {
    Variables empty = torchrun;  // as of a variable of the shell that was never set
    empty[name] = "";
    CHECK(contains(refusal_of(empty), fmt::format("{} is \"\"; it should be", name)));
  }
}

TEST_CASE("the key, and whether the job runs on one machine") {
  Variables with_key = torchrun;
  CHECK(environment_with(with_key)->key.empty());
  CHECK_FALSE(environment_with(with_key)->one_machine);
  const std::string key = make_job_key();
  CHECK(is_job_key(key));
  CHECK(make_job_key() != key);
  with_key["YOTTA_JOB_KEY"] = key;
  CHECK(environment_with(with_key)->key == key);
  for (const std::string& wrong : {std::string("secret"), key.substr(1), key.substr(1) + "g"}) {
    with_key["YOTTA_JOB_KEY"] = wrong;
    CHECK(contains(refusal_of(with_key),
                   "it should be 64 hexadecimal digits. Make one with: "
                   "export YOTTA_JOB_KEY=$(openssl rand -hex 32)"));
    CHECK_FALSE(contains(refusal_of(with_key), wrong));  // it is a secret, even so
  }
  Variables local = torchrun;
  local["LOCAL_WORLD_SIZE"] = "4";
  CHECK(environment_with(local)->one_machine);
  local["LOCAL_WORLD_SIZE"] = "2";
  CHECK_FALSE(environment_with(local)->one_machine);
  for (const char* host : {"localhost", "127.0.0.1", "::1"}) {
    local["MASTER_ADDR"] = host;
    CHECK(environment_with(local)->one_machine);
  }
}

namespace {

LaunchResult run_script(int n, const std::string& script) {
  return start_processes(n, {"/bin/sh", "-c", script});
}

}  // namespace

TEST_CASE("each process has its place, at an address of this machine, and a key") {
  const LaunchResult result = run_script(
      3,
      "test $RANK = $LOCAL_RANK -a $RANK -lt 3 -a $WORLD_SIZE = 3 -a $LOCAL_WORLD_SIZE = 3 "
      "-a $MASTER_ADDR = 127.0.0.1 -a $MASTER_PORT -gt 0 -a ${#YOTTA_JOB_KEY} = 64 "
      "-a -z \"$YOTTA_RENDEZVOUS_FILE\" -a -n \"$PATH\" -a -n \"$YOTTA_WORDS\" "
      "&& if [ $RANK = 0 ]; then test -e /proc/self/fd/$YOTTA_LISTEN_FD; "
      "else test -z \"$YOTTA_LISTEN_FD\"; fi");
  CHECK(result.status == 0);
  CHECK(result.text.empty());
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
  setenv("MASTER_ADDR", "node1", 1);
  CHECK(run_script(1, "test $RANK = 0 -a $MASTER_ADDR = 127.0.0.1").status == 0);
  unsetenv("RANK");
  unsetenv("MASTER_ADDR");
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
  CHECK(contains(message_of([] { start_processes(2, {"/no/such/program"}); }),
                 "cannot start /no/such/program: No such file or directory"));
}
