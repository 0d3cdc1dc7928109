#include "yotta/comm/processes/process_watch.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <string_view>
#include <thread>

using namespace yotta;

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
  for (int looks = 0; looks < 10000 && watch.ended() < 0; ++looks)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
