// The bodies of device/emulator/global_memory.hpp.
#pragma once

#include "yotta/device/emulator/global_memory.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "yotta/device/emulator/happens_before.hpp"

namespace yotta {

YOTTA_INLINE int& EmulatorWork::depth() {
  static thread_local int depth = 0;
  return depth;
}

YOTTA_INLINE DeviceMemory& DeviceMemory::instance() {
  static auto* one = new DeviceMemory;  // never destroyed: arrays may outlive main()
  return *one;
}

YOTTA_INLINE void DeviceMemory::limit(size_t bytes) {
  const LockedWork lock(mutex_);
  total_ = bytes;
}

YOTTA_INLINE std::pair<size_t, size_t> DeviceMemory::room() {
  const LockedWork lock(mutex_);
  return {total_ - std::min(total_, used_), total_};
}

YOTTA_INLINE void* DeviceMemory::allocate(size_t bytes, bool pinned) {
  if (bytes > PTRDIFF_MAX || (!pinned && bytes > room().first)) return nullptr;
  const LockedWork lock(mutex_);
  GuardedPages pages(bytes);
  while (pages.begin() == nullptr && !freed_.empty()) {
    forget_oldest();
    pages = GuardedPages(bytes);
  }
  if (pages.begin() == nullptr) return nullptr;
  std::memset(pages.begin(), 0xff, pages.bytes());
  Allocation& made = all_[pages.begin()];
  made.pages = pages;
  made.bytes = bytes;
  made.serial = ++serial_;
  made.pinned = made.host_wrote_all = pinned;
  if (pinned) find_pinned_range();
  if (!pinned) used_ += bytes;
  return pages.begin();
}

YOTTA_INLINE bool DeviceMemory::release(void* memory, Where where) {
  const LockedWork lock(mutex_);
  const auto found = all_.extract(static_cast<std::byte*>(memory));
  if (found.empty()) return false;
  Allocation& was = found.mapped();
  if (was.pinned) find_pinned_range();
  if (!was.pinned) used_ -= was.bytes;
  was.pages.lock();
  freed_.push_back({was.pages, was.bytes, std::move(was.name), where});
  freed_bytes_ += was.pages.addresses();
  while (freed_bytes_ > freed_addresses && freed_.size() > 1) forget_oldest();
  return true;
}

YOTTA_INLINE void DeviceMemory::forget_oldest() {
  freed_bytes_ -= freed_.front().pages.addresses();
  freed_.front().pages.drop();
  freed_.pop_front();
}

YOTTA_INLINE std::optional<FreedArray> DeviceMemory::freed_at(uintptr_t address) {
  const LockedWork lock(mutex_);
  for (const FreedArray& each : freed_)
    if (address - reinterpret_cast<uintptr_t>(each.pages.begin()) < each.bytes) return each;
  return std::nullopt;
}

YOTTA_INLINE std::string DeviceMemory::nearest(uintptr_t address) {
  const LockedWork lock(mutex_);
  for (const auto& [memory, allocation] : all_) {
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    if (address - (begin - margin) >= allocation.pages.addresses()) continue;
    const std::string name = allocation.name.empty() ? "global memory" : allocation.name;
    return address < begin
               ? fmt::format("{} bytes before {}", begin - address, name)
               : fmt::format("{} bytes behind the end of {}, which has {}",
                             address - begin - allocation.bytes, name, allocation.bytes);
  }
  return {};
}

YOTTA_INLINE bool DeviceMemory::holds(const void* begin, size_t bytes) {
  const LockedWork lock(mutex_);
  return find(begin, bytes) != all_.end();
}

YOTTA_INLINE void DeviceMemory::find_pinned_range() {
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (const auto& [memory, allocation] : all_) {
    if (!allocation.pinned) continue;
    begin = std::min(begin, reinterpret_cast<uintptr_t>(memory));
    end = reinterpret_cast<uintptr_t>(memory) + allocation.bytes;
  }
  pinned_range.set(begin, end);
}

YOTTA_INLINE bool DeviceMemory::is_pinned(const void* begin) {
  if (!pinned_range.holds(reinterpret_cast<uintptr_t>(begin))) return false;
  const LockedWork lock(mutex_);
  const auto found = find(begin, 1);
  return found != all_.end() && found->second.pinned;
}

YOTTA_INLINE bool DeviceMemory::mark_freed(void* memory) {
  const LockedWork lock(mutex_);
  const auto found = all_.find(static_cast<std::byte*>(memory));
  if (found == all_.end() || found->second.freed || found->second.pinned) return false;
  return found->second.freed = true;
}

YOTTA_INLINE size_t DeviceMemory::bytes_of(const void* memory) {
  const LockedWork lock(mutex_);
  const auto found = all_.find(static_cast<std::byte*>(const_cast<void*>(memory)));
  return found == all_.end() ? 0 : found->second.bytes;
}

YOTTA_INLINE uint64_t DeviceMemory::serial_of(const void* begin) {
  const LockedWork lock(mutex_);
  const auto found = find(begin, 1);
  return found == all_.end() || found->second.freed ? 0 : found->second.serial;
}

YOTTA_INLINE std::string DeviceMemory::describe(const void* begin, size_t bytes) {
  const LockedWork lock(mutex_);
  const auto found = find(begin, bytes);
  if (found == all_.end()) return fmt::format("{} bytes at {}", bytes, begin);
  const Allocation& in = found->second;
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(begin) - found->first);
  const std::string name = !in.name.empty() ? in.name
                           : in.pinned      ? "pinned memory"
                                            : "global memory";
  return fmt::format("{}, bytes {} to {} of {}", name, offset, offset + bytes - 1, in.bytes);
}

YOTTA_INLINE void DeviceMemory::written(void* begin, size_t bytes) {
  const LockedWork lock(mutex_);
  const auto found = find(begin, bytes);
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(begin) - found->first);
  Allocation& allocation = found->second;
  if (allocation.shadow) return allocation.shadow->write_by_host(offset, bytes);
  if (allocation.host_wrote.empty() || allocation.host_wrote.back() != std::pair(offset, bytes))
    allocation.host_wrote.emplace_back(offset, bytes);
}

YOTTA_INLINE std::optional<uint32_t> DeviceMemory::written_by_kernel(const void* at, size_t bytes) {
  const LockedWork lock(mutex_);
  const auto found = find(at, bytes);
  if (found == all_.end() || !found->second.shadow) return std::nullopt;
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(at) - found->first);
  const Touch write = found->second.shadow->cells(offset, bytes).begin()->write;
  return write.time > host_time ? std::optional(write.site) : std::nullopt;
}

YOTTA_INLINE bool DeviceMemory::holds_of_host(const void* element, size_t bytes) {
  const LockedWork lock(mutex_);
  for (auto& [memory, allocation] : all_)
    for (size_t at = 0; allocation.shadow && at + bytes <= allocation.bytes; at += bytes)
      if (std::memcmp(memory + at, element, bytes) == 0 &&
          allocation.shadow->cells(at, bytes).begin()->write.time == host_time)
        return true;
  return false;
}

YOTTA_INLINE void DeviceMemory::all_written() {
  const LockedWork lock(mutex_);
  for (auto& [memory, allocation] : all_) {
    if (allocation.shadow) allocation.shadow->write_by_host(0, allocation.bytes);
    allocation.host_wrote_all = true;
  }
}

YOTTA_INLINE void DeviceMemory::name(const void* memory, std::string name, size_t columns) {
  const LockedWork lock(mutex_);
  const auto found = find(memory, 1);
  if (found == all_.end()) return;
  found->second.name = std::move(name);
  found->second.columns = columns;
}

YOTTA_INLINE auto DeviceMemory::with_shadows() -> Allocations& {
  const LockedWork lock(mutex_);
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
  // As numbers: what a kernel was given may be no pointer, and -1 plus something is none.
  const auto offset = reinterpret_cast<uintptr_t>(first) - reinterpret_cast<uintptr_t>(next->first);
  const size_t size = next->second.bytes;
  return offset <= size && bytes <= size - offset ? next : all_.end();
}

}  // namespace yotta
