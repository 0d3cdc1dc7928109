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
#if YOTTA_BODIES_OF(device)
#include <algorithm>
#include <cstring>
#include <new>

#include "yotta/device/emulator/happens_before.hpp"
#endif  // YOTTA_BODIES

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

  YOTTA_API static DeviceMemory& instance();

  // Makes it as large as a GPU's; without a limit, it is as large as the host's.
  YOTTA_API void limit(size_t bytes);
  // Free bytes, and all bytes.
  YOTTA_API std::pair<size_t, size_t> room();
  // Null if less than that is free.
  YOTTA_API void* allocate(size_t bytes);
  // False if this is not the beginning of an allocation.
  YOTTA_API bool release(void* memory);
  // Whether all of [begin, begin + bytes) lies in one allocation.
  YOTTA_API bool holds(const void* begin, size_t bytes);
  // The host, or an unchecked kernel, wrote these bytes.
  YOTTA_API void written(void* begin, size_t bytes);
  // An unchecked kernel ran: it may have written anything.
  YOTTA_API void all_written();
  YOTTA_API void name(const void* memory, std::string name, size_t columns);
  // For the checks, which run one launch at a time.
  YOTTA_API Allocations& with_shadows();

 private:
  YOTTA_API Allocations::iterator find(const void* begin, size_t bytes);

  std::mutex mutex_;
  Allocations all_;
  size_t used_ = 0, total_ = SIZE_MAX;
};

}  // namespace yotta

YOTTA_API cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
YOTTA_API cudaError_t cudaMalloc(void** memory, size_t bytes);
template <class T>
cudaError_t cudaMalloc(T** memory, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}
YOTTA_API cudaError_t cudaFree(void* memory);
// The side that is the device's must lie in one allocation.
YOTTA_API cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
YOTTA_API cudaError_t cudaMemset(void* memory, int value, size_t bytes);
// `rows` rows of `bytes` bytes, which lie to_row and from_row bytes apart.
YOTTA_API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_row, const void* from, size_t from_row,
                                        size_t bytes, size_t rows, cudaMemcpyKind kind,
                                        cudaStream_t);
YOTTA_API const char* cudaGetErrorString(cudaError_t code);

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

#if YOTTA_BODIES_OF(device)

namespace yotta {

inline constexpr std::align_val_t device_alignment{256};

DeviceMemory& DeviceMemory::instance() {
  static auto* one = new DeviceMemory;  // never destroyed: arrays may outlive main()
  return *one;
}

void DeviceMemory::limit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  total_ = bytes;
}

std::pair<size_t, size_t> DeviceMemory::room() {
  const std::lock_guard lock(mutex_);
  return {total_ - std::min(total_, used_), total_};
}

void* DeviceMemory::allocate(size_t bytes) {
  if (bytes > room().first) return nullptr;
  auto* whole = static_cast<std::byte*>(
      ::operator new(margin + bytes + margin, device_alignment, std::nothrow));
  if (whole == nullptr) return nullptr;
  std::byte* const memory = whole + margin;
  std::memset(whole, 0xff, margin + bytes + margin);
  const std::lock_guard lock(mutex_);
  all_[memory].bytes = bytes;
  used_ += bytes;
  return memory;
}

bool DeviceMemory::release(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.extract(static_cast<std::byte*>(memory));
  if (found.empty()) return false;
  used_ -= found.mapped().bytes;
  ::operator delete(found.key() - margin, device_alignment);
  return true;
}

bool DeviceMemory::holds(const void* begin, size_t bytes) {
  const std::lock_guard lock(mutex_);
  return find(begin, bytes) != all_.end();
}

void DeviceMemory::written(void* begin, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = find(begin, bytes);
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(begin) - found->first);
  Allocation& allocation = found->second;
  if (allocation.shadow) return allocation.shadow->write_by_host(offset, bytes);
  if (allocation.host_wrote.empty() || allocation.host_wrote.back() != std::pair(offset, bytes))
    allocation.host_wrote.emplace_back(offset, bytes);
}

void DeviceMemory::all_written() {
  const std::lock_guard lock(mutex_);
  for (auto& [memory, allocation] : all_) {
    if (allocation.shadow) allocation.shadow->write_by_host(0, allocation.bytes);
    allocation.host_wrote_all = true;
  }
}

void DeviceMemory::name(const void* memory, std::string name, size_t columns) {
  const std::lock_guard lock(mutex_);
  const auto found = find(memory, 1);
  if (found == all_.end()) return;
  found->second.name = std::move(name);
  found->second.columns = columns;
}

auto DeviceMemory::with_shadows() -> Allocations& {
  const std::lock_guard lock(mutex_);
  for (auto& [memory, allocation] : all_) {
    if (allocation.shadow) continue;
    allocation.shadow = std::make_shared<Shadow>(allocation.bytes);
    if (allocation.host_wrote_all) allocation.host_wrote = {{0, allocation.bytes}};
    for (const auto& [offset, bytes] : allocation.host_wrote)
      allocation.shadow->write_by_host(offset, bytes);
  }
  return all_;
}

DeviceMemory::Allocations::iterator DeviceMemory::find(const void* begin, size_t bytes) {
  auto* const first = static_cast<std::byte*>(const_cast<void*>(begin));
  auto next = all_.upper_bound(first);
  if (next == all_.begin()) return all_.end();
  --next;
  return first + bytes <= next->first + next->second.bytes ? next : all_.end();
}

}  // namespace yotta

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const auto [left, whole] = yotta::DeviceMemory::instance().room();
  *free = left;
  *total = whole;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = yotta::DeviceMemory::instance().allocate(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr || yotta::DeviceMemory::instance().release(memory)) return cudaSuccess;
  return cudaErrorInvalidValue;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  auto& memory = yotta::DeviceMemory::instance();
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if ((to_device && !memory.holds(to, bytes)) || (from_device && !memory.holds(from, bytes)))
    return cudaErrorInvalidValue;
  std::memmove(to, from, bytes);
  if (to_device) memory.written(to, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  if (!yotta::DeviceMemory::instance().holds(memory, bytes)) return cudaErrorInvalidValue;
  std::memset(memory, value, bytes);
  yotta::DeviceMemory::instance().written(memory, bytes);
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument: not memory from cudaMalloc, or more bytes than it has";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNotReady: return "not ready";
  }
  return "unknown error";
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_row, const void* from, size_t from_row,
                              size_t bytes, size_t rows, cudaMemcpyKind kind, cudaStream_t) {
  if (bytes > to_row || bytes > from_row) return cudaErrorInvalidValue;
  for (size_t i = 0; i < rows; ++i) {
    const cudaError_t code =
        cudaMemcpy(static_cast<std::byte*>(to) + i * to_row,
                   static_cast<const std::byte*>(from) + i * from_row, bytes, kind);
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

#endif  // YOTTA_BODIES
