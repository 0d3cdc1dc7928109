// Regions and faults: the stretches of memory that a kernel may use, and what it did to them that
// it must not, in words: which line, which thread, and the cure.
//
//     addresses ->  [global a]  [global b]  [__shared__ tile]  [dynamic shared]  [lane's stack]
//
// An address in none of them, nor in the program's own variables, is the host's or nobody's: a GPU
// would stop.
// Cost: each line of a kernel remembers the region that it touched last, so a look-up is one
// comparison.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
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

struct Region {
  uintptr_t begin = 0;
  size_t bytes = 0;
  bool shared = false;
  Shadow* shadow = nullptr;
  std::string name;  // "__shared__ tile"
  size_t columns = 0;
};

class Regions {
 public:
  // All of device memory, the static arrays that the kernel may use, and its dynamic shared memory.
  Regions(const Image& image, const std::vector<SharedArray>& arrays, std::byte* dynamic,
          size_t dynamic_bytes)
      : image_(image) {
    for (auto& [memory, allocation] : DeviceMemory::instance().with_shadows())
      regions_.push_back({reinterpret_cast<uintptr_t>(memory), allocation.bytes, false,
                          allocation.shadow.get(), allocation.name, allocation.columns});
    for (const SharedArray& each : arrays)
      add_shared(image.thread_variables + each.offset, each.bytes, each.name);
    add_shared(dynamic, dynamic_bytes, "dynamic shared memory");
    std::sort(regions_.begin(), regions_.end(),
              [](const Region& a, const Region& b) { return a.begin < b.begin; });
  }

  // The region that holds this byte, or null.
  YOTTA_UNSEEN Region* find(uintptr_t address, uint32_t site) {
    Region*& last = last_[site % cached];
    if (last != nullptr && address - last->begin < last->bytes) return last;
    Region* const before = at_or_before(address);
    if (before == nullptr || address - before->begin >= before->bytes) return nullptr;
    return last = before;
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
  // A variable of the program itself: __constant__, __device__, a table.
  YOTTA_UNSEEN bool in_program(uintptr_t address) const {
    return address >= image_.begin && address < image_.end;
  }

 private:
  void add_shared(std::byte* begin, size_t bytes, const std::string& name) {
    shadows_.emplace_back(bytes);
    regions_.push_back(
        {reinterpret_cast<uintptr_t>(begin), bytes, true, &shadows_.back(), name, 0});
  }

  static constexpr uint32_t cached = 1024;
  Image image_;
  std::deque<Shadow> shadows_;  // of shared memory
  std::vector<Region> regions_;
  Region* last_[cached] = {};
};

enum class Access : uint8_t { read, write, atomic };

enum class Fault : uint8_t { outside, extent, misaligned, uninitialised, race, in_flight };

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
  uint3 other_block = {}, other_thread = {};
  const Region* region = nullptr;    // of the address, or the one before it
  const Region* next = nullptr;      // the one after it
  const char* array_type = nullptr;  // 'float [8]'
  int64_t index = 0;                 // beyond it
};

inline const char* verb(Access access) {
  switch (access) {
    case Access::read: return "reads";
    case Access::write: return "writes";
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

inline std::string explain_outside(const Incident& at) {
  constexpr size_t near = DeviceMemory::margin;
  if (at.region != nullptr && at.address - at.region->begin < at.region->bytes + near)
    return fmt::format(
        "{} {} bytes out of bounds: {}. Guard the access: compare the index with the size",
        verb(at.access), at.bytes, spot(*at.region, at.address, at.bytes));
  if (at.next != nullptr && at.next->begin - at.address <= near)
    return fmt::format(
        "{} {} bytes out of bounds: {} bytes before the beginning of {}. Is the index negative?",
        verb(at.access), at.bytes, at.next->begin - at.address, name_of(*at.next));
  return fmt::format(
      "{} {} bytes at {:#x}, which is not memory of the device: memory of the host (copy the data "
      "to a "
      "DeviceArray and pass its data()), freed memory, or an index far out of bounds",
      verb(at.access), at.bytes, at.address);
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

inline std::string explain_race(const Incident& at, Sites& sites) {
  const bool same_block = at.block.x == at.other_block.x && at.block.y == at.other_block.y &&
                          at.block.z == at.other_block.z;
  const std::string other =
      same_block ? fmt::format("thread {}", text(at.other_thread))
                 : fmt::format("block {}, thread {}", text(at.other_block), text(at.other_thread));
  const std::string mine = sites.line(at.site).text(), theirs = sites.line(at.other.site).text();
  const bool reads_theirs = at.access == Access::read;  // name the writer first
  const std::string what = reads_theirs
                               ? fmt::format("race: line {} {} what line {} {}", theirs,
                                             verb(at.other_access), mine, verb(at.access))
                               : fmt::format("race: line {} {} what line {} {}", mine,
                                             verb(at.access), theirs, verb(at.other_access));
  const char* cure = "Put a __syncthreads() between the two";
  if (!same_block)
    cure =
        "Blocks have no order: give each its own elements, use an atomic operation, or a second "
        "launch";
  else if (at.access != Access::read && at.other_access != Access::read)
    cure = "Let one thread write it, give each thread its own element, or use an atomic operation";
  return fmt::format("{} ({}; the other is {}), and no barrier is between them. {}", what,
                     spot(*at.region, at.address, at.bytes), other, cure);
}

inline std::string explain(const Incident& at, Sites& sites) {
  std::string what;
  switch (at.fault) {
    case Fault::outside: what = explain_outside(at); break;
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
    case Fault::in_flight:
      what = fmt::format(
          "{} {} too early: the cp.async of line {} may still be on its way. Wait for its group "
          "with "
          "cp_async_wait, then __syncthreads()",
          verb(at.access), spot(*at.region, at.address, at.bytes),
          sites.line(at.other.site).text());
      break;
  }
  return fmt::format("{}: block {}, thread {}: {}", sites.line(at.site).text(), text(at.block),
                     text(at.thread), what);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
