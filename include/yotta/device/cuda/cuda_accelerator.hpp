// Device::cuda: tensors in a GPU's memory, everything about them in order on one stream.
//
//     host       allocate  copy  launch  launch  release      each returns at once
//     stream     ─ malloc ─ copy ─ kernel ─ kernel ─ free ─►   each begins when the last has ended
//
// Memory is stream-ordered (cudaMallocAsync): a block that is released is free for what is asked
// for later on the same stream, with no wait. On a GPU it is kept here for that. The host waits
// only where it asks for values. It waits by polling, so that others can act meanwhile: a transport
// that finds that a peer is gone throws here instead of waiting forever.
//
// Layers and phases are ranges of NVTX, which Nsight Systems shows above the kernels.
//
// A step that was recorded (record) is a CUDA graph: its kernels have the addresses that they had.
// So memory that was asked for meanwhile stays with the graph and serves nobody else.
//
// nvcc compiles this file too, and under the emulator it serves tests and machines without a GPU:
// there everything has ended when it returns.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "yotta/core/system/accelerator.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/graphs.hpp"
#if defined(__CUDACC__)
#include <nvtx3/nvToolsExt.h>
#else
#include "yotta/device/emulator/global_memory.hpp"
#endif

namespace yotta {

// Called again and again while the host waits for the device, with the seconds it has waited; may
// throw.
using AcceleratorWatch = std::function<void(Where, double seconds)>;
inline AcceleratorWatch& accelerator_watch() {
  static AcceleratorWatch watch;
  return watch;
}

inline namespace YOTTA_DEVICE_BUILD {

// The stream on which this process computes.
inline cudaStream_t& compute_stream() {
  static cudaStream_t stream = nullptr;
  return stream;
}

// A stream for what other ranks wait for: where there is room on the device, its blocks go before
// those of compute_stream().
inline cudaStream_t make_urgent_stream(Where where = Where::current()) {
  cudaStream_t stream = nullptr;
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), where);
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), where);
  return stream;
}

// Is what a query asked about still under way? That is no error, but a runtime may keep it as its
// last one, which the next launch would report as its own.
inline bool still_runs(cudaError_t code, Where where = Where::current()) {
  if (code == cudaErrorNotReady) return static_cast<void>(cudaGetLastError()), true;
  check_cuda(code, where);
  return false;
}

class CudaAccelerator : public Accelerator {
 public:
  CudaAccelerator() = default;
  ~CudaAccelerator() override {
    give_back();
    if (finding_ != nullptr) static_cast<void>(cudaFreeHost(finding_));
    for (const Staged& each : staged_) {
      static_cast<void>(cudaEventSynchronize(each.copied));
      static_cast<void>(cudaEventDestroy(each.copied));
      static_cast<void>(cudaFreeHost(each.memory));
    }
  }
  CudaAccelerator(const CudaAccelerator&) = delete;
  CudaAccelerator& operator=(const CudaAccelerator&) = delete;

  // Whether released memory waits here for the next request of its size. The steps of a training
  // run ask for the same sizes, so from the second on the driver is asked for nothing. All use is
  // in the order of one stream: who gets the memory comes after who had it. False in the emulator
  // and for compute-sanitizer, which then see who uses what was released.
  bool keeps_memory = false;

  void* allocate(int64_t bytes, Where where) override {
    if (bytes == 0) return nullptr;
    if (!keeps_memory) return ask_driver(bytes, where);
    const std::lock_guard lock(mutex_);
    const int64_t size = (bytes + 511) / 512 * 512;
    Kept& own = recorded_ == nullptr ? kept_ : *recorded_;
    void* memory = take(own, size);
    if (memory == nullptr && recorded_ != nullptr) memory = take(kept_, size);
    if (memory == nullptr && recorded_ != nullptr)
      fail(where,
           "{} more bytes are needed while a step is recorded as a graph; run the same step just "
           "before, whose memory then waits to be used again",
           size);
    if (memory == nullptr) memory = ask_driver(size, where);
    blocks_[memory] = {size, &own};
    return memory;
  }
  void release(void* memory) noexcept override {
    if (memory == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(memory);
    if (found == blocks_.end())
      static_cast<void>(cudaFreeAsync(memory, compute_stream()));
    else
      (*found->second.home)[found->second.size].push_back(memory);
  }
  // The driver gets all that waits here.
  void give_back() noexcept {
    for (auto& [size, kept] : kept_)
      for (void* const memory : std::exchange(kept, {})) {
        blocks_.erase(memory);
        static_cast<void>(cudaFreeAsync(memory, compute_stream()));
      }
  }
  void copy(void* to, const void* from, int64_t bytes, Transfer transfer) override {
    if (bytes == 0) return;
    launch_gathered(Where::current());
    if (recorded_ != nullptr && transfer == Transfer::to_device)
      fail(Where::current(),
           "numbers of the host are copied while a step is recorded as a graph, which would copy "
           "the same ones in every step; dropout does so, for its masks");
    if (transfer == Transfer::to_device)
      return copy_to_device(to, from, static_cast<size_t>(bytes));
    if (transfer == Transfer::to_host) wait();
    check_cuda(cudaMemcpyAsync(
        to, from, static_cast<size_t>(bytes),
        transfer == Transfer::to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice,
        compute_stream()));
    if (transfer == Transfer::to_host) check_cuda(cudaStreamSynchronize(compute_stream()));
  }
  void copy_rows(void* to, int64_t to_row, const void* from, int64_t from_row, int64_t bytes,
                 int64_t rows) override {
    if (bytes == 0 || rows == 0) return;
    launch_gathered(Where::current());
    check_cuda(cudaMemcpy2DAsync(to, static_cast<size_t>(to_row), from,
                                 static_cast<size_t>(from_row), static_cast<size_t>(bytes),
                                 static_cast<size_t>(rows), cudaMemcpyDeviceToDevice,
                                 compute_stream()));
  }
  void zero(void* memory, int64_t bytes) override {
    if (bytes == 0) return;
    launch_gathered(Where::current());
    check_cuda(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), compute_stream()));
  }
  void wait(Where where = Where::current()) override {
    launch_gathered(where);
    if (recorded_ != nullptr)
      fail(where,
           "the host asks for values while a step is recorded as a graph: nothing is computed yet");
    const auto begin = std::chrono::steady_clock::now();
    const auto look = [&] {
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (accelerator_watch()) accelerator_watch()(where, waited.count());
    };
    look();
    while (still_runs(cudaStreamQuery(compute_stream()), where)) {
      look();
      std::this_thread::yield();
    }
    if (finding_ != nullptr) late_checks.raise(*finding_);
  }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& body, Where where) override {
    if (compute_stream() == nullptr || !keeps_memory)
      fail(where, "a step is recorded on a stream of its own, where released memory is kept");
    auto graph = std::make_unique<Graph>(*this);
    const Recording recording(*this, *graph);
    const auto all = [&](cudaStream_t) {
      body();
      launch_gathered(where);
    };
    graph->graph.emplace(compute_stream(), all, where);
    return graph;
  }
#if defined(__CUDACC__)
  void begin_range(const std::string& name) override {
    static_cast<void>(nvtxRangePushA(name.c_str()));
  }
  void end_range() override { static_cast<void>(nvtxRangePop()); }
#endif
  LateFinding* finding(Where where) override {
    const std::lock_guard lock(mutex_);
    if (finding_ == nullptr) {  // the host's memory, which kernels write into
      void* memory = nullptr;
      check_cuda(cudaMallocHost(&memory, sizeof(LateFinding)), where);
      finding_ = new (memory) LateFinding;
    }
    return finding_;
  }

 protected:
  virtual void* ask_driver(int64_t bytes, Where where) {
    void* memory = nullptr;
    const auto ask = [&] {
      return cudaMallocAsync(&memory, static_cast<size_t>(bytes), compute_stream());
    };
    cudaError_t code = ask();
    if (code == cudaErrorMemoryAllocation && !blocks_.empty()) {
      static_cast<void>(cudaGetLastError());
      give_back();
      code = ask();
    }
    if (code == cudaErrorMemoryAllocation) fail_no_memory(bytes, where);
    check_cuda(code, where);
    return memory;
  }

 private:
  using Kept = std::map<int64_t, std::vector<void*>>;  // memory that was released, by size
  struct Block {
    int64_t size = 0;
    Kept* home = nullptr;  // where it goes when it is released
  };
  struct Graph : RecordedWork {
    CudaAccelerator& device;
    Kept memory;
    LateChecks::OfGraph checks;
    std::optional<CudaGraph> graph;
    explicit Graph(CudaAccelerator& of) : device(of), checks(of.late_checks) {}
    ~Graph() override { device.take_over(memory); }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    void launch(Where where) override { graph->launch(compute_stream(), where); }
  };
  // While it lives, a graph is recorded, whose memory and checks new ones are.
  struct Recording {
    CudaAccelerator& device;
    Recording(CudaAccelerator& of, Graph& graph) : device(of) {
      device.recorded_ = &graph.memory;
      device.late_checks.record(&graph.checks);
    }
    ~Recording() {
      device.recorded_ = nullptr;
      device.late_checks.record(nullptr);
    }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
  };

  static void* take(Kept& from, int64_t size) {
    const auto found = from.find(size);
    if (found == from.end() || found->second.empty()) return nullptr;
    void* const memory = found->second.back();
    found->second.pop_back();
    return memory;
  }
  // A graph's memory is anybody's again.
  void take_over(Kept& memory) noexcept {
    const std::lock_guard lock(mutex_);
    for (auto& [address, block] : blocks_)
      if (block.home == &memory) block.home = &kept_;
    for (const auto& [size, blocks] : memory)
      kept_[size].insert(kept_[size].end(), blocks.begin(), blocks.end());
  }

  // Pinned memory, and when the copy from it has ended.
  struct Staged {
    void* memory = nullptr;
    size_t bytes = 0;
    cudaEvent_t copied = nullptr;
  };
  static constexpr size_t most_staged = 1 << 20;

  // The caller's memory may be gone before the stream comes to the copy, and a GPU that reads
  // pageable memory itself (HMM, Grace) puts nothing aside. So a few bytes wait in pinned memory;
  // many are waited for. (In the legacy stream everything has ended at once.)
  void copy_to_device(void* to, const void* from, size_t bytes) {
    const auto start = [&](const void* source) {
      check_cuda(cudaMemcpyAsync(to, source, bytes, cudaMemcpyHostToDevice, compute_stream()));
    };
    if (bytes > most_staged || compute_stream() == nullptr) {
      start(from);
      if (compute_stream() != nullptr) wait();
      return;
    }
    const std::lock_guard lock(mutex_);
    const Staged& staged = stage(from, bytes);
    start(staged.memory);
    check_cuda(cudaEventRecord(staged.copied, compute_stream()));
  }
  // In memory whose last copy has ended, or in new memory.
  Staged& stage(const void* from, size_t bytes) {
    const auto is_free = [&](const Staged& each) {
      return each.bytes >= bytes && !still_runs(cudaEventQuery(each.copied));
    };
    auto found = std::find_if(staged_.begin(), staged_.end(), is_free);
    if (found == staged_.end()) {
      Staged made{.bytes = std::bit_ceil(bytes)};
      check_cuda(cudaMallocHost(&made.memory, made.bytes));
      check_cuda(cudaEventCreateWithFlags(&made.copied, cudaEventDisableTiming));
      found = staged_.insert(staged_.end(), made);
    }
    std::memcpy(found->memory, from, bytes);
    return *found;
  }

  [[noreturn]] static void fail_no_memory(int64_t bytes, Where where) {
    static_cast<void>(cudaGetLastError());  // else the next launch reports it as its own
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), where);
    fail(
        where,
        "the GPU has no memory left for {} bytes: of its {} bytes {} are free; fewer sequences per "
        "microbatch, activation checkpointing or sharded weights need less",
        bytes, total, free);
  }

  std::mutex mutex_;  // ranks may be threads
  Kept kept_;
  std::unordered_map<void*, Block> blocks_;  // that were handed out while memory is kept
  Kept* recorded_ = nullptr;                 // a graph's memory, while it is recorded
  std::vector<Staged> staged_;
  LateFinding* finding_ = nullptr;
};

// Makes Device::cuda this build's.
inline CudaAccelerator& install_accelerator() {
  static CudaAccelerator one;
  accelerator() = &one;
  return one;
}

// What CUDA and NCCL read when they start; what the user has set stays. CUDA: as many of the host's
// queues to the GPU as it can have, eight otherwise: streams that share one wait for each other,
// and two lanes of NCCL's might then wait forever. NCCL, from 2.26 on: collectives of several
// communicators run on the GPU in the order in which they were launched.
inline void ask_for_launch_order() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

// The GPU of process `number` of a host, which sees `count`. Under `srun --gpus-per-task=1` each
// sees its own as number 0.
constexpr int gpu_of_process(int number, int count) { return number % count; }

#if defined(__CUDACC__)
// Chooses the GPU of process `number` of this host and makes it Device::cuda. Returns why it
// cannot, in one line; empty: done.
inline std::string open_gpu(int number) {
  ask_for_launch_order();
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice)
    return "there is no NVIDIA GPU with a driver here";
  if (code != cudaSuccess) return fmt::format("CUDA does not start: {}", cudaGetErrorString(code));
  if (number < 0 || count == 0)
    return fmt::format("GPU {} was asked for, but there are {} here", number, count);
  const int gpu = gpu_of_process(number, count);
  check_cuda(cudaSetDevice(gpu));
  if (compute_stream() == nullptr)
    check_cuda(cudaStreamCreateWithFlags(&compute_stream(), cudaStreamNonBlocking));
  cudaMemPool_t pool;
  uint64_t keep = UINT64_MAX;  // bytes that the driver does not hand back
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, gpu));
  check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  install_accelerator().keeps_memory = true;
  return "";
}
#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
