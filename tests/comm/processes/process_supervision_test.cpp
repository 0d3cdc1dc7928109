#include "yotta/comm/processes/process_supervision.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <string_view>

#include "support/longest_wait.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using yotta_test::comes;

TEST_CASE("the launcher of the MPI at hand is found, and no other MPI's") {
  CHECK(mpi_kind("Open MPI v4.1.4, package: Debian OpenMPI") == MpiKind::open_mpi);
  CHECK(mpi_kind("MPICH Version:      4.0.2") == MpiKind::mpich);
  CHECK(mpi_kind("Cray MPI") == MpiKind::other);
  const yotta_test::TemporaryFolder folder;
  const std::string here = folder.path().string();
  const auto tool = [&](const char* name) {
    std::FILE* file = std::fopen((here + "/" + name).c_str(), "w");
    std::fclose(file);
    chmod((here + "/" + name).c_str(), 0755);
  };
  const auto found = [&](MpiKind kind) {
    return find_program(mpirun_names(kind), "/nowhere:" + here + ":/elsewhere");
  };
  CHECK(found(MpiKind::open_mpi).empty());
  CHECK(find_program({"mpirun"}, "").empty());
  tool("mpirun");
  CHECK(found(MpiKind::open_mpi) == here + "/mpirun");
  CHECK(found(MpiKind::mpich) == here + "/mpirun");
  tool("mpirun.mpich");
  CHECK(found(MpiKind::open_mpi) == here + "/mpirun");
  CHECK(found(MpiKind::mpich) == here + "/mpirun.mpich");
  tool("mpirun.openmpi");
  CHECK(found(MpiKind::open_mpi) == here + "/mpirun.openmpi");
}

TEST_CASE("the command: so many processes, as root too, on fewer cores too") {
  const MpirunCall open = mpirun_call(MpiKind::open_mpi, "/usr/bin/mpirun", 4, {"lesson", "--x"});
  CHECK(fmt::format("{}", fmt::join(open.words, " ")) ==
        "/usr/bin/mpirun -n 4 --oversubscribe --bind-to none lesson --x");
  const auto has = [&](const char* name) {
    for (const auto& [key, value] : open.setting)
      if (key == name) return value == "1";
    return false;
  };
  CHECK(has("OMPI_ALLOW_RUN_AS_ROOT"));
  CHECK(has("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"));
  CHECK(has("OMPI_MCA_mpi_yield_when_idle"));
  const MpirunCall mpich = mpirun_call(MpiKind::mpich, "mpirun.mpich", 2, {"lesson"});
  CHECK(fmt::format("{}", fmt::join(mpich.words, " ")) ==
        R"(mpirun.mpich -n 2 sh -c "$@"; s=$?; [ $s -lt 128 ] || sleep 10; exit $s sh lesson)");
  CHECK(mpich.setting.size() == 2);
}

TEST_CASE("a process that is killed is seen, even before its parent has asked for its end") {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  ProcessAddress address = own_address();
  address.pid = child;
  ProcessWatch watch;
  watch.add(7, address);
  CHECK(watch.ended() == -1);
  kill(child, SIGKILL);
  CHECK(comes([&] { return watch.ended() >= 0; }));
  CHECK(watch.ended() == 7);
  waitpid(child, nullptr, 0);
}

TEST_CASE("this process, and those of other machines and containers, are not watched") {
  ProcessAddress other_host = own_address(), other_space = own_address();
  other_host.pid = other_space.pid = 1;
  other_host.host[0] = '!';
  other_space.space[0] = '!';
  CHECK(own_address().sees(own_address()));
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  const std::string space(own_address().space.data());
  CHECK(space.starts_with("pid:["));
  CHECK(space.ends_with("] " + boot));  // else any two machines of one name would be one
  CHECK_FALSE(own_address().sees(other_host));
  CHECK_FALSE(own_address().sees(other_space));
  CHECK_FALSE(ProcessAddress().sees(ProcessAddress()));
  ProcessWatch watch;
  watch.add(0, own_address());
  watch.add(1, other_host);
  CHECK(watch.ended() == -1);
}

namespace {

pid_t start(const std::vector<std::string>& words, const char* setting = nullptr) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  char* settings[] = {const_cast<char*>("FIRST="), const_cast<char*>(setting), nullptr};
  const pid_t child = fork();
  if (child != 0) return child;
  execve(pointers[0], pointers.data(), settings);
  _exit(127);
}

}  // namespace

TEST_CASE("a process's environment and its parent can be read") {
  const pid_t child = start({"/bin/sleep", "300"}, "PMI_RANK=2");
  const auto rank = [&]() -> std::string {
    const Environment environment = environment_of_process(child);  // owns the text
    const char* const text = environment("PMI_RANK");
    return text == nullptr ? "none" : text;
  };
  CHECK(comes([&] { return rank() == "2"; }));  // once it has begun
  const Environment environment = environment_of_process(child);
  REQUIRE(environment("FIRST") != nullptr);
  CHECK(std::string(environment("FIRST")).empty());
  CHECK(environment("PMI_RAN") == nullptr);
  CHECK(environment("MI_RANK") == nullptr);
  CHECK_FALSE(find_launch_environment(environment));  // of how many?
  CHECK(parent_of_process(child) == getpid());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(environment_of_process(child)("PMI_RANK") == nullptr);
  CHECK(parent_of_process(child) == 0);
}

TEST_CASE("a process that is in no job has no launcher") {
  if (!find_launch_environment()) CHECK(find_launcher() == 0);
}

TEST_CASE("the end of the launcher is noticed, once; and while it lives nothing happens") {
  const pid_t child = start({"/bin/sleep", "300"});
  std::atomic<int> ends = 0, others = 0;
  {
    const ParentWatchdog nobody(0, [&](int) { ++others; }),
        itself(getpid(), [&](int) { ++others; });
    const ParentWatchdog watch(child, [&](int process) { ends += process == child ? 1 : 0; });
    CHECK(ends == 0);
    kill(child, SIGKILL);
    CHECK(comes([&] { return ends == 1; }));
  }
  CHECK(ends == 1);
  CHECK(others == 0);
  waitpid(child, nullptr, 0);
}
