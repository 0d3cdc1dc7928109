// Order: which of two accesses to the same place happen in a known order, and which race.
//
//     thread 0   write x ─┐                     same thread                   ordered
//     ──────────────────── __syncthreads()      barrier between               ordered
//     thread 1            └─ read x             same warp, __syncwarp() of both between    ordered
//
//     Everything else of one block races, unless both are atomic. Blocks are not ordered at all, though here they run one
//     after the other: what another block of this launch touched races, unless it published it (__threadfence()
//     afterwards) and this block has used an atomic operation since: so "the last block adds up" is in order.
//
// Time is a counter that moves at barriers and __syncwarp(), and never stops: the shadow of global memory outlives
// a launch. Reference: CUDA C++ Programming Guide, "Memory Fence Functions" (with the sum over blocks as example).
#pragma once

#include <cstdint>
#include <unordered_map>

#include "yotta/device/emulator/check_shadow.hpp"
#include "yotta/device/emulator/simt_lane.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// Numbers of threads in a Touch: the block's number, the thread's in it, and two marks.
inline constexpr uint32_t atomic_mark = 0x80000000u;     // an atomic operation
inline constexpr uint32_t in_flight_mark = 0x40000000u;  // a cp.async that has not been waited for
YOTTA_UNSEEN constexpr uint32_t thread_number(uint64_t block, int thread) {
  return static_cast<uint32_t>(block % (1 << 20)) << 10 | static_cast<uint32_t>(thread);
}
YOTTA_UNSEEN constexpr uint32_t block_of(uint32_t who) { return who >> 10 & 0xfffff; }
YOTTA_UNSEEN constexpr uint32_t thread_of(uint32_t who) { return who & 1023; }

class Order {
 public:
  Order() : launch_(++time()), block_(launch_), interval_(launch_), now_(launch_) {}

  void block_starts(uint64_t number) {
    number_ = number;
    block_ = interval_ = now_ = ++time();
    for (WarpSync& each : warp_syncs_) each = {};
    acquired_ = false;
  }
  void all_met() { interval_ = now_ = ++time(); }
  void lanes_met(int warp, uint32_t mask) {
    now_ = ++time();
    for (int i = 0; i < 32; ++i)
      if ((mask >> i & 1) != 0) warp_syncs_[32 * warp + i] = {now_, mask};
  }
  void fence() {
    now_ = ++time();
    published_[static_cast<uint32_t>(number_ % (1 << 20))] = now_;
  }
  YOTTA_UNSEEN void acquire() { acquired_ = true; }

  YOTTA_UNSEEN uint32_t now() const { return now_; }
  // Shared memory holds something since the block's start; what may race there happened since the last barrier.
  YOTTA_UNSEEN uint32_t oldest_value(bool shared) const { return shared ? block_ : host_time; }
  YOTTA_UNSEEN uint32_t oldest_rival(bool shared) const { return shared ? interval_ : launch_; }
  YOTTA_UNSEEN uint32_t number_of(int thread) const { return thread_number(number_, thread); }
  YOTTA_UNSEEN uint64_t block() const { return number_; }
  // In this block, and still on its way.
  YOTTA_UNSEEN bool in_flight(const Touch& other) const {
    return (other.who & in_flight_mark) != 0 && other.time >= block_;
  }

  // Whether another access, since oldest_rival(), and one that this thread makes now have no order.
  bool races(const Touch& other, uint32_t me) {
    if ((other.who & me & atomic_mark) != 0) return false;
    if (block_of(other.who) != block_of(me)) {
      const auto published = published_.find(block_of(other.who));
      return !acquired_ || published == published_.end() || other.time >= published->second;
    }
    const uint32_t thread = thread_of(me), rival = thread_of(other.who);
    if (thread == rival || other.time < interval_) return false;
    const WarpSync& sync = warp_syncs_[thread];
    const bool met = thread / 32 == rival / 32 && (sync.mask >> (rival % 32) & 1) != 0;
    return !met || other.time >= sync.time;
  }

 private:
  struct WarpSync {
    uint32_t time = 0, mask = 0;
  };
  static uint32_t& time() {
    static uint32_t now = host_time;
    return now;
  }

  uint64_t number_ = 0;  // of the block
  uint32_t launch_, block_, interval_, now_;
  WarpSync warp_syncs_[most_threads];
  std::unordered_map<uint32_t, uint32_t> published_;  // by block
  bool acquired_ = false;
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
