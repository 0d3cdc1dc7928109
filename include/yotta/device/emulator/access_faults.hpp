// Regions and faults: the stretches of memory that a kernel may use, and what it did to them that
// it must not, in words: which line, which thread, and the cure.
//
//     addresses ->  [global a]  [global b]  [__shared__ tile]  [dynamic shared]  [lane's stack]
//
// Variables of the program (__device__ and __constant__ ones, statics of the host) are found by
// their symbols when a kernel touches them. An address in none of them all is the host's or
// nobody's: a GPU would stop.
// Cost: each line of a kernel remembers the region that it touched last, so a look-up is one
// comparison.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "yotta/device/emulator/debug_info.hpp"
#include "yotta/device/emulator/global_memory.hpp"
#include "yotta/device/emulator/happens_before.hpp"
#include "yotta/device/emulator/watchdog.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

inline constexpr size_t near_static = 4096;  // other variables of the program follow

struct Region {
  uintptr_t begin = 0;
  size_t bytes = 0;
  bool shared = false;
  Shadow* shadow = nullptr;
  std::string name;  // "__shared__ tile"
  size_t columns = 0;
  size_t near = GuardedPages::margin;  // an address so far behind it is an index too large
  bool constant = false;               // __constant__, or read-only data
  uintptr_t place = 0;                 // by which all blocks know this memory; 0: `begin`
  Order* owner = nullptr;              // of shared memory of another block of the cluster
};

// The variables of the program that a launch has touched. The shadows end with it: launches have an
// order, and what the program holds is written.
class ProgramRegions {
 public:
  // The last variable that begins at or before this address; null if symbols do not tell.
  Region* at_or_before(const Image& image, const SharedArrays& symbols, uintptr_t address) {
    const ProgramVariable* const found = symbols.variable_at_or_before(address - image.base);
    if (found == nullptr) return nullptr;
    const uintptr_t begin = image.base + found->offset;
    const auto [at, is_new] = all_.try_emplace(begin);
    if (is_new)
      at->second = region_of(
          *found, begin, begin - image.writable_begin < image.writable_end - image.writable_begin);
    return &at->second;
  }

 private:
  Region region_of(const ProgramVariable& variable, uintptr_t begin, bool writable) {
    Region region{
        .begin = begin, .bytes = variable.bytes, .name = variable.name(), .near = near_static};
    region.constant = !writable || variable.is_constant();
    if (region.constant) return region;
    region.shadow = &shadows_.emplace_back(variable.bytes);
    region.shadow->write_by_host(0, variable.bytes);
    return region;
  }

  std::map<uintptr_t, Region> all_;
  std::deque<Shadow> shadows_;
};

// An array of a block's own shared memory.
struct OwnShared {
  uintptr_t begin = 0;
  size_t bytes = 0;
  Shadow* shadow = nullptr;
  std::string name;
};

class Regions {
 public:
  // All of device memory, the static arrays that the kernel may use, its dynamic shared memory, and
  // variables of the program.
  Regions(const Image& image, const std::vector<SharedArray>& arrays, std::byte* dynamic,
          size_t dynamic_bytes, ProgramRegions& variables)
      : image_(image), symbols_(SharedArrays::of(image)), variables_(variables) {
    for (auto& [memory, allocation] : DeviceMemory::instance().with_shadows())
      regions_.push_back({reinterpret_cast<uintptr_t>(memory), allocation.bytes, false,
                          allocation.shadow.get(), allocation.name, allocation.columns});
    for (const SharedArray& each : arrays)
      add_shared(image.thread_variables + each.offset, each.bytes, each.name, near_static);
    add_shared(dynamic, dynamic_bytes, "dynamic shared memory", GuardedPages::margin);
    sort();
  }

  // The block's shared memory, array by array, the dynamic one last.
  const std::vector<OwnShared>& shared() const { return shared_; }
  // Its arrays are seen at these addresses by the other blocks of the cluster.
  void are_seen_at(const std::vector<uintptr_t>& places) {
    for (size_t i = 0; i < shared_.size(); ++i) at_or_before(shared_[i].begin)->place = places[i];
  }
  // Those of another block, whose order is `owner`, are seen at these addresses.
  void add_of_other(const Regions& other, const std::vector<uintptr_t>& places, Order& owner) {
    for (size_t i = 0; i < places.size(); ++i)
      regions_.push_back({.begin = places[i],
                          .bytes = other.shared_[i].bytes,
                          .shared = true,
                          .shadow = other.shared_[i].shadow,
                          .name = other.shared_[i].name,
                          .near = 64,
                          .owner = &owner});
    sort();
    std::fill(std::begin(last_), std::end(last_), nullptr);
  }

  // The region that holds this byte, or null. Null for constants too: see variable().
  YOTTA_UNSEEN Region* find(uintptr_t address, uint32_t site) {
    Region*& last = last_[site % cached];
    if (last == nullptr || address - last->begin >= last->bytes) {
      Region* found = at_or_before(address);
      if (found == nullptr || address - found->begin >= found->bytes)
        found = variable(address, site);
      if (found == nullptr) return nullptr;
      last = found;
    }
    return last->constant ? nullptr : last;
  }
  // The last region that begins at or before this address; null if there is none.
  YOTTA_UNSEEN Region* at_or_before(uintptr_t address) {
    Region* low = regions_.data();
    size_t count = regions_.size();
    while (count > 0) {
      const size_t half = count / 2;
      if (low[half].begin <= address) {
        low += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return low == regions_.data() ? nullptr : low - 1;
  }
  // The first region that begins after this address; null if there is none.
  Region* after(uintptr_t address) {
    Region* const before = at_or_before(address);
    Region* const next = before == nullptr ? regions_.data() : before + 1;
    return next == regions_.data() + regions_.size() ? nullptr : next;
  }
  // The program's own memory.
  YOTTA_UNSEEN bool in_program(uintptr_t address) const {
    return address >= image_.begin && address < image_.end;
  }
  // The variable of the program that holds this byte; null if none does.
  Region* variable(uintptr_t address, uint32_t site) {
    Region* const last = last_[site % cached];
    if (last != nullptr && last->constant && address - last->begin < last->bytes) return last;
    Region* const before = variable_at_or_before(address);
    return before != nullptr && address - before->begin < before->bytes ? before : nullptr;
  }
  Region* variable_at_or_before(uintptr_t address) {
    return in_program(address) ? variables_.at_or_before(image_, symbols_, address) : nullptr;
  }
  // Between two variables, where nothing is. Read-only data may have no symbol.
  bool in_gap(uintptr_t address) {
    if (address - image_.writable_begin >= image_.writable_end - image_.writable_begin)
      return false;
    const Region* const before = variable_at_or_before(address);
    return before != nullptr && address - before->begin >= before->bytes;
  }

 private:
  void sort() {
    std::sort(regions_.begin(), regions_.end(),
              [](const Region& a, const Region& b) { return a.begin < b.begin; });
  }
  void add_shared(std::byte* begin, size_t bytes, const std::string& name, size_t near) {
    shadows_.emplace_back(bytes);
    const auto address = reinterpret_cast<uintptr_t>(begin);
    regions_.push_back({address, bytes, true, &shadows_.back(), name, 0, near});
    shared_.push_back({address, bytes, &shadows_.back(), name});
  }
  static constexpr uint32_t cached = 1024;
  Image image_;
  const SharedArrays& symbols_;
  ProgramRegions& variables_;
  std::deque<Shadow> shadows_;     // of shared memory
  std::vector<OwnShared> shared_;  // in the order in which a block has it
  std::vector<Region> regions_;
  Region* last_[cached] = {};
};

enum class Access : uint8_t { read, write, atomic, volatile_read, volatile_write };

YOTTA_UNSEEN constexpr bool only_reads(Access access) {
  return access == Access::read || access == Access::volatile_read;
}
// Two of these never race with each other.
YOTTA_UNSEEN constexpr bool is_strong(Access access) {
  return access != Access::read && access != Access::write;
}

enum class Fault : uint8_t {
  outside,
  local,
  extent,
  misaligned,
  uninitialised,
  race,
  in_flight,
  changed_in_flight,
  no_proxy_fence,  // between what a thread wrote and a bulk copy or wgmma that reads it
  swizzle,         // a wgmma's descriptor names another than the copy that wrote the tile
  sum_in_flight,   // d of a wgmma that may be at work
  space,           // shared where it must be global, or the other way
  block_ended,     // another block's shared memory, which may have ended by then
  constant
};

// All that a message needs, gathered while the kernel stands still.
struct Incident {
  Fault fault = Fault::outside;
  Access access = Access::read;
  uintptr_t address = 0;
  size_t bytes = 0;
  uint32_t site = 0;
  Touch other = {};  // the other side of a race
  Access other_access = Access::read;
  uint3 block = {}, thread = {};
  uint3 other_block = {}, other_thread = {};  // of that side, or whose local variable it is
  const Region* region = nullptr;             // of the address, or the one before it
  const Region* next = nullptr;               // the one after it
  const char* array_type = nullptr;           // 'float [8]'
  int64_t index = 0;                          // beyond it
  bool wants_shared = false;                  // what the instruction takes; else global memory
  Copier copier = Copier::cp_async;           // of a copy in flight
  int swizzles[2] = {};                       // the copy's and the descriptor's
  Order::Load load = {};                      // of a bulk_load in flight
  uint32_t barrier = 0;  // a __syncthreads() at which the other side of a race waits, and this not
};

inline const char* verb(Access access) {
  switch (access) {
    case Access::read:
    case Access::volatile_read: return "reads";
    case Access::write:
    case Access::volatile_write: return "writes";
    case Access::atomic: return "changes atomically";
  }
  return "?";
}

inline std::string name_of(const Region& region) {
  return region.name.empty() ? "global memory" : region.name;
}

// "a, element 66 of 4225: row 1 of 65, column 1 of 65".
inline std::string spot(const Region& region, uintptr_t address, size_t bytes) {
  const size_t offset = address - region.begin, element = offset / bytes;
  std::string text =
      fmt::format("{}, element {} of {}", name_of(region), element, region.bytes / bytes);
  if (region.columns > 0)
    text += fmt::format(": row {} of {}, column {} of {}", element / region.columns,
                        region.bytes / bytes / region.columns, element % region.columns,
                        region.columns);
  return text;
}

// Whether the host can read this byte: the system writes it to a pipe, or refuses.
inline bool is_readable(uintptr_t address) {
  int ends[2] = {};
  if (::pipe(ends) != 0) return false;
  const bool well = ::write(ends[1], reinterpret_cast<const void*>(address), 1) == 1;
  for (const int end : ends) ::close(end);
  return well;
}

// " at main.cpp:17"; nothing if a class of the library did it.
inline std::string freed_by(Where where) {
  const bool ours = std::string_view(where.file_name()).find("/yotta/") != std::string_view::npos;
  return ours || where.line() == 0 ? std::string() : " at " + at(where);
}

// An address that is near no array.
inline std::string explain_pointer(uintptr_t address) {
  if (address < GuardedPages::margin)
    return "through a null pointer. Was the array allocated, and its data() passed?";
  if (const auto freed = DeviceMemory::instance().freed_at(address))
    return fmt::format("of {}, {} bytes that were freed{}. Keep the array until the kernel has run",
                       freed->name.empty() ? "global memory" : freed->name, freed->bytes,
                       freed_by(freed->where));
  if (const std::string nearest = DeviceMemory::instance().nearest(address); !nearest.empty())
    return "out of bounds: " + nearest + ". Compare the index with the size";
  if (is_readable(address))
    return fmt::format(
        "at {:#x}, which is memory of the host. Copy the data to a DeviceArray and pass its data()",
        address);
  return fmt::format(
      "at {:#x}, where there is no memory: an index far out of bounds, or a pointer that was never "
      "set",
      address);
}

inline std::string explain_outside(const Incident& at) {
  if (at.region != nullptr && at.address - at.region->begin < at.region->bytes + at.region->near)
    return fmt::format(
        "{} {} bytes out of bounds: {}. Guard the access: compare the index with the size",
        verb(at.access), at.bytes, spot(*at.region, at.address, at.bytes));
  if (at.next != nullptr && at.next->begin - at.address <= at.next->near)
    return fmt::format(
        "{} {} bytes out of bounds: {} bytes before the beginning of {}. Is the index negative?",
        verb(at.access), at.bytes, at.next->begin - at.address, name_of(*at.next));
  return fmt::format("{} {} bytes {}", verb(at.access), at.bytes, explain_pointer(at.address));
}

// "'float [4][8]'" has 4: "index 4 is out of bounds of an array of 4 ('float [4][8]')".
inline std::string explain_extent(const Incident& at) {
  const std::string_view type = at.array_type;
  const size_t begin = type.find('[') + 1;
  return fmt::format(
      "index {} is out of bounds of an array of {} ({}). Compare the index with the size; in a "
      "tile, are row and "
      "column in their places?",
      at.index, type.substr(begin, type.find(']') - begin), type);
}

inline bool is_between(const Line& at, const Line& a, const Line& b) {
  return at.file == a.file && at.file == b.file && std::min(a.number, b.number) < at.number &&
         at.number < std::max(a.number, b.number);
}

// An instruction on the wrong kind of memory.
inline std::string explain_space(const Incident& at) {
  const char* const kind = at.region == nullptr  ? "memory of the thread"
                           : at.region->constant ? "constant memory"
                           : at.region->shared   ? "shared memory"
                                                 : "global memory";
  const bool by_ldmatrix = at.wants_shared && at.access == Access::read;
  const char* cure =
      "cp.async copies from global to shared memory only. Are its arguments exchanged? Elsewhere "
      "assign";
  if (at.copier == Copier::bulk_load)
    cure = "with an mbarrier, cp_async_bulk copies from global to shared memory";
  else if (at.copier == Copier::bulk_store)
    cure = "without an mbarrier, cp_async_bulk copies from shared to global memory";
  else if (by_ldmatrix)
    cure = "ldmatrix reads shared memory only. Copy the tile there first";
  return fmt::format("{} {} bytes of {}, which is {}: {}", verb(at.access), at.bytes,
                     at.region == nullptr ? "a local variable" : name_of(*at.region), kind, cure);
}

// What a copy or wgmma reads was overwritten meanwhile.
inline std::string explain_changed(const Incident& at, Sites& sites) {
  const char *reader = "a bulk copy reads", *end = "cp_async_bulk_wait_group_read";
  if (at.copier == Copier::cp_async) {
    reader = "cp.async copies";
    end = "cp_async_wait";
  } else if (at.copier == Copier::wgmma) {
    reader = "this wgmma reads";
    end = "wgmma_wait_group";
  } else if (at.copier == Copier::bulk_load) {
    end = "its mbarrier's phase has completed";
  }
  return fmt::format(
      "{} {}, which line {} has overwritten while it may have been at work. Write there after {}",
      reader, spot(*at.region, at.address, at.bytes), sites.line(at.other.site).text(), end);
}

inline std::string explain_proxy_fence(const Incident& at, Sites& sites) {
  return fmt::format(
      "{} reads {}, which line {} (thread {}) has written, and no fence_proxy_async() is between "
      "the two, so it may see what was there before. Call it after the writes in each thread that "
      "wrote, then let the threads meet",
      at.copier == Copier::wgmma ? "wgmma" : "a bulk copy", spot(*at.region, at.address, at.bytes),
      sites.line(at.other.site).text(), text(at.other_thread));
}

inline std::string explain_swizzle(const Incident& at, Sites& sites) {
  return fmt::format(
      "wgmma's descriptor names a swizzle of {} bytes, and the copy of line {} has written {} with "
      "one of {}. Let the tensor map and wgmma_descriptor() name the same (16 bytes: none)",
      at.swizzles[1], sites.line(at.other.site).text(), name_of(*at.region), at.swizzles[0]);
}

// A copy that has not come yet, or of which this thread does not know.
inline std::string explain_in_flight(const Incident& at, Sites& sites) {
  const std::string copy = sites.line(at.other.site).text(),
                    place = spot(*at.region, at.address, at.bytes);
  if (at.copier == Copier::cp_async)
    return fmt::format(
        "{} {} too early: the cp.async of line {} may still be on its way. Wait for its group with "
        "cp_async_wait, then __syncthreads()",
        verb(at.access), place, copy);
  if (at.copier == Copier::wgmma)
    return fmt::format(
        "this wgmma may still read {} when the bulk copy of line {} replaces it. wgmma_wait_group "
        "comes "
        "before the arrival that frees the place",
        place, copy);
  if (at.copier == Copier::bulk_store)
    return fmt::format(
        "{} {} too early: the bulk copy of line {} may still be on its way. Wait for its group "
        "with "
        "cp_async_bulk_wait_group",
        verb(at.access), place, copy);
  const std::string passed =
      at.load.passed < 0
          ? "this thread has not waited for its mbarrier"
          : fmt::format(
                "this thread has last waited for parity {} of its mbarrier, and the copy "
                "belongs to a phase of parity {}",
                at.load.passed, at.load.parity);
  return fmt::format(
      "{} {} too early: the bulk copy of line {} may still be on its way, {}. Let each thread that "
      "uses the bytes see that phase complete, by mbarrier_try_wait_parity, or meet one that has",
      verb(at.access), place, copy, passed);
}

inline std::string explain_race(const Incident& at, Sites& sites) {
  const bool same_block = at.block.x == at.other_block.x && at.block.y == at.other_block.y &&
                          at.block.z == at.other_block.z;
  const std::string other =
      same_block ? fmt::format("thread {}", text(at.other_thread))
                 : fmt::format("block {}, thread {}", text(at.other_block), text(at.other_thread));
  const std::string mine = sites.line(at.site).text(), theirs = sites.line(at.other.site).text();
  const bool reads_theirs = only_reads(at.access);  // name the writer first
  const std::string what = reads_theirs
                               ? fmt::format("race: line {} {} what line {} {}", theirs,
                                             verb(at.other_access), mine, verb(at.access))
                               : fmt::format("race: line {} {} what line {} {}", mine,
                                             verb(at.access), theirs, verb(at.other_access));
  const char* cure = "Put a __syncthreads() between the two";
  if (!same_block && at.region->shared)
    cure =
        "Let the blocks of the cluster meet in cluster_sync() between the two, or wait for an "
        "mbarrier at which the other one arrives";
  else if (!same_block)
    cure =
        "Blocks have no order: give each its own elements, use an atomic operation, or a second "
        "launch";
  else if (at.copier == Copier::bulk_load)
    cure =
        "Let the threads that used the bytes arrive at an mbarrier, and wait for it before the "
        "copy "
        "that replaces them";
  else if (!reads_theirs && !only_reads(at.other_access))
    cure = "Let one thread write it, give each thread its own element, or use an atomic operation";
  const std::string place = spot(*at.region, at.address, at.bytes);
  const Line barrier = same_block && at.barrier != 0 ? sites.line(at.barrier) : Line();
  if (is_between(barrier, sites.line(at.site), sites.line(at.other.site)))
    return fmt::format(
        "{} ({}; the other is {}), and not all threads reach the __syncthreads() of line {} "
        "between them. Move it out of the branch",
        what, place, other, barrier.text());
  return fmt::format("{} ({}; the other is {}), and no barrier is between them. {}", what, place,
                     other, cure);
}

inline std::string explain(const Incident& at, Sites& sites) {
  std::string what;
  switch (at.fault) {
    case Fault::outside: what = explain_outside(at); break;
    case Fault::local:
      what = fmt::format(
          "{} {} bytes of a local variable of thread {}. A pointer to a local variable is good in "
          "its own thread only: pass the value through shared memory or a shuffle",
          verb(at.access), at.bytes, text(at.other_thread));
      break;
    case Fault::extent: what = explain_extent(at); break;
    case Fault::misaligned:
      what = fmt::format(
          "{} {} bytes at an address that is not a multiple of {} ({}, {} bytes too far). A vector "
          "of "
          "{} "
          "bytes must begin at a multiple of its size: pad the rows, or use a smaller vector",
          verb(at.access), at.bytes, at.bytes, name_of(*at.region), at.address % at.bytes,
          at.bytes);
      break;
    case Fault::uninitialised:
      what = fmt::format("reads what nobody has written: {}. Write it first{}",
                         spot(*at.region, at.address, at.bytes),
                         at.region->shared ? " (shared memory holds garbage when a block starts)"
                                           : ", or copy or set the array before the launch");
      break;
    case Fault::race: what = explain_race(at, sites); break;
    case Fault::in_flight: what = explain_in_flight(at, sites); break;
    case Fault::changed_in_flight: what = explain_changed(at, sites); break;
    case Fault::no_proxy_fence: what = explain_proxy_fence(at, sites); break;
    case Fault::swizzle: what = explain_swizzle(at, sites); break;
    case Fault::sum_in_flight:
      what = fmt::format(
          "{} a sum of the wgmma of line {}, which may be at work on it. wgmma_commit_group() and "
          "wgmma_wait_group<0>() come first",
          verb(at.access), sites.line(at.other.site).text());
      break;
    case Fault::space: what = explain_space(at); break;
    case Fault::block_ended:
      what = fmt::format(
          "{} {}, and that block may have ended by then, so that its shared memory is another's. "
          "Let it wait for this, for example in a cluster_sync() before both return",
          verb(at.access), spot(*at.region, at.address, at.bytes));
      break;
    case Fault::constant:
      what = fmt::format(
          "{} {} bytes of {}, which is constant: kernels may read it only. Declare it __device__",
          verb(at.access), at.bytes, name_of(*at.region));
      break;
  }
  return fmt::format("{}: block {}, thread {}: {}", sites.line(at.site).text(), text(at.block),
                     text(at.thread), what);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
