#include "yotta/core/system/stack_overflow.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <functional>
#include <string>
#include <thread>

#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "yotta/core/system/fiber.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

[[gnu::noinline]] int recurse(int depth) {
  volatile char frame[1000];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? frame[0] : recurse(depth - 1) + frame[0];
}
void in_a_fiber(const std::function<void()>& code, size_t bytes = 256 * 1024) {
  Fiber fiber(code, bytes);
  fiber.resume();
}

struct End {
  int signal = 0;
  std::string said;
};
// How a process ends that runs this on a new thread, and what it says on stderr.
End end_of(const std::function<void()>& code) {
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGSEGV, SIG_DFL);  // not that of the tests
    dup2(pipes[1], STDERR_FILENO);
    std::thread(code).join();
    _exit(0);
  }
  close(pipes[1]);
  End end;
  char some[512];
  for (ssize_t got; (got = read(pipes[0], some, sizeof some)) > 0;)
    end.said.append(some, static_cast<size_t>(got));
  close(pipes[0]);
  int status = 0;
  waitpid(child, &status, 0);
  end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return end;
}

}  // namespace

TEST_CASE("a fiber that overflows its stack says so, and ends the program as before") {
  if (YOTTA_ASAN || YOTTA_TSAN) YOTTA_NOT_RUN("a sanitizer says it in its own words");
  const End end = end_of([] { in_a_fiber([] { recurse(1000000); }); });
  CHECK(end.signal == SIGSEGV);
  CHECK(contains(end.said, "stack overflow: a fiber needs more than its 256 KiB"));
  CHECK(contains(end.said, "try: keep large arrays on the heap"));
  const End small = end_of([] { in_a_fiber([] { recurse(1000000); }, 64 * 1024); });
  CHECK(contains(small.said, "more than its 64 KiB"));
}

TEST_CASE("what faults elsewhere ends as it always has, and what fits runs") {
  if (YOTTA_ASAN || YOTTA_TSAN) YOTTA_NOT_RUN("a sanitizer says it in its own words");
  const End fault =
      end_of([] { in_a_fiber([] { *reinterpret_cast<volatile int*>(uintptr_t{64}) = 1; }); });
  CHECK(fault.signal == SIGSEGV);
  CHECK(fault.said.empty());
  const End outside = end_of([] {
    in_a_fiber([] {});
    raise(SIGSEGV);
  });
  CHECK(outside.signal == SIGSEGV);
  CHECK(outside.said.empty());
  const End well = end_of([] { in_a_fiber([] { recurse(100); }); });
  CHECK(well.signal == 0);
  CHECK(well.said.empty());
}
