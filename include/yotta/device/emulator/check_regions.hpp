// Regions: the stretches of memory that a kernel may use, and which of them an address belongs to.
//
//     addresses ->   [global a]   [global b]  ...  [__shared__ tile]  [dynamic shared]   ...   [this lane's stack]
//
// An address in none of them, nor in the program's own variables, is the host's, or nobody's: a GPU would stop.
// Cost: each line of a kernel remembers the region that it touched last, so looking up is one comparison.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "yotta/device/emulator/simt_lane.hpp"
#include "yotta/device/emulator/simt_memory.hpp"
#include "yotta/device/emulator/simt_shared_arrays.hpp"

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
  // The first region that begins behind this address; null if there is none.
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

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
