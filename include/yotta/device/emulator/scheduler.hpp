// The scheduler: starts a kernel on the CPU. It hands the blocks of the grid to OS threads in
// order, and runs the lanes of each block in a random order from barrier to barrier.
//
//     block  0 1 2 3 4 5 ...   an OS thread takes the next block, runs it to its end, takes another
//     OS thread 0  [0] [2][3] ..
//     OS thread 1  [1]    [4] ..
//
//     in a block:  warp 2, lanes 5 0 9 .. | warp 0, lanes 7 3 1 .. | ..  -> barrier ->  warp 1, ..
//
// The order of warps, and of lanes in a warp, is drawn anew for each pass from a seed: a kernel
// that forgets a barrier goes wrong, and goes wrong in the same way with the same seed. A warp runs
// until all its lanes have returned or wait for the block.
//
// A launch returns when all blocks have run; the error that stopped one of them is thrown here.
// With several failing blocks that is the first in order, however many OS threads there are. A
// launch never hangs: when no lane can go on, the block says who waits where, and a lane that never
// ends its turn loses it (watchdog.hpp).
//
// In a cooperative launch, and with emulator_options().blocks_at_once, as many blocks as fit on the
// chip (occupancy.hpp) are there at once. They take turns on one OS thread, in random order, so
// they may meet in this_grid().sync() and wait for each other's flags:
//
//     OS thread    block 2  block 0  block 1 | block 0  block 2  block 1 | ...
//                  runs until it has ended, waits for the grid, or its threads let others go first
//
// The next block is started when one has ended, as on a GPU. When those that are there wait for one
// that is not, the error says how many fit, and why. Static shared memory is one thread_local array
// for all blocks, so its contents are exchanged when the turn goes to another block.
// The blocks of a cluster are there at once in the same way, one cluster after the other. They see
// each other's dynamic shared memory where it is, and static arrays where they are kept meanwhile.
//
// Limits are those of compute capability 9.0: 1024 threads and 227 KiB of shared memory per block,
// 48 KiB of it static.
// Reference: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "yotta/device/emulator/cuda_errors.hpp"
#include "yotta/device/emulator/task.hpp"
#include "yotta/device/occupancy.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// How the emulator runs kernels from now on.
struct EmulatorOptions {
  uint64_t seed = 1;  // of the order in which threads run
  int threads = 0;    // OS threads; 0: as many as this rank may use; checked kernels always use one
  double patience = 10;  // seconds of CPU time that a thread may run without reaching a barrier
  // Whether blocks are there at once, as many as fit on the chip, and do not run one after the
  // other. Slower; for blocks that wait for each other though the launch is not cooperative.
  bool blocks_at_once = false;
  // Whether threads may return before a barrier that others of their block or cluster reach. GPUs
  // since Volta allow it; it is refused unless a program asks for it, since it is a mistake more
  // often.
  bool may_return_early = false;
  Multiprocessors chip = multiprocessors_of("h100");
};
EmulatorOptions& emulator_options();

namespace emulator {

// Runs all blocks of a launch; throws the error of the first block that failed, and KernelError if
// no GPU could run it.
void run_kernel(const Task& task);

// What a block of this kernel needs, its __shared__ arrays included.
BlockNeeds needs_of(const void* kernel, dim3 block, size_t shared_bytes);

template <class... Parameters>
BlockNeeds needs_of(void (*kernel)(Parameters...), dim3 block, size_t shared_bytes) {
  return needs_of(reinterpret_cast<const void*>(kernel), block, shared_bytes);
}

// Runs it, or appends it to its stream (stream_queue.hpp).
void launch_on(cudaStream_t stream, const Task& task);

// Appends what may be pointers in an argument: itself, or each aligned word of a struct. A word
// that is no pointer lies in no allocation.
template <class T>
void add_pointers(const T& argument, std::vector<const void*>& out) {
  if constexpr (std::is_pointer_v<T>) {
    out.push_back(const_cast<const void*>(reinterpret_cast<const volatile void*>(argument)));
  } else if constexpr (std::is_class_v<T> && alignof(T) >= alignof(void*)) {
    for (size_t at = 0; at + sizeof(void*) <= sizeof(T); at += sizeof(void*)) {
      const void* word = nullptr;
      std::memcpy(&word, reinterpret_cast<const char*>(&argument) + at, sizeof word);
      out.push_back(word);
    }
  }
}

// Calls a kernel with copies of its arguments.
template <class... Parameters>
struct Call {
  void (*kernel)(Parameters...);
  std::tuple<Parameters...> arguments;

  YOTTA_UNSEEN static void run(const void* self) {
    static_cast<const Call*>(self)->call(std::index_sequence_for<Parameters...>{});
  }
  static const void* copy(const void* self) { return new Call(*static_cast<const Call*>(self)); }
  static void drop(const void* self) { delete static_cast<const Call*>(self); }
  static void pointers(const void* self, std::vector<const void*>& out) {
    std::apply([&](const auto&... each) { (add_pointers(each, out), ...); },
               static_cast<const Call*>(self)->arguments);
  }

  template <size_t... I>
  YOTTA_UNSEEN void call(std::index_sequence<I...>) const {
    kernel(std::get<I>(arguments)...);
  }
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

// How many blocks of a kernel fit on a multiprocessor of emulator_options().chip. Registers are not
// known here and do not count, so a GPU may say fewer (occupancy.hpp).
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          void (*kernel)(Parameters...),
                                                          int threads, size_t shared_bytes) {
  if (blocks == nullptr || threads < 1) return cudaErrorInvalidValue;
  const auto needs =
      yotta::emulator::needs_of(kernel, dim3(static_cast<unsigned>(threads)), shared_bytes);
  *blocks = yotta::occupancy(yotta::emulator_options().chip, needs).blocks();
  return cudaSuccess;
}

}  // namespace YOTTA_DEVICE_BUILD

#ifndef YOTTA_COMPILED
#include "yotta/device/emulator/impl/scheduler.ipp"
#endif
