// What fences and atomic operations order between threads that no barrier orders.
//
//     thread 0 of block 2   part[2] = sum;  __threadfence();  atomicAdd(&ready, 1)     releases
//                                                                   │ on `ready`
//     thread 9 of block 5                                     atomicAdd(&ready, 1);    acquires
//                                                             ... = part[2];           ordered
//
// A fence alone orders nothing, and neither does an atomic operation. A thread that has passed a
// fence releases with each atomic operation after it: what it did before the fence, and what was
// before that in its block. If a barrier follows the fence, any thread of the block releases it.
// Whoever then changes or reads the same address atomically has acquired all that was released
// there. A fence of the block counts for threads of that block only.
//
//     lock     while (atomicCAS(&lock, 0, 1) != 0) {}      acquires what the last owner released
//     unlock   __threadfence();  atomicExch(&lock, 0);     releases
//
// Cost: nothing until a thread has passed a fence; then a list for each address, whose beginning
// each thread that acquires keeps.
// Reference: CUDA C++ Programming Guide, "Memory Fence Functions"; PTX ISA, "Memory Consistency
// Model", release and acquire patterns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "yotta/device/emulator/task.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

class Releases;

// What a thread has acquired: of each address, so many of its first releases.
using Acquired = std::map<const Releases*, size_t>;

inline void acquire_also(Acquired& mine, const Acquired& more) {
  for (const auto& [at, count] : more) mine[at] = std::max(mine[at], count);
}

// All releases on one address, in their order.
class Releases {
 public:
  size_t count() const { return count_; }

  // One more: accesses of these threads, or of whole blocks, before these times, and what the
  // thread itself had acquired.
  using Before = std::pair<uint32_t, uint32_t>;  // whose, time
  void add(const std::vector<Before>& released, const Acquired& acquired) {
    for (const auto& [whose, time] : released) {
      auto& times = before_[whose];
      if (times.empty() || times.back().second < time) times.emplace_back(count_, time);
    }
    acquire_also(inherited_, acquired);
    ++count_;
  }
  // What whoever acquires all of these has acquired besides.
  const Acquired& inherited() const { return inherited_; }

  // Whether the first `count` releases cover an access at this time by `thread` of `block`.
  bool cover(uint32_t thread, uint32_t block, uint32_t time, size_t count) const {
    return covers(thread, time, count) || covers(block, time, count);
  }

 private:
  bool covers(uint32_t whose, uint32_t time, size_t count) const {
    const auto found = before_.find(whose);
    if (found == before_.end()) return false;
    const auto& times = found->second;  // both numbers of its pairs grow
    const auto end = std::partition_point(times.begin(), times.end(),
                                          [&](const auto& each) { return each.first < count; });
    return end != times.begin() && time < std::prev(end)->second;
  }

  size_t count_ = 0;
  std::unordered_map<uint32_t, std::vector<std::pair<size_t, uint32_t>>> before_;
  Acquired inherited_;
};

// By address; the addresses of Releases never change.
using ReleasesByAddress = std::map<uintptr_t, Releases>;

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
