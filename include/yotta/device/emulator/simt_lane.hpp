// Lanes: a CUDA thread on the CPU is a fiber, a function with a stack of its own that can stop in the middle.
//
//     scheduler   resume lane 0      resume lane 1                    resume lane 0
//                     |    ^             |    ^                           |
//     lane 0          +----+ suspend()   |    |                           +---> after __syncthreads()
//     lane 1          __syncthreads()    +----+ __syncthreads()
//
// All lanes of a block take turns on one OS thread, so a __shared__ array is simply a thread_local one. This is
// leaner than core/system/fiber.hpp, which a block of 1024 threads would feel: stacks are kept for the next block, a
// switch is one call of Boost.Context's jump_fcontext, and a lane that fails is left where it stands: a
// kernel owns nothing, so there is nothing to unwind.
//
// Cost: two switches a lane and barrier, some 5 ns each; 64 KiB of address space a lane, of which a page or
// two are touched. Stacks begin at different offsets within their pages: with the same offset all would fall
// into the same few sets of the cache.
#pragma once

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "yotta/core/system/build.hpp"
#include "yotta/core/error.hpp"
#include "yotta/device/emulator/simt_build.hpp"

struct uint3 {
  unsigned x, y, z;
};

// Sizes of a grid and of a block.
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

inline constexpr int most_threads = 1024;  // in a block
inline constexpr size_t stack_bytes = 64 * 1024;
inline constexpr size_t page_bytes = 4096;

// The stacks of one block, each with a page below it that stops whoever overflows it.
class Stacks {
 public:
  Stacks() {
    void* memory = ::mmap(nullptr, most_threads * stack_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      fail(Where::current(), "no memory for the stacks of {} threads", most_threads);
    memory_ = static_cast<std::byte*>(memory);
    for (int i = 0; i < most_threads; ++i) ::mprotect(bottom(i), page_bytes, PROT_NONE);
  }
  ~Stacks() { ::munmap(memory_, most_threads * stack_bytes); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  std::byte* bottom(int lane) const { return memory_ + static_cast<size_t>(lane) * stack_bytes; }
  std::byte* top(int lane) const {
    const size_t cache_line = static_cast<size_t>(lane) * 5 % 64;
    return bottom(lane + 1) - cache_line * 64;
  }

  // Stacks from earlier launches, or new ones.
  static Stacks* take() {
    const std::lock_guard lock(mutex());
    if (idle().empty()) return new Stacks;
    Stacks* stacks = idle().back();
    idle().pop_back();
    return stacks;
  }
  static void give_back(Stacks* stacks) {
    const std::lock_guard lock(mutex());
    idle().push_back(stacks);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::vector<Stacks*>& idle() {
    static auto* all = new std::vector<Stacks*>;  // never destroyed: threads may outlive main()
    return *all;
  }
  std::byte* memory_;
};

class Block;

enum class LaneState : uint8_t {
  ready,       // may run
  at_barrier,  // in __syncthreads()
  in_warp,     // in a shuffle, a vote, __syncwarp() or another instruction of the whole warp
  returned
};

// What a lane brings to an instruction that several lanes of a warp execute together (simt_warp.hpp).
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
};

// One CUDA thread.
struct Lane {
  boost::context::detail::fcontext_t context = nullptr;  // where it goes on
  Block* block = nullptr;
  uint3 thread = {}, block_index = {};  // threadIdx, blockIdx
  dim3 block_size, grid_size;           // blockDim, gridDim
  int index = 0;                        // in the block; warp index / 32, lane index % 32
  LaneState state = LaneState::ready;
  int waits = 0;  // how often it let the others go first (atomics.hpp)
  int vote = 0;   // brought to __syncthreads_count() and its like
  Where where;    // the line at which it waits
  WarpCall call;
  std::vector<AsyncCopy> copies;
  int copy_group = 0;  // the group that cp.async belongs to until the next commit
#if YOTTA_ASAN
  void* sanitizer_notes = nullptr;
#endif
};

// What a launch is, apart from its blocks.
struct Task {
  dim3 grid, size;
  size_t shared_bytes = 0;
  uint64_t seed = 0;
  const void* kernel = nullptr;  // where its code lies
  void (*call)(const void* arguments) = nullptr;
  const void* arguments = nullptr;
  size_t argument_bytes = 0;
  double patience = 10;  // seconds that a lane may run without coming to a barrier
  Where where;
};

// The place of number `index` in a grid or block.
constexpr uint3 coordinates(uint64_t index, dim3 in) {
  return {static_cast<unsigned>(index % in.x), static_cast<unsigned>(index / in.x % in.y),
          static_cast<unsigned>(index / in.x / in.y)};
}

// The lane that runs on this OS thread; null outside kernels.
YOTTA_THREAD_LOCAL Lane* this_lane = nullptr;

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
