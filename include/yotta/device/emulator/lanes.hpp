// Lanes: a CUDA thread on the CPU is a fiber, a function with a stack of its own that can stop in
// the middle.
//
//     scheduler   to_lane(0)          to_lane(1)                    to_lane(0)
//                     |    ^              |    ^                        |
//     lane 0          +----+              |    |                        +---> after __syncthreads()
//     lane 1          __syncthreads()     +----+ __syncthreads()
//
// All lanes of a block take turns on one OS thread, so a __shared__ array is simply a thread_local
// one. This is cheaper than core/system/fiber.hpp, which matters for blocks of 1024 threads: stacks
// are kept for the next block, a switch is one call of Boost.Context's jump_fcontext, and a lane
// that fails is abandoned where it stopped. A kernel owns nothing, so there is nothing to unwind.
// AddressSanitizer must be told of each switch. It makes a second stack for each, in which it
// finds uses of what functions leave behind; that is kept with the first, since it takes longer to
// make than most kernels run. A lane never returns from its first functions, so each leaves a few
// frames there: they are freed at every 32nd start, since a search for them takes as long as a
// short lane runs. (A second stack that is full is not used.)
//
// Cost: two switches per lane and barrier, some 5 ns each; 68 KiB of address space per lane, of
// which it touches one or two pages. Stacks lie an odd number of pages apart and begin at different
// offsets within their pages. With a power of two, or the same offset, all would compete for the
// same few sets of the caches and of the TLB, and a checked barrier of 1024 threads would take 1.4
// times as long.
#pragma once

#include <sys/mman.h>

#include <array>
#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/device/emulator/task.hpp"

#if YOTTA_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

inline constexpr size_t page_bytes = 4096;
inline constexpr size_t stack_bytes = 17 * page_bytes;  // with its guard page

// The stacks of one block, each with a guard page below it that stops an overflow.
class Stacks {
 public:
  // Without guard pages, any number of stacks may exist: the system limits the number of mappings.
  explicit Stacks(int lanes, bool guarded = true) : lanes_(lanes), guarded_(guarded) {
    void* memory = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      fail(Where::current(), "no memory for the stacks of {} threads", lanes);
    memory_ = static_cast<std::byte*>(memory);
    for (int i = 0; guarded && i < lanes; ++i) ::mprotect(bottom(i), page_bytes, PROT_NONE);
  }
  ~Stacks() { ::munmap(memory_, bytes()); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  size_t bytes() const { return static_cast<size_t>(lanes_) * stack_bytes; }
  std::byte* bottom(int lane) const { return memory_ + static_cast<size_t>(lane) * stack_bytes; }
  std::byte* top(int lane) const {
    const size_t cache_line = static_cast<size_t>(lane) * 5 % 64;
    return bottom(lane + 1) - cache_line * 64;
  }
#if YOTTA_ASAN
  void*& sanitizer_stack(int lane) { return sanitizer_stacks_[static_cast<size_t>(lane)]; }
  bool frees_frames_now(int lane) { return ++starts_[static_cast<size_t>(lane)] % 32 == 0; }
#endif

  // Stacks of earlier launches, or new ones.
  static Stacks* take(int lanes = most_threads, bool guarded = true) {
    const std::lock_guard lock(mutex());
    std::vector<Stacks*>& free = idle()[{lanes, guarded}];
    if (free.empty()) return new Stacks(lanes, guarded);
    Stacks* stacks = free.back();
    free.pop_back();
    return stacks;
  }
  static void give_back(Stacks* stacks) {
    const std::lock_guard lock(mutex());
    idle()[{stacks->lanes_, stacks->guarded_}].push_back(stacks);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  using Idle = std::map<std::pair<int, bool>, std::vector<Stacks*>>;
  static Idle& idle() {
    static auto* all = new Idle;  // never destroyed: threads may outlive main()
    return *all;
  }
  int lanes_;
  bool guarded_;
  std::byte* memory_;
#if YOTTA_ASAN
  std::array<void*, most_threads> sanitizer_stacks_ = {};
  std::array<uint8_t, most_threads> starts_ = {};
#endif
};

class Block;

enum class LaneState : uint8_t {
  ready,       // may run
  at_barrier,  // in __syncthreads()
  at_grid,     // in this_grid().sync()
  in_warp,     // in a shuffle, a vote, __syncwarp() or another instruction of the whole warp
  returned
};

// How far a fence reaches.
enum class FenceScope : uint8_t { block, device };
// Which writes of threads it shows to bulk copies: all, or the initialisation of mbarriers.
enum class ProxyFence : uint8_t { all, mbarriers };
// What copies in a thread's place.
enum class Copier : uint8_t { cp_async, bulk_load, bulk_store, wgmma };

// What a lane brings to an instruction that several lanes of a warp execute together.
struct WarpCall {
  const char* name = nullptr;  // "__shfl_sync()"
  uint32_t mask = 0;           // the lanes that take part
  void* mine = nullptr;        // this lane's operands and result
  void (*run)(void* const (&lanes)[32]) = nullptr;
};

// A cp.async that this lane has issued and not yet waited for.
struct AsyncCopy {
  void* to = nullptr;          // shared memory
  const void* from = nullptr;  // global memory
  size_t bytes = 0;            // 4, 8 or 16
  size_t from_bytes = 0;       // so many are copied, the rest is set to zero
  int group = 0;               // committed with this group
  Where where;
#if defined(YOTTA_CHECKED)
  std::array<std::byte, 16> source = {};  // what lay there when the copy began
#endif
};

// Adjacent bytes that a bulk copy moves.
struct CopyPiece {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // null: zeros
  size_t bytes = 0;
};

// One CUDA thread. What a barrier needs of it comes first, in one line of the cache.
struct alignas(64) Lane {
  static constexpr int never = -1;
  boost::context::detail::fcontext_t context = nullptr;  // where it continues
  Block* block = nullptr;
  Where where;              // the line at which it waits
  Where barrier;            // the last __syncthreads() that it has reached; line 0: none
  int index = 0;            // in the block
  int ticks = 0;            // of its CPU time since it came further (watchdog.hpp)
  int gave_way_at = never;  // the tick at which it last let others go first, at `where`
  int vote = 0;             // brought to __syncthreads_count() and its like
  LaneState state = LaneState::ready;
  bool waits = false;                   // it has let others go first since it came further
  int in_warp = 0;                      // index % 32; the warp is index / 32
  uint3 thread = {}, block_index = {};  // threadIdx, blockIdx
  dim3 block_size, grid_size;           // blockDim, gridDim
  uintptr_t looked_at = 0;              // a volatile variable that it has just read
  uint64_t cluster_arrivals = 0, cluster_waits = 0;  // at its cluster's barrier, and those done
  WarpCall call;
  std::vector<AsyncCopy> copies;
  int copy_group = 0;  // the group that cp.async belongs to until the next commit
};

// The lane that runs on this OS thread; null outside kernels.
YOTTA_THREAD_LOCAL Lane* this_lane = nullptr;

// The same for a word that only kernels may use.
inline Lane& running_lane(const char* word, Where where) {
  if (this_lane == nullptr) refuse_on_host(word, where);
  return *this_lane;
}

// Its patience is over: watchdog.hpp.
YOTTA_THREAD_LOCAL volatile bool lane_is_late = false;

// Switches between the scheduler and the lanes of one OS thread.
//
//     scheduler   start(lane), to_lane(lane) ─┐           ┌─ goes on
//     lane                                    └─ to_scheduler() in a barrier
class Switch {
 public:
  using Enter = void (*)(boost::context::detail::transfer_t);

  explicit Switch(Stacks& stacks) : stacks_(stacks) {}

  // The lane will begin with enter(); what its stack held before is discarded.
  void start(Lane& lane, Enter enter) {
    std::byte* const top = stacks_.top(lane.index);
    const auto bytes = static_cast<size_t>(top - bottom(lane));
#if YOTTA_ASAN
    __asan_unpoison_memory_region(bottom(lane), bytes);
#endif
    lane.context = boost::context::detail::make_fcontext(top, bytes, enter);
  }

  // From the scheduler into a lane, until that switches back.
  void to_lane(Lane& lane) {
#if YOTTA_ASAN
    __sanitizer_start_switch_fiber(&scheduler_stack_, bottom(lane), stack_bytes - page_bytes);
#endif
    const auto back = boost::context::detail::jump_fcontext(lane.context, &lane);
#if YOTTA_ASAN
    __sanitizer_finish_switch_fiber(scheduler_stack_, nullptr, nullptr);
#endif
    lane.context = back.fctx;
  }

  // The first thing that a lane does.
  void arrived([[maybe_unused]] const Lane& lane, boost::context::detail::transfer_t from) {
    scheduler_ = from.fctx;
#if YOTTA_ASAN
    finish_switch(lane);
    if (stacks_.frees_frames_now(lane.index)) __asan_handle_no_return();
#endif
  }

  // From a lane to the scheduler, until that resumes the lane; a lane that has returned never is.
  void to_scheduler([[maybe_unused]] const Lane& lane) {
#if YOTTA_ASAN
    __sanitizer_start_switch_fiber(&stacks_.sanitizer_stack(lane.index), scheduler_bottom_,
                                   scheduler_bytes_);
#endif
    const auto back = boost::context::detail::jump_fcontext(scheduler_, nullptr);
#if YOTTA_ASAN
    finish_switch(lane);
#endif
    scheduler_ = back.fctx;
  }

  // The guard page of its stack begins here.
  const std::byte* bottom_of(const Lane& lane) const { return stacks_.bottom(lane.index); }

 private:
  std::byte* bottom(const Lane& lane) const { return stacks_.bottom(lane.index) + page_bytes; }

#if YOTTA_ASAN
  void finish_switch(const Lane& lane) {
    __sanitizer_finish_switch_fiber(stacks_.sanitizer_stack(lane.index), &scheduler_bottom_,
                                    &scheduler_bytes_);
  }
#endif

  Stacks& stacks_;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
#if YOTTA_ASAN
  void* scheduler_stack_ = nullptr;
  const void* scheduler_bottom_ = nullptr;
  size_t scheduler_bytes_ = 0;
#endif
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
