// Watchdog: a thread that runs on and on is stopped, so that no kernel hangs the program.
//
//     while (*flag == 0) {}      lanes take turns, and this one never ends its turn: who would set the flag never runs
//
//     OS thread   lane ────────────────────────────────────────────► (forever)
//     its CPU time      tick   tick   tick   tick ...   patience over: to the scheduler, which throws
//
// The compiler may have read the flag once, so nothing of the loop can be counted. Hence a timer: the kernel of the
// operating system interrupts the OS thread at every tick of its own CPU time (a busy machine costs no patience), and the
// handler leaves the lane for good, as it would at a barrier. It does so only where the lane is in the program's own code:
// within malloc, say, a lock would stay locked; there it waits for the next tick.
// Reference: timer_create(2), SIGEV_THREAD_ID; sigaction(2).
#pragma once

#include <link.h>
#include <signal.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>

#include "yotta/device/emulator/simt_lane.hpp"
#include "yotta/device/emulator/simt_shared_arrays.hpp"

namespace yotta {

// Whether this address is code or data of the program or of a library: of just-in-time code it is not.
inline bool in_some_image(uintptr_t address) {
  const auto visit = [](dl_phdr_info* info, size_t, void* wanted) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      const uintptr_t offset = *static_cast<uintptr_t*>(wanted) - info->dlpi_addr - segment.p_vaddr;
      if (segment.p_type == PT_LOAD && offset < segment.p_memsz) return 1;
    }
    return 0;
  };
  return ::dl_iterate_phdr(visit, &address) != 0;
}

// While one of these lives, tick(instruction) is called at every hundredth second of this OS thread's CPU time, in a
// signal's handler. `tick` must live for ever: a static constant.
class CpuTicks {
 public:
  using Tick = void (*)(uintptr_t instruction);
  static constexpr double seconds = 0.01;

  explicit CpuTicks(const Tick* tick) {
    [[maybe_unused]] static const int installed = install();
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGVTALRM;
    event.sigev_value.sival_ptr = const_cast<Tick*>(tick);
    event._sigev_un._tid = ::gettid();
    works_ = ::timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
    const timespec each = {0, static_cast<long>(seconds * 1e9)};
    const itimerspec period = {each, each};
    if (works_) ::timer_settime(timer_, 0, &period, nullptr);
  }
  ~CpuTicks() {
    if (works_) ::timer_delete(timer_);
  }
  CpuTicks(const CpuTicks&) = delete;
  CpuTicks& operator=(const CpuTicks&) = delete;

 private:
  // SA_NODEFER, since a handler that leaves a lane does not return.
  static int install() {
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
    return ::sigaction(SIGVTALRM, &action, nullptr);
  }
  YOTTA_UNSEEN static void handle(int, siginfo_t* info, void* context) {
    const int error = errno;
    const auto* const tick = static_cast<const Tick*>(info->si_value.sival_ptr);
    if (info->si_code == SI_TIMER && tick != nullptr) (*tick)(instruction_of(context));
    errno = error;
  }
  YOTTA_UNSEEN static uintptr_t instruction_of(void* context) {
    const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return static_cast<uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return machine.pc;
#else
#error "where does this machine keep the address of the instruction that was interrupted?"
#endif
  }

  timer_t timer_ = {};
  bool works_ = false;
};

inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// How long one lane has been running.
class Watchdog {
 public:
  Watchdog(double seconds, const Image& image)
      : most_(seconds), begin_(image.begin), end_(image.end) {}

  void lane_resumes() { ticks_ = 0; }
  // One tick more: whether the lane that runs must be left at this instruction.
  YOTTA_UNSEEN bool over(uintptr_t instruction) {
    if (++ticks_ * CpuTicks::seconds < most_) return false;
    return end_ == 0 ? !in_some_image(instruction) : instruction - begin_ < end_ - begin_;
  }
  double most() const { return most_; }

 private:
  double most_;
  uintptr_t begin_, end_;  // of the kernel's image; 0: just-in-time code
  int ticks_ = 0;
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
