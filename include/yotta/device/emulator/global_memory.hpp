// The emulator's device memory: a list of what cudaMalloc has allocated (stream_words.hpp), so that
// an address says which allocation it belongs to.
//
//     arrays, by address    [x: 4000 bytes]      [y: 4000 bytes]      [z, freed at main.cpp:17]
//     address p                            ^ "element 1002 of 1000", in a kernel's error
//
// Each array has addresses of its own (guarded_pages.hpp). Those of the arrays that were freed last
// are not used again, so that a pointer to one is known for what it is.
//
// Pinned memory of the host (cudaMallocHost) is in the list too, since kernels and asynchronous
// copies may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "yotta/device/emulator/cuda_errors.hpp"
#include "yotta/device/emulator/guarded_pages.hpp"
#include "yotta/device/emulator/task.hpp"

namespace yotta {

// While one of these lives, this thread does the emulator's work: what it touches is not touched by
// the host's program.
class EmulatorWork {
 public:
  EmulatorWork() { ++depth(); }
  ~EmulatorWork() { --depth(); }
  EmulatorWork(const EmulatorWork&) = delete;
  EmulatorWork& operator=(const EmulatorWork&) = delete;
  static bool here() { return depth() > 0; }

 private:
  friend class HostProgram;
  static int& depth();
};
// While one of these lives in that, it is the host's program again.
class HostProgram {
 public:
  HostProgram() : depth_(std::exchange(EmulatorWork::depth(), 0)) {}
  ~HostProgram() { EmulatorWork::depth() = depth_; }
  HostProgram(const HostProgram&) = delete;
  HostProgram& operator=(const HostProgram&) = delete;

 private:
  int depth_;
};
// Work that one thread does at a time.
template <class Mutex>
class LockedWork : EmulatorWork {
 public:
  explicit LockedWork(Mutex& mutex) : lock_(mutex) {}

 private:
  std::lock_guard<Mutex> lock_;
};

class Shadow;  // who touched what, and when: happens_before.hpp

// One cudaMalloc or cudaMallocHost.
struct Allocation {
  GuardedPages pages;
  size_t bytes = 0;
  uint64_t serial = 0;             // no two are the same
  bool pinned = false;             // the host's
  bool freed = false;              // by a cudaFreeAsync that may still be in its stream
  std::string name;                // for messages; DeviceArray::named()
  size_t columns = 0;              // of the matrix that it holds, if it holds one
  std::shared_ptr<Shadow> shadow;  // made at the first checked launch
  bool host_wrote_all = false;     // until then: what is known to be written
  std::vector<std::pair<size_t, size_t>> host_wrote;  // offset, bytes
};

// An array that is no more.
struct FreedArray {
  GuardedPages pages;
  size_t bytes = 0;
  std::string name;
  Where where;  // line 0: not known
};

// All device memory of this process. It serves checked and unchecked kernels alike, so it is in no
// build's namespace.
class DeviceMemory {
 public:
  using Allocations = std::map<std::byte*, Allocation>;
  static constexpr size_t margin = GuardedPages::margin;

  static DeviceMemory& instance();

  // Makes it as large as a GPU's; without a limit, it is as large as the host's.
  void limit(size_t bytes);
  // Free bytes, and all bytes.
  std::pair<size_t, size_t> room();
  // Null if less than that is free.
  void* allocate(size_t bytes, bool pinned = false);
  // False if this is not the beginning of an allocation. where: of the call that frees it.
  bool release(void* memory, Where where = {});
  // "400 bytes behind the end of x, which has 4000", for an address in the margin of an array.
  std::string nearest(uintptr_t address);
  // The array that had this address, if it was freed not long ago.
  std::optional<FreedArray> freed_at(uintptr_t address);
  // Whether all of [begin, begin + bytes) lies in one allocation.
  bool holds(const void* begin, size_t bytes);
  // Whether it lies in pinned memory of the host.
  bool is_pinned(const void* begin);
  // False if no living allocation begins here; else it is marked as freed.
  bool mark_freed(void* memory);
  // The size of the allocation that begins here; 0 if there is none.
  size_t bytes_of(const void* memory);
  // The number of the allocation that holds it; 0 if there is none.
  uint64_t serial_of(const void* begin);
  // "x, bytes 16 to 31 of 4000".
  std::string describe(const void* begin, size_t bytes);
  // The host, or an unchecked kernel, wrote these bytes.
  void written(void* begin, size_t bytes);
  // The line of the kernel that was the last to write here; nothing if it was the host.
  std::optional<uint32_t> written_by_kernel(const void* at, size_t bytes);
  // Whether the host wrote this element to some array, and it is there still.
  bool holds_of_host(const void* element, size_t bytes);
  // An unchecked kernel ran: it may have written anything.
  void all_written();
  void name(const void* memory, std::string name, size_t columns);
  // For the checks, which run one launch at a time.
  Allocations& with_shadows();

 private:
  Allocations::iterator find(const void* begin, size_t bytes);
  void find_pinned_range();
  void forget_oldest();

  static constexpr size_t freed_addresses = size_t{4} << 30;  // that are not used again

  std::mutex mutex_;
  Allocations all_;
  std::deque<FreedArray> freed_;  // the oldest first
  size_t freed_bytes_ = 0;        // of their addresses
  size_t used_ = 0, total_ = SIZE_MAX;
  uint64_t serial_ = 0;
};

// Where pinned memory lies: an address outside is none. The host's own code asks for each access.
struct PinnedRange {
  uintptr_t begin = UINTPTR_MAX, end = 0;  // read while other threads set them
  void set(uintptr_t from, uintptr_t to) {
    __atomic_store_n(&begin, from, __ATOMIC_RELAXED);
    __atomic_store_n(&end, to, __ATOMIC_RELAXED);
  }
  YOTTA_UNSEEN bool holds(uintptr_t address) const {
    return address >= __atomic_load_n(&begin, __ATOMIC_RELAXED) &&
           address < __atomic_load_n(&end, __ATOMIC_RELAXED);
  }
};
inline PinnedRange pinned_range;

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/emulator/impl/global_memory.ipp"
#endif
