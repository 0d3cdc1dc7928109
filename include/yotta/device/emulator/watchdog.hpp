// Threads that cannot go on: a watchdog stops those that run forever, and reports say which thread
// waits where and what to do about it. So no kernel hangs the program.
//
// A barrier is for all threads of a block, and an instruction of a warp for all lanes of its mask.
// If some have returned, or wait at another line, the behaviour of a GPU is undefined: it hangs, or
// lets the others through too early. Here it is an error that names both sides.
//
//     while (*flag == 0) {}     lanes take turns, and this one never ends its turn: the lane that
//                               would set the flag never runs
//
//     OS thread   lane ───────────────┬─ others ─┬─ lane ───────── ... ────────────────►
//     its CPU time      tick   tick   tick       tick   tick     patience over: an error is thrown
//
// The compiler may have read the flag only once, so nothing of the loop can be counted. Hence a
// timer: the operating system interrupts the OS thread at every tick of its own CPU time (a busy
// machine costs no patience). After some ticks the handler lets the other lanes go first, as at a
// barrier; when patience is over, it leaves the lane for good. It does so only where the lane is in
// the program's own code. Within malloc, for example, a lock would stay locked; there it waits for
// the next tick. In the checked build a lane is nearly always within a hook, so the hook looks at
// its end whether the lane is late; and lanes take turns by what they do, never by time, so that
// the same seed finds the same fault.
//
// Patience is over when one lane has run for so long without coming further, or when lanes that let
// others go first have run for so long together while no lane of the block came further. A loop
// that meets a barrier in every round comes further, and is not found.
// Reference: timer_create(2), SIGEV_THREAD_ID; sigaction(2).
#pragma once

#include <fmt/format.h>
#include <link.h>
#include <signal.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yotta/device/emulator/debug_info.hpp"
#include "yotta/device/emulator/lanes.hpp"

namespace yotta {

// Whether this address is code or data of the program or of a library. Just-in-time code is
// neither.
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

// While one of these lives, tick(instruction) is called at every hundredth second of this OS
// thread's CPU time, in a signal handler. `tick` must have static storage.
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

  // Where a signal's handler has interrupted the program.
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

  timer_t timer_ = {};
  bool works_ = false;
};

inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// How long the lanes of a block have been running.
class Watchdog {
 public:
  static constexpr int slice = 5;  // ticks after which the others go first

  Watchdog(double seconds, const Image& image)
      : most_(seconds), begin_(image.begin), end_(image.end) {}

  // A lane has come further.
  void progress(Lane& lane) { lane.ticks = idle_ = 0; }
  void others_progress() { idle_ = 0; }
  // One tick more of this lane: whether it must be left.
  YOTTA_UNSEEN bool late(Lane& lane) {
    ++lane.ticks;
    ++idle_;
    const int ticks = lane.waits ? idle_ : lane.ticks;
    return ticks * CpuTicks::seconds >= most_;
  }
  // Whether the others go first now. No longer when patience is over for the block: then each lane
  // runs until its own is.
  YOTTA_UNSEEN bool ends_slice(const Lane& lane) const {
    return lane.ticks % slice == 0 && idle_ * CpuTicks::seconds < most_;
  }
  // Whether it can be left at this instruction.
  YOTTA_UNSEEN bool in_kernel_code(uintptr_t instruction) const {
    return end_ == 0 ? !in_some_image(instruction) : instruction - begin_ < end_ - begin_;
  }
  double most() const { return most_; }

 private:
  double most_;
  uintptr_t begin_, end_;  // of the kernel's image; 0: just-in-time code
  int idle_ = 0;           // ticks since a lane of the block has come further
};

// ---- Reports ----
inline std::string text(const uint3& index) {
  return fmt::format("({}, {}, {})", index.x, index.y, index.z);
}

// "waits in __syncthreads() at tile.hpp:17"
inline std::string doing(const Lane& lane) {
  switch (lane.state) {
    case LaneState::returned: return "has returned";
    case LaneState::at_barrier:
      return fmt::format("waits in __syncthreads() at {}", at(lane.where));
    case LaneState::at_grid:
      return fmt::format("waits in this_grid().sync() at {}", at(lane.where));
    case LaneState::in_warp:
      return fmt::format("waits in {} at {}", lane.call.name, at(lane.where));
    case LaneState::ready: break;
  }
  return "still runs";
}

inline bool same_line(Where a, Where b) {
  const bool same_file =
      a.file_name() == b.file_name() || std::string_view(a.file_name()) == b.file_name();
  return same_file && a.line() == b.line() && a.column() == b.column();
}

// Throws unless all lanes execute one instruction: same name and same mask. CUDA's own functions
// may stand on several lines; an instruction that all lanes execute as one (mma.sync.aligned) may
// not.
inline void check_same_call(const Lane& one, const Lane& other, Where launch) {
  const WarpCall &a = one.call, &b = other.call;
  const bool same_name = std::string_view(a.name) == b.name;
  const bool anywhere = std::string_view(a.name).starts_with("__");
  if (same_name && a.mask == b.mask && (anywhere || same_line(one.where, other.where))) return;
  fail_as<KernelError>(launch,
                       "{}: lanes of a warp meet in different instructions: thread {} {} with mask "
                       "{:#010x}, thread {} "
                       "{} with mask {:#010x}. All lanes of the mask must execute the same one: "
                       "move it out of the branch, "
                       "or give each branch the mask of its own lanes",
                       at(one.where), text(one.thread), doing(one), a.mask, text(other.thread),
                       doing(other), b.mask);
}

// A lane waits in an instruction of its warp for one that will not come.
[[noreturn]] inline void fail_for_warp(const std::vector<Lane>& lanes, const Lane& waiting,
                                       Where launch) {
  const Lane* missing = &waiting;
  const size_t first = static_cast<size_t>(waiting.index) / 32 * 32;
  for (size_t i = first; i < std::min(first + 32, lanes.size()); ++i) {
    const bool named = (waiting.call.mask >> (i % 32) & 1) != 0;
    if (named && lanes[i].state == LaneState::at_barrier) missing = &lanes[i];
  }
  fail_as<KernelError>(launch,
                       "{}: thread {} waits in {} for the lanes of mask {:#010x}, but thread {} "
                       "(lane {}) {}. Let every "
                       "lane that the mask names execute it, or leave the lane out of the mask",
                       at(waiting.where), text(waiting.thread), waiting.call.name,
                       waiting.call.mask, text(missing->thread), missing->index % 32,
                       doing(*missing));
}

// No lane can run: throws unless all wait at the same barrier, those apart that may have returned.
inline void check_all_at_barrier(const std::vector<Lane>& lanes, bool may_return, Where launch) {
  const Lane* waiting = nullptr;  // in a barrier
  for (const Lane& lane : lanes) {
    if (lane.state == LaneState::in_warp) fail_for_warp(lanes, lane, launch);
    const bool waits = lane.state == LaneState::at_barrier || lane.state == LaneState::at_grid;
    if (waits && waiting == nullptr) waiting = &lane;
  }
  const Lane* absent = nullptr;
  int present = 0;
  for (const Lane& lane : lanes) {
    if (may_return && lane.state == LaneState::returned) continue;
    const bool here = lane.state == waiting->state && same_line(lane.where, waiting->where);
    present += here;
    if (!here && absent == nullptr) absent = &lane;
  }
  if (absent == nullptr) return;
  fail_as<KernelError>(
      launch,
      "{}: divergent barrier: {} of {} threads, thread {} among them, wait in "
      "{}, but thread "
      "{} {}. All threads of a block must reach the same barrier: put the "
      "condition around the work, not "
      "around the barrier",
      at(waiting->where), present, lanes.size(), text(waiting->thread),
      waiting->state == LaneState::at_grid ? "this_grid().sync()" : "__syncthreads()",
      text(absent->thread), doing(*absent));
}

// "smooth<32>" of "void smooth[abi:yotta_kernel]<32>(float*)".
inline std::string kernel_name(const Image& image, const void* kernel) {
  const std::string tag = "[abi:yotta_kernel]",
                    symbol = SharedArrays::of(image).symbol_of(image, kernel);
  std::string name = demangled(symbol);
  if (const size_t begin = name.find(tag); begin != std::string::npos)
    name.erase(begin, tag.size());
  name.resize(std::min(name.size(), name.rfind('(')));
  return name.starts_with("void ") ? name.substr(5) : name;
}

// A lane has been at this line, or in its loop, for so many seconds.
[[noreturn]] inline void fail_for_loop(const Lane& lane, const std::string& line,
                                       const std::string& kernel, double seconds, Where launch) {
  fail_as<KernelError>(
      launch,
      "{}{}block {}, thread {}: has run for {} seconds, and no thread of the block has returned or "
      "come to a barrier. A loop whose condition never changes? A flag that it waits for must be "
      "read as volatile or by an atomic operation, and set by a thread that can run: blocks start "
      "one after the other, unless they are there at once (launch_cooperative, or "
      "emulator_options().blocks_at_once). A kernel that needs longer: "
      "emulator_options().patience",
      line.empty() ? "" : line + ": ", kernel.empty() ? "" : "kernel " + kernel + ", ",
      text(lane.block_index), text(lane.thread), seconds);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
