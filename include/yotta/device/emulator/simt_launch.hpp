// Starts a kernel on the CPU: hands the blocks of the grid to OS threads, in order.
//
//     block  0 1 2 3 4 5 ...      each OS thread takes the next block, runs it to its end, takes another
//     OS thread 0  [0] [2][3] ..
//     OS thread 1  [1]    [4] ..
//
// A launch returns when all blocks have run; what stopped one of them is thrown here. With several failing
// blocks that is the first in order, however many OS threads there are.
//
// Limits are those of compute capability 9.0: 1024 threads and 227 KiB of shared memory a block, 48 of them static.
// Reference: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications.
#pragma once

#include <atomic>
#include <mutex>
#include <tuple>
#include <utility>

#include "yotta/core/context.hpp"
#include "yotta/core/cpu/thread_pool.hpp"
#include "yotta/device/emulator/simt_block.hpp"
#include "yotta/device/emulator/simt_memory.hpp"
#include "yotta/device/emulator/simt_shared_arrays.hpp"

struct CUstream_st;
using cudaStream_t = CUstream_st*;  // launches run at once, in order: every stream is the same

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// How the emulator runs kernels from now on.
struct EmulatorOptions {
  uint64_t seed = 1;  // of the order in which threads run
  int threads = 0;  // OS threads; 0: as many as this rank may use; checked kernels always take one
  double patience = 10;  // seconds of CPU time that a thread may run without coming to a barrier
};
inline EmulatorOptions& emulator_options() {
  static EmulatorOptions options;
  return options;
}

namespace emulator {

inline constexpr size_t most_shared_bytes = 227 * 1024;  // static and dynamic together
inline constexpr size_t most_static_bytes = 48 * 1024;

// The static arrays of a launch's kernel.
inline std::vector<SharedArray> arrays_of(const Task& task) {
  const Image image = image_of(task.kernel);
  return SharedArrays::of(image).of_kernel(image, task.kernel);
}

// Throws unless a GPU could run this launch.
inline void check_sizes(const Task& task) {
  const auto refuse_launch = [&](const std::string& why) {
    fail_as<KernelError>(task.where, "{}", why);
  };
  const dim3 block = task.size, grid = task.grid;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > most_threads || block.z > 64)
    refuse_launch(fmt::format(
        "a block of {} has {} threads; a GPU allows 1 to {}, and 64 along z. Use smaller blocks "
        "and more of them",
        text(block), threads, most_threads));
  if (uint64_t{grid.x} * grid.y * grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 ||
      grid.z > 65535)
    refuse_launch(fmt::format(
        "a grid of {} blocks; a GPU allows at least 1 and at most (2147483647, 65535, 65535). "
        "Launch nothing when there is nothing to do, and put the longest side in x",
        text(grid)));
  size_t in_arrays = 0;
  std::string arrays;
  for (const SharedArray& each : arrays_of(task)) {
    in_arrays += each.bytes;
    arrays += fmt::format("{}{} {}", arrays.empty() ? "" : ", ", each.name, each.bytes);
  }
  if (in_arrays > most_static_bytes)
    refuse_launch(
        fmt::format("too much shared memory: the kernel's __shared__ arrays take {} bytes ({}), "
                    "and {} (48 KiB) may be "
                    "static. Use smaller tiles, or dynamic_shared<T>() for more",
                    in_arrays, arrays, most_static_bytes));
  if (in_arrays + task.shared_bytes > most_shared_bytes)
    refuse_launch(
        fmt::format("too much shared memory: {} bytes a block were asked for, {} of them dynamic; "
                    "an H100 has {} (227 KiB). "
                    "Use smaller tiles or fewer stages",
                    in_arrays + task.shared_bytes, task.shared_bytes, most_shared_bytes));
}

// The stacks of one OS thread for the time of a launch.
class BorrowedStacks {
 public:
  BorrowedStacks() : stacks_(Stacks::take()) {}
  ~BorrowedStacks() { Stacks::give_back(stacks_); }
  BorrowedStacks(const BorrowedStacks&) = delete;
  BorrowedStacks& operator=(const BorrowedStacks&) = delete;
  Stacks& operator*() const { return *stacks_; }

 private:
  Stacks* stacks_;
};

// Runs all blocks; throws the error of the first block that failed.
inline void run_blocks(const Task& task) {
  const uint64_t blocks = uint64_t{task.grid.x} * task.grid.y * task.grid.z;
  std::atomic<uint64_t> next = 0, failed = blocks;
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&](int) {
    static constexpr CpuTicks::Tick tick = Block::tick;
    uint64_t number = blocks;
    try {
      const CpuTicks ticks(&tick);
      BorrowedStacks stacks;
      Block block(task, *stacks);
      while ((number = next++) < failed) block.run(number);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (number < failed) {
        failed = number;
        error = std::current_exception();
      }
    }
  };
#if defined(YOTTA_CHECKED)
  const int threads = 1;  // so that checks find the same fault every time
#else
  const int wanted = emulator_options().threads;
#if defined(__CLANG_REPL__)  // a helper awake while clang-repl ends runs code that is gone
  const int threads = std::max(1, wanted);
#else
  const int threads = wanted > 0 ? wanted : context().threads;
#endif
  DeviceMemory::instance().all_written();
#endif
  ThreadPool::instance().run(static_cast<int>(std::min<uint64_t>(threads, blocks)), work);
  if (error) std::rethrow_exception(error);
}

// Calls a kernel with copies of its arguments.
template <class... Parameters>
struct Call {
  void (*kernel)(Parameters...);
  std::tuple<Parameters...> arguments;

  YOTTA_UNSEEN static void run(const void* self) {
    static_cast<const Call*>(self)->call(std::index_sequence_for<Parameters...>{});
  }
  template <size_t... I>
  YOTTA_UNSEEN void call(std::index_sequence<I...>) const {
    kernel(std::get<I>(arguments)...);
  }
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
