// The emulator's device memory: cudaMalloc, cudaFree, cudaMemcpy, cudaMemset on the CPU, with a list of what is
// allocated, so that an address says which allocation it belongs to.
//
//     allocations, by address    [x: 4000 bytes]      [y: 4000 bytes]    ...
//     address p                                  ^ 8 bytes behind x: what a kernel's error can say
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "yotta/device/emulator/check_shadow.hpp"
#include "yotta/device/emulator/simt_build.hpp"

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

// One cudaMalloc.
struct Allocation {
  size_t bytes = 0;
  std::string name;                // for messages; DeviceArray::named()
  size_t columns = 0;              // of the matrix it holds, if it does
  std::unique_ptr<Shadow> shadow;  // who touched what; made at the first checked launch
  bool host_wrote_all = false;     // until then: what is known to be written
  std::vector<std::pair<size_t, size_t>> host_wrote;  // offset, bytes
};

// All device memory of this process. One for checked and unchecked kernels alike, so not in a build's namespace.
class DeviceMemory {
 public:
  using Allocations = std::map<std::byte*, Allocation>;
  static constexpr size_t margin =
      4096;  // nobody's memory on both sides, for an index that went wrong

  static DeviceMemory& instance() {
    static auto* one = new DeviceMemory;  // never destroyed: arrays may outlive main()
    return *one;
  }

  // What a GPU of so many bytes would give; without a limit, what the host has.
  void limit(size_t bytes) {
    const std::lock_guard lock(mutex_);
    total_ = bytes;
  }
  // What is free, and the whole.
  std::pair<size_t, size_t> room() {
    const std::lock_guard lock(mutex_);
    return {total_ - std::min(total_, used_), total_};
  }

  // Null if there is not so much left.
  void* allocate(size_t bytes) {
    if (bytes > room().first) return nullptr;
    auto* whole =
        static_cast<std::byte*>(::operator new(margin + bytes + margin, alignment, std::nothrow));
    if (whole == nullptr) return nullptr;
    std::byte* const memory = whole + margin;
    std::memset(whole, 0xff, margin + bytes + margin);
    const std::lock_guard lock(mutex_);
    all_[memory].bytes = bytes;
    used_ += bytes;
    return memory;
  }
  // False if this is not the beginning of an allocation.
  bool release(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.extract(static_cast<std::byte*>(memory));
    if (found.empty()) return false;
    used_ -= found.mapped().bytes;
    ::operator delete(found.key() - margin, alignment);
    return true;
  }
  // Whether all of [begin, begin + bytes) lies in one allocation.
  bool holds(const void* begin, size_t bytes) {
    const std::lock_guard lock(mutex_);
    return find(begin, bytes) != all_.end();
  }
  // The host, or a kernel that nobody watched, wrote these bytes.
  void written(void* begin, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = find(begin, bytes);
    const auto offset = static_cast<size_t>(static_cast<std::byte*>(begin) - found->first);
    Allocation& allocation = found->second;
    if (allocation.shadow) return allocation.shadow->write_by_host(offset, bytes);
    if (allocation.host_wrote.empty() || allocation.host_wrote.back() != std::pair(offset, bytes))
      allocation.host_wrote.emplace_back(offset, bytes);
  }
  // An unchecked kernel ran: it may have written anything.
  void all_written() {
    const std::lock_guard lock(mutex_);
    for (auto& [memory, allocation] : all_) {
      if (allocation.shadow) allocation.shadow->write_by_host(0, allocation.bytes);
      allocation.host_wrote_all = true;
    }
  }
  void name(const void* memory, std::string name, size_t columns) {
    const std::lock_guard lock(mutex_);
    const auto found = find(memory, 1);
    if (found == all_.end()) return;
    found->second.name = std::move(name);
    found->second.columns = columns;
  }
  // For the checks, which run one launch at a time.
  Allocations& with_shadows() {
    const std::lock_guard lock(mutex_);
    for (auto& [memory, allocation] : all_) {
      if (allocation.shadow) continue;
      allocation.shadow = std::make_unique<Shadow>(allocation.bytes);
      if (allocation.host_wrote_all) allocation.host_wrote = {{0, allocation.bytes}};
      for (const auto& [offset, bytes] : allocation.host_wrote)
        allocation.shadow->write_by_host(offset, bytes);
    }
    return all_;
  }

 private:
  Allocations::iterator find(const void* begin, size_t bytes) {
    auto* const first = static_cast<std::byte*>(const_cast<void*>(begin));
    auto next = all_.upper_bound(first);
    if (next == all_.begin()) return all_.end();
    --next;
    return first + bytes <= next->first + next->second.bytes ? next : all_.end();
  }

  static constexpr std::align_val_t alignment{256};
  std::mutex mutex_;
  Allocations all_;
  size_t used_ = 0, total_ = SIZE_MAX;
};

}  // namespace yotta

inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const auto [left, whole] = yotta::DeviceMemory::instance().room();
  *free = left;
  *total = whole;
  return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = yotta::DeviceMemory::instance().allocate(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
template <class T>
cudaError_t cudaMalloc(T** memory, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}
inline cudaError_t cudaFree(void* memory) {
  if (memory == nullptr || yotta::DeviceMemory::instance().release(memory)) return cudaSuccess;
  return cudaErrorInvalidValue;
}
// The side that is the device's must lie in one allocation.
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  auto& memory = yotta::DeviceMemory::instance();
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if ((to_device && !memory.holds(to, bytes)) || (from_device && !memory.holds(from, bytes)))
    return cudaErrorInvalidValue;
  std::memmove(to, from, bytes);
  if (to_device) memory.written(to, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  if (!yotta::DeviceMemory::instance().holds(memory, bytes)) return cudaErrorInvalidValue;
  std::memset(memory, value, bytes);
  yotta::DeviceMemory::instance().written(memory, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }  // launches have already ended
inline cudaError_t cudaGetLastError() { return cudaSuccess; }       // and have thrown
inline const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument: not memory from cudaMalloc, or more bytes than it has";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNotReady: return "not ready";
  }
  return "unknown error";
}
