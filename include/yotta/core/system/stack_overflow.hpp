// A fiber that needs more stack than it has says so, before the program ends as it would anyway.
//
//     fiber's stack  ├─ guard page ─┼──────────── 256 KiB ────────────┤
//                          ▲ a write here is SIGSEGV: a line on stderr, then whatever would have
//                            happened without us: another's handler, or the end
//
// The handler runs on a stack of its own, since there is none left. Sanitizers have handlers that
// say the same, so there nothing is done.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>

#include "yotta/core/system/build.hpp"

namespace yotta {

// Where a stack is; its guard page is the lowest of it.
struct StackRange {
  const std::byte* low = nullptr;  // null: no stack that is watched
  size_t bytes = 0;
};

#if defined(__linux__) && !defined(__CLANG_REPL__) && !YOTTA_ASAN && !YOTTA_TSAN

namespace detail {
YOTTA_THREAD_LOCAL bool stacks_are_watched = false;
YOTTA_THREAD_LOCAL std::byte handler_stack[32 * 1024];

struct StackWatch {
  StackRange (*running)() = nullptr;  // of this thread
  struct sigaction before = {};
  std::mutex mutex;
};
inline StackWatch& stack_watch() {
  static auto* watch = new StackWatch;  // never destroyed: threads may outlive statics
  return *watch;
}

// A large frame may jump over the guard page, but seldom far.
inline bool is_overflow(const void* address, StackRange stack) {
  constexpr uintptr_t page = 4096, reach = 64 * 1024;
  const auto at = reinterpret_cast<uintptr_t>(address),
             low = reinterpret_cast<uintptr_t>(stack.low);
  return low != 0 && at + reach >= low && at < low + page;
}
inline void on_fault(int number, siginfo_t* info, void*) {
  const StackRange stack = stack_watch().running();
  if (is_overflow(info->si_addr, stack)) {
    char text[400];
    const int length = std::snprintf(
        text, sizeof text,
        "stack overflow: a fiber needs more than its %zu KiB. Fibers run asynchronous collectives "
        "and the emulator's CUDA threads\n  try: keep large arrays on the heap (std::vector), and "
        "recurse less deeply\n",
        (stack.bytes - 4096) / 1024);
    static_cast<void>(write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0);
  }
  sigaction(number, &stack_watch().before, nullptr);  // and the instruction runs again
  if (info->si_code <= 0) raise(number);              // somebody has sent it: there is none
}
}  // namespace detail

// Watches the stacks of this thread's fibers. `running` returns that of the one that runs on the
// thread which calls it.
inline void watch_stacks(StackRange (*running)()) {
  if (detail::stacks_are_watched) return;
  detail::stacks_are_watched = true;
  stack_t other{};
  sigaltstack(nullptr, &other);
  if ((other.ss_flags & SS_DISABLE) != 0) {
    const stack_t own{detail::handler_stack, 0, sizeof detail::handler_stack};
    sigaltstack(&own, nullptr);
  }
  detail::StackWatch& watch = detail::stack_watch();
  const std::lock_guard lock(watch.mutex);
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == detail::on_fault) return;
  watch.running = running;
  watch.before = now;
  struct sigaction ours {};
  ours.sa_sigaction = detail::on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &ours, nullptr);
}

#else
inline void watch_stacks(StackRange (*)()) {}
#endif

}  // namespace yotta
