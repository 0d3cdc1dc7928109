// The emulator's device memory: cudaMalloc, cudaFree, cudaMemcpy, cudaMemset on the CPU, with a list of what is
// allocated, so that an address says which allocation it belongs to.
//
//     allocations, by address    [x: 4000 bytes]      [y: 4000 bytes]    ...
//     address p                                  ^ 8 bytes behind x: what a kernel's error can say
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "yotta/device/simt_build.hpp"

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// All device memory of this process.
class DeviceMemory {
 public:
  static DeviceMemory& instance() {
    static auto* one = new DeviceMemory;  // never destroyed: arrays may outlive main()
    return *one;
  }

  void* allocate(size_t bytes) {
    auto* memory = static_cast<std::byte*>(::operator new(bytes, alignment, std::nothrow));
    if (memory == nullptr) return nullptr;
    std::memset(memory, 0xff, bytes);
    const std::lock_guard lock(mutex_);
    sizes_[memory] = bytes;
    return memory;
  }
  // False if this is not the beginning of an allocation.
  bool release(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.extract(static_cast<std::byte*>(memory));
    if (found.empty()) return false;
    ::operator delete(found.key(), alignment);
    return true;
  }
  // Whether all of [begin, begin + bytes) lies in one allocation.
  bool holds(const void* begin, size_t bytes) {
    const auto* first = static_cast<const std::byte*>(begin);
    const std::lock_guard lock(mutex_);
    auto next = sizes_.upper_bound(const_cast<std::byte*>(first));
    if (next == sizes_.begin()) return false;
    --next;
    return first + bytes <= next->first + next->second;
  }

 private:
  static constexpr std::align_val_t alignment{256};
  std::mutex mutex_;
  std::map<std::byte*, size_t> sizes_;
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

inline cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = yotta::emulator::DeviceMemory::instance().allocate(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
template <class T>
cudaError_t cudaMalloc(T** memory, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}
inline cudaError_t cudaFree(void* memory) {
  if (memory == nullptr || yotta::emulator::DeviceMemory::instance().release(memory))
    return cudaSuccess;
  return cudaErrorInvalidValue;
}
// The side that is the device's must lie in one allocation.
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  auto& memory = yotta::emulator::DeviceMemory::instance();
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if ((to_device && !memory.holds(to, bytes)) || (from_device && !memory.holds(from, bytes)))
    return cudaErrorInvalidValue;
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  if (!yotta::emulator::DeviceMemory::instance().holds(memory, bytes)) return cudaErrorInvalidValue;
  std::memset(memory, value, bytes);
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
  }
  return "unknown error";
}

}  // namespace YOTTA_DEVICE_BUILD
