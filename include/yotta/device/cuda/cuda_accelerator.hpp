// Device::cuda: tensors in a GPU's memory, everything about them in order on one stream.
//
//     host       allocate  copy  launch  launch  release      each returns at once
//     stream     ─ malloc ─ copy ─ kernel ─ kernel ─ free ─►   each begins when the last has ended
//
// Memory is stream-ordered (cudaMallocAsync): a block that is released is free for what is asked
// for later on the same stream, with no wait, and the driver keeps it for that. The host waits only
// where it asks for values. It waits by polling, so that others can act meanwhile: a transport that
// finds that a peer is gone throws here instead of waiting forever.
//
// nvcc compiles this file too, and under the emulator it serves tests and machines without a GPU:
// there everything has ended when it returns.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "yotta/core/system/accelerator.hpp"
#include "yotta/device/device_memory.hpp"
#if !defined(__CUDACC__)
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

class CudaAccelerator : public Accelerator {
 public:
  void* allocate(int64_t bytes, Where where) override {
    if (bytes == 0) return nullptr;
    void* memory = nullptr;
    const cudaError_t code = cudaMallocAsync(&memory, static_cast<size_t>(bytes), compute_stream());
    if (code == cudaErrorMemoryAllocation) fail_no_memory(bytes, where);
    check_cuda(code, where);
    return memory;
  }
  void release(void* memory) noexcept override {
    if (memory != nullptr) static_cast<void>(cudaFreeAsync(memory, compute_stream()));
  }
  void copy(void* to, const void* from, int64_t bytes, Transfer transfer) override {
    if (bytes == 0) return;
    constexpr cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                        cudaMemcpyDeviceToDevice};
    if (transfer == Transfer::to_host) wait();
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                               kinds[static_cast<int>(transfer)], compute_stream()));
    if (transfer == Transfer::to_host) check_cuda(cudaStreamSynchronize(compute_stream()));
  }
  void copy_rows(void* to, int64_t to_row, const void* from, int64_t from_row, int64_t bytes,
                 int64_t rows) override {
    if (bytes == 0 || rows == 0) return;
    check_cuda(cudaMemcpy2DAsync(to, static_cast<size_t>(to_row), from,
                                 static_cast<size_t>(from_row), static_cast<size_t>(bytes),
                                 static_cast<size_t>(rows), cudaMemcpyDeviceToDevice,
                                 compute_stream()));
  }
  void zero(void* memory, int64_t bytes) override {
    if (bytes > 0)
      check_cuda(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), compute_stream()));
  }
  void wait(Where where = Where::current()) override {
    const auto begin = std::chrono::steady_clock::now();
    const auto look = [&] {
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (accelerator_watch()) accelerator_watch()(where, waited.count());
    };
    look();
    cudaError_t code = cudaStreamQuery(compute_stream());
    for (; code == cudaErrorNotReady; code = cudaStreamQuery(compute_stream())) {
      look();
      std::this_thread::yield();
    }
    check_cuda(code, where);
  }

 private:
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
};

// Makes Device::cuda this build's.
inline void install_accelerator() {
  static CudaAccelerator one;
  accelerator() = &one;
}

#if defined(__CUDACC__)
// Chooses GPU `gpu` for this process and makes it Device::cuda. Returns why it cannot, in one line;
// empty: done.
inline std::string open_gpu(int gpu) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice)
    return "there is no NVIDIA GPU with a driver here";
  if (code != cudaSuccess) return fmt::format("CUDA does not start: {}", cudaGetErrorString(code));
  if (gpu < 0 || gpu >= count)
    return fmt::format("GPU {} was asked for, but there are {} here", gpu, count);
  check_cuda(cudaSetDevice(gpu));
  if (compute_stream() == nullptr)
    check_cuda(cudaStreamCreateWithFlags(&compute_stream(), cudaStreamNonBlocking));
  cudaMemPool_t pool;
  uint64_t keep = UINT64_MAX;  // bytes that the driver does not hand back
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, gpu));
  check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  install_accelerator();
  return "";
}
#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
