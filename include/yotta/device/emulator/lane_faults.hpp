// What ends a program elsewhere and only a launch here: a lane that touches memory where there is
// none, needs more stack than it has, divides an integer by zero, or fails an assert().
//
//     lane     x = a[i] / 0     ── SIGFPE ──►  handler: leaves the lane for good
//     scheduler                                throws KernelError: block, thread, line, what to do
//
// The handler runs on a stack of its own, since the lane's may be at its end. It leaves the lane
// only where that is in the program's own code: elsewhere, in malloc for example, a lock would stay
// locked. There it says which thread it was, and the program ends as it would without us.
// abort() is taken for an assertion's: one that malloc() calls leaves its lock behind.
// Sanitizers have handlers of their own, so there nothing is done.
// Reference: sigaction(2), sigaltstack(2).
#pragma once

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <string>

#include "yotta/core/system/build.hpp"
#include "yotta/device/emulator/access_faults.hpp"
#include "yotta/device/emulator/lanes.hpp"
#include "yotta/device/emulator/watchdog.hpp"

namespace yotta {

// Called in a signal's handler; returns only if no lane runs here, or it cannot be left.
using LeaveLane = void (*)(int signal, uintptr_t address, uintptr_t instruction);

// While one of these lives, signals of this OS thread that end a program are handed to `leave`.
class LaneFaults {
 public:
#if defined(__linux__) && !defined(__CLANG_REPL__) && !YOTTA_ASAN && !YOTTA_TSAN
  explicit LaneFaults(LeaveLane leave) {
    install();
    stack_t now = {};
    ::sigaltstack(nullptr, &now);
    const stack_t own = {stack(), 0, stack_size};
    if ((now.ss_flags & SS_DISABLE) != 0) ::sigaltstack(&own, nullptr);
    leave_here() = leave;
  }
  ~LaneFaults() { leave_here() = nullptr; }
  LaneFaults(const LaneFaults&) = delete;
  LaneFaults& operator=(const LaneFaults&) = delete;

 private:
  static constexpr int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
  static constexpr size_t stack_size = 64 * 1024;

  static std::byte* stack() {
    static thread_local std::array<std::byte, stack_size> one;
    return one.data();
  }
  static LeaveLane& leave_here() {
    static thread_local LeaveLane one = nullptr;
    return one;
  }
  static struct sigaction& before(int signal) {
    static struct sigaction all[std::size(signals)];
    return all[std::find(std::begin(signals), std::end(signals), signal) - std::begin(signals)];
  }
  // At every launch, since others (doctest) install theirs at any time.
  static void install() {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    for (const int signal : signals) {
      struct sigaction now = {}, action = {};
      ::sigaction(signal, nullptr, &now);
      if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == handle) continue;
      before(signal) = now;
      action.sa_sigaction = handle;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
      ::sigaction(signal, &action, nullptr);
    }
  }
  YOTTA_UNSEEN static void handle(int signal, siginfo_t* info, void* context) {
    const bool happened = info->si_code > 0;  // else somebody has sent it
    const bool aborts =
        signal == SIGABRT && info->si_code == SI_TKILL && info->si_pid == ::getpid();
    if (const LeaveLane leave = leave_here(); leave != nullptr && (happened || aborts))
      leave(signal, reinterpret_cast<uintptr_t>(info->si_addr), CpuTicks::instruction_of(context));
    // The handler of before gets the signal: the instruction that failed runs again, and one that
    // was sent is sent again.
    ::sigaction(signal, &before(signal), nullptr);
    if (!happened) ::raise(signal);
  }
#else
  explicit LaneFaults(LeaveLane) {}
#endif
};

inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// What stopped a lane.
struct LaneFault {
  int signal = 0;  // 0: nothing
  uintptr_t address = 0, instruction = 0;
  bool in_stack = false;  // the address is at the end of the lane's stack
};

inline std::string explain(const LaneFault& fault) {
  if (fault.signal == SIGFPE) return "divides an integer by zero. Guard the division";
  if (fault.signal == SIGABRT) return "has called std::abort. Has an assertion failed?";
  if (fault.in_stack)
    return fmt::format(
        "needs more than the {} KiB of stack that a thread has here. Keep large arrays in shared "
        "or global memory, and recurse less deeply",
        (stack_bytes - page_bytes) / 1024);
  return fmt::format("reads or writes {}", explain_pointer(fault.address));
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
