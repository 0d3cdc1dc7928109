// The emulator's device memory: cudaMalloc, cudaFree, cudaMemcpy, cudaMemset and their asynchronous
// forms on the CPU, with a list of what is allocated, so that an address says which allocation it
// belongs to.
//
//     allocations, by address    [x: 4000 bytes]      [y: 4000 bytes]    ...
//     address p                                  ^ "8 bytes behind x", in a kernel's error
//
// Launches and copies have ended when they return, so all streams are the same, and idle.
//
//     GPU    cudaMallocAsync ── kernel ── cudaMemcpyAsync ── ...   in order, while the host goes on
//     here   each has ended before the next begins
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "yotta/device/emulator/task.hpp"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNotReady = 600
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};

namespace yotta {

class Shadow;  // who touched what, and when: happens_before.hpp

// One cudaMalloc.
struct Allocation {
  size_t bytes = 0;
  std::string name;                // for messages; DeviceArray::named()
  size_t columns = 0;              // of the matrix that it holds, if it holds one
  std::shared_ptr<Shadow> shadow;  // made at the first checked launch
  bool host_wrote_all = false;     // until then: what is known to be written
  std::vector<std::pair<size_t, size_t>> host_wrote;  // offset, bytes
};

// All device memory of this process. It serves checked and unchecked kernels alike, so it is in no
// build's namespace.
class DeviceMemory {
 public:
  using Allocations = std::map<std::byte*, Allocation>;
  static constexpr size_t margin = 4096;  // unused bytes on both sides, for an index that is wrong

  static DeviceMemory& instance();

  // Makes it as large as a GPU's; without a limit, it is as large as the host's.
  void limit(size_t bytes);
  // Free bytes, and all bytes.
  std::pair<size_t, size_t> room();
  // Null if less than that is free.
  void* allocate(size_t bytes);
  // False if this is not the beginning of an allocation.
  bool release(void* memory);
  // Whether all of [begin, begin + bytes) lies in one allocation.
  bool holds(const void* begin, size_t bytes);
  // The host, or an unchecked kernel, wrote these bytes.
  void written(void* begin, size_t bytes);
  // An unchecked kernel ran: it may have written anything.
  void all_written();
  void name(const void* memory, std::string name, size_t columns);
  // For the checks, which run one launch at a time.
  Allocations& with_shadows();

 private:
  Allocations::iterator find(const void* begin, size_t bytes);

  std::mutex mutex_;
  Allocations all_;
  size_t used_ = 0, total_ = SIZE_MAX;
};

}  // namespace yotta

cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** memory, size_t bytes);
template <class T>
cudaError_t cudaMalloc(T** memory, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}
cudaError_t cudaFree(void* memory);
// The side that is the device's must lie in one allocation.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemset(void* memory, int value, size_t bytes);
// `rows` rows of `bytes` bytes, which lie to_row and from_row bytes apart.
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_row, const void* from, size_t from_row,
                              size_t bytes, size_t rows, cudaMemcpyKind kind, cudaStream_t);
const char* cudaGetErrorString(cudaError_t code);

inline cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) {
  return cudaMalloc(memory, bytes);
}
inline cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return cudaFree(memory); }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(memory, value, bytes);
}
inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }  // launches have already ended
inline cudaError_t cudaGetLastError() { return cudaSuccess; }       // and have thrown

#ifndef YOTTA_COMPILED
#include "yotta/device/emulator/impl/global_memory.ipp"
#endif
