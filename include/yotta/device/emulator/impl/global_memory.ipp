// The bodies of device/emulator/global_memory.hpp.
#pragma once

#include "yotta/device/emulator/global_memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "yotta/device/emulator/happens_before.hpp"

namespace yotta {

inline constexpr std::align_val_t device_alignment{256};

YOTTA_INLINE DeviceMemory& DeviceMemory::instance() {
  static auto* one = new DeviceMemory;  // never destroyed: arrays may outlive main()
  return *one;
}

YOTTA_INLINE void DeviceMemory::limit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  total_ = bytes;
}

YOTTA_INLINE std::pair<size_t, size_t> DeviceMemory::room() {
  const std::lock_guard lock(mutex_);
  return {total_ - std::min(total_, used_), total_};
}

YOTTA_INLINE void* DeviceMemory::allocate(size_t bytes) {
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

YOTTA_INLINE bool DeviceMemory::release(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.extract(static_cast<std::byte*>(memory));
  if (found.empty()) return false;
  used_ -= found.mapped().bytes;
  ::operator delete(found.key() - margin, device_alignment);
  return true;
}

YOTTA_INLINE bool DeviceMemory::holds(const void* begin, size_t bytes) {
  const std::lock_guard lock(mutex_);
  return find(begin, bytes) != all_.end();
}

YOTTA_INLINE void DeviceMemory::written(void* begin, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = find(begin, bytes);
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(begin) - found->first);
  Allocation& allocation = found->second;
  if (allocation.shadow) return allocation.shadow->write_by_host(offset, bytes);
  if (allocation.host_wrote.empty() || allocation.host_wrote.back() != std::pair(offset, bytes))
    allocation.host_wrote.emplace_back(offset, bytes);
}

YOTTA_INLINE void DeviceMemory::all_written() {
  const std::lock_guard lock(mutex_);
  for (auto& [memory, allocation] : all_) {
    if (allocation.shadow) allocation.shadow->write_by_host(0, allocation.bytes);
    allocation.host_wrote_all = true;
  }
}

YOTTA_INLINE void DeviceMemory::name(const void* memory, std::string name, size_t columns) {
  const std::lock_guard lock(mutex_);
  const auto found = find(memory, 1);
  if (found == all_.end()) return;
  found->second.name = std::move(name);
  found->second.columns = columns;
}

YOTTA_INLINE auto DeviceMemory::with_shadows() -> Allocations& {
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

YOTTA_INLINE DeviceMemory::Allocations::iterator DeviceMemory::find(const void* begin,
                                                                    size_t bytes) {
  auto* const first = static_cast<std::byte*>(const_cast<void*>(begin));
  auto next = all_.upper_bound(first);
  if (next == all_.begin()) return all_.end();
  --next;
  return first + bytes <= next->first + next->second.bytes ? next : all_.end();
}

}  // namespace yotta

YOTTA_INLINE cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const auto [left, whole] = yotta::DeviceMemory::instance().room();
  *free = left;
  *total = whole;
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = yotta::DeviceMemory::instance().allocate(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaFree(void* memory) {
  if (memory == nullptr || yotta::DeviceMemory::instance().release(memory)) return cudaSuccess;
  return cudaErrorInvalidValue;
}

YOTTA_INLINE cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  auto& memory = yotta::DeviceMemory::instance();
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if ((to_device && !memory.holds(to, bytes)) || (from_device && !memory.holds(from, bytes)))
    return cudaErrorInvalidValue;
  std::memmove(to, from, bytes);
  if (to_device) memory.written(to, bytes);
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  if (!yotta::DeviceMemory::instance().holds(memory, bytes)) return cudaErrorInvalidValue;
  std::memset(memory, value, bytes);
  yotta::DeviceMemory::instance().written(memory, bytes);
  return cudaSuccess;
}

YOTTA_INLINE const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument: not memory from cudaMalloc, or more bytes than it has";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNotReady: return "not ready";
  }
  return "unknown error";
}

YOTTA_INLINE cudaError_t cudaMemcpy2DAsync(void* to, size_t to_row, const void* from,
                                           size_t from_row, size_t bytes, size_t rows,
                                           cudaMemcpyKind kind, cudaStream_t) {
  if (bytes > to_row || bytes > from_row) return cudaErrorInvalidValue;
  for (size_t i = 0; i < rows; ++i) {
    const cudaError_t code =
        cudaMemcpy(static_cast<std::byte*>(to) + i * to_row,
                   static_cast<const std::byte*>(from) + i * from_row, bytes, kind);
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}
