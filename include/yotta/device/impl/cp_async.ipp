// The bodies of device/cp_async.hpp.
#pragma once

#include "yotta/device/cp_async.hpp"

#include <cstring>

#include "yotta/device/emulator/impl/scheduler.ipp"
#include "yotta/device/emulator/scheduler.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

#if defined(YOTTA_CHECKED)
// The source must hold the same until the copy has landed.
inline void remember_source(AsyncCopy& copy) {
  if (copy.from_bytes > 0) std::memcpy(copy.source.data(), copy.from, copy.from_bytes);
}
inline void check_source(const AsyncCopy& copy) {
  if (copy.from_bytes > 0 && std::memcmp(copy.source.data(), copy.from, copy.from_bytes) != 0)
    note_copy_changed(copy.from, copy.from_bytes, copy.where);
}
#else
inline void remember_source(AsyncCopy&) {}
inline void check_source(const AsyncCopy&) {}
#endif

YOTTA_INLINE void start_async_copy(void* to, const void* from, int size, int bytes, Where where) {
  const UncheckedScope unchecked;
  if (bytes < 0 || bytes > size)
    refuse(where, fmt::format("cp_async<{}>() is asked for {} bytes; 0 to {} are possible, the "
                              "rest is set to zero",
                              size, bytes, size));
  const auto wanted = static_cast<size_t>(bytes), whole = static_cast<size_t>(size);
  if (bytes > 0) note_copy_from(from, wanted, whole, where);
  note_copy_begins(to, whole, where);
  AsyncCopy& copy = this_lane->copies.emplace_back();
  copy.to = to;
  copy.from = from;
  copy.bytes = whole;
  copy.from_bytes = wanted;
  copy.group = this_lane->copy_group;
  copy.where = where;
  remember_source(copy);
}

YOTTA_INLINE void commit_async_copies() {
  const UncheckedScope unchecked;
  ++this_lane->copy_group;
}

YOTTA_INLINE void wait_for_async_copies(int pending) {
  const UncheckedScope unchecked;
  std::vector<AsyncCopy>& copies = this_lane->copies;
  size_t landed = 0;
  for (; landed < copies.size() && copies[landed].group + pending < this_lane->copy_group;
       ++landed) {
    const AsyncCopy& copy = copies[landed];
    check_source(copy);
    auto* to = static_cast<char*>(copy.to);
    if (copy.from_bytes > 0) std::memcpy(to, copy.from, copy.from_bytes);
    std::memset(to + copy.from_bytes, 0, copy.bytes - copy.from_bytes);
    note_copy_ends(copy.to, copy.bytes, copy.where);
    note_write(copy.to, copy.bytes, copy.where);
  }
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(landed));
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
