// Streams: a kernel works while the next piece of data is on its way.
//
// A GPU computes and copies at the same time, and the host is free meanwhile. A program gets none
// of that if it waits after each step. A stream is a queue: what is in one stream runs in its
// order, what is in two streams runs in any order. An event is a mark in a stream that another
// stream, or the host, can wait for.
//
//     each step waits            copy 0 │ kernel 0 │ copy 1 │ kernel 1 │ copy 2 │ kernel 2
//
//     stream copies              copy 0 │ copy 1   │ copy 2   │
//                                       ╲ filled   ╲ filled   ╲           ╱ emptied: piece 2 goes
//     stream work                         kernel 0 │ kernel 1 │ kernel 2    into the buffer of 0
//
// Cost of n pieces: in turn n (copy + kernel); overlapped max(copy, kernel) n and one of the
// shorter. Two buffers instead of one.
// Contract: memory of the host must be pinned (PinnedArray). A copy from or to other memory is
// staged, and overlaps with nothing. Nobody touches pinned memory between the call of
// cudaMemcpyAsync and the end of that copy.
//
// In the emulator streams run late and in random order wherever no event orders them
// (emulator/stream_queue.hpp): a missing event gives wrong values with some seeds, and in the
// checked build an error that names both lines. Names are CUDA's; with nvcc they are CUDA.
// References: CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; M. Harris, "How to
// overlap data transfers in CUDA C/C++", NVIDIA, 2012.
#pragma once

#include <utility>

#include "yotta/device/device_memory.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// A stream that ends with its scope. What is in it still runs.
class Stream {
 public:
  explicit Stream(Where where = Where::current()) { check_cuda(cudaStreamCreate(&stream_), where); }
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// An event that ends with its scope.
class Event {
 public:
  explicit Event(Where where = Where::current()) {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), where);
  }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// An array of the host that a GPU's copy engine can reach at any time.
template <class T>
class PinnedArray {
 public:
  explicit PinnedArray(size_t n, Where where = Where::current()) : size_(n) {
    check_cuda(cudaMallocHost(reinterpret_cast<void**>(&data_), n * sizeof(T)), where);
  }
  ~PinnedArray() { static_cast<void>(cudaFreeHost(data_)); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

// The work of the example: y = x after some rounds of x -> x^2 - 1/2.
template <class Real>
__global__ void iterate_map(const Real* x, Real* y, int n, int rounds) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= static_cast<unsigned>(n)) return;
  Real value = x[i];
  for (int round = 0; round < rounds; ++round) value = value * value - Real(0.5);
  y[i] = value;
}

// StreamPieces of n numbers each: from `in`, through the kernel, to `out`. Both are pinned.
struct StreamPieces {
  const float* in;  // (count * n)
  float* out;       // (count * n)
  int count, n, rounds;
  size_t bytes() const { return static_cast<size_t>(n) * sizeof(float); }
  unsigned blocks() const { return static_cast<unsigned>(n + 127) / 128; }
};

// Each step waits for the one before. Right, and slow.
inline void run_in_turn(const StreamPieces& pieces) {
  const auto n = static_cast<size_t>(pieces.n);
  DeviceArray<float> x(n), y(n);
  for (int i = 0; i < pieces.count; ++i) {
    const size_t at = static_cast<size_t>(i) * n;
    check_cuda(cudaMemcpy(x.data(), pieces.in + at, pieces.bytes(), cudaMemcpyHostToDevice));
    launch(iterate_map<float>, pieces.blocks(), 128, 0, nullptr, x.data(), y.data(), pieces.n,
           pieces.rounds);
    check_cuda(cudaMemcpy(pieces.out + at, y.data(), pieces.bytes(), cudaMemcpyDeviceToHost));
  }
}

// Piece i + 1 is copied while piece i is in the kernel. Two buffers take turns: the copy waits
// until the kernel that read this buffer two pieces ago has ended, the kernel until its buffer is
// filled.
inline void run_overlapped(const StreamPieces& pieces) {
  const auto n = static_cast<size_t>(pieces.n);
  DeviceArray<float> x(2 * n), y(n);
  Stream copies, work;
  Event filled[2], emptied[2];
  for (int i = 0; i < pieces.count; ++i) {
    const size_t at = static_cast<size_t>(i) * n;
    float* const buffer = x.data() + static_cast<size_t>(i % 2) * n;
    check_cuda(cudaStreamWaitEvent(copies, emptied[i % 2]));
    check_cuda(
        cudaMemcpyAsync(buffer, pieces.in + at, pieces.bytes(), cudaMemcpyHostToDevice, copies));
    check_cuda(cudaEventRecord(filled[i % 2], copies));

    check_cuda(cudaStreamWaitEvent(work, filled[i % 2]));
    launch(iterate_map<float>, pieces.blocks(), 128, 0, work, buffer, y.data(), pieces.n,
           pieces.rounds);
    check_cuda(cudaEventRecord(emptied[i % 2], work));
    check_cuda(
        cudaMemcpyAsync(pieces.out + at, y.data(), pieces.bytes(), cudaMemcpyDeviceToHost, work));
  }
  check_cuda(cudaStreamSynchronize(work));
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
