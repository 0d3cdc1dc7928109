#include "yotta/comm/processes/parent_watchdog.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>

using namespace yotta;

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

template <class Done>
bool comes(Done done) {
  for (int looks = 0; looks < 10000 && !done(); ++looks)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return done();
}

}  // namespace

TEST_CASE("a process's environment and its parent can be read") {
  const pid_t child = start({"/bin/sleep", "60"}, "PMI_RANK=2");
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
  CHECK_FALSE(find_place(environment));  // of how many?
  CHECK(parent_of_process(child) == getpid());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(environment_of_process(child)("PMI_RANK") == nullptr);
  CHECK(parent_of_process(child) == 0);
}

TEST_CASE("who is in no job has no starter") {
  if (!find_place()) CHECK(find_starter() == 0);
}

TEST_CASE("the end of the starter is noticed, once; and while it lives nothing happens") {
  const pid_t child = start({"/bin/sleep", "60"});
  std::atomic<int> ends = 0, others = 0;
  {
    const StarterWatch nobody(0, [&](int) { ++others; }), itself(getpid(), [&](int) { ++others; });
    const StarterWatch watch(child, [&](int process) { ends += process == child ? 1 : 0; });
    CHECK(ends == 0);
    kill(child, SIGKILL);
    CHECK(comes([&] { return ends == 1; }));
  }
  CHECK(ends == 1);
  CHECK(others == 0);
  waitpid(child, nullptr, 0);
}
