// Shadow memory and order: what is remembered of accesses to shared and global memory, which of two
// accesses to the same place happen in a known order, and which race.
//
//     memory   | x[0]  | x[1]  | x[2]  | ...
//     shadow   | write: time 17, thread 3, line ..  read: time 18, thread 5  other read: thread 9 |
//
// For every four bytes, the shadow says who wrote and who read them last, and when. Two readers are
// remembered, since a writer may be one of them. A cell whose write has time 0 was never written:
// reading it is reading garbage.
//
//     thread 0   write x ─┐                     same thread                                ordered
//     ──────────────────── __syncthreads()      a barrier between them                     ordered
//     thread 1            └─ read x             same warp, a __syncwarp() of both between  ordered
//
// Everything else within a block races if one of the two is a write, unless both are atomic. Blocks
// are not ordered at all, though here they run one after the other. What another block of this
// launch touched races, unless that block published it (a __threadfence() afterwards) and this
// block has used an atomic operation since: so "the last block adds up" is ordered. In a
// cooperative launch this_grid().sync() orders what comes before it and what comes after it.
//
// Time is a counter that moves at barriers and at __syncwarp(), and never stops: the shadow of
// global memory outlives a launch.
//
// Cost: 36 bytes per cell, taken from the system only where memory is touched. Cells cover 4 bytes
// until an access is smaller or crosses cells (half, char); then the array's cells are split to 2
// bytes or 1.
// References: Serebryany and Iskhodzhanov, "ThreadSanitizer: data race detection in practice", WBIA
// 2009; barriers make it simpler here: intervals instead of vector clocks. CUDA C++ Programming
// Guide, "Memory Fence Functions" (its example is the sum over blocks).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <unordered_map>
#include <utility>

#include "yotta/device/emulator/task.hpp"

namespace yotta {

// One access.
struct Touch {
  uint32_t time = 0;  // 0: there was none
  uint32_t who = 0;   // thread_number() below
  uint32_t site = 0;  // the line: debug_info.hpp
};

struct Cell {
  Touch write, read, other_read;  // the last; readers are two different threads
};

inline constexpr uint32_t host_time = 1;  // of what the host wrote; kernels come later
inline constexpr uint32_t host_site = 0;

// The cells of one stretch of memory.
class Shadow {
 public:
  explicit Shadow(size_t bytes) : bytes_(bytes), cells_(allocate(count())) {}
  ~Shadow() { std::free(cells_); }
  Shadow(Shadow&& other) noexcept
      : bytes_(other.bytes_), shift_(other.shift_), cells_(std::exchange(other.cells_, nullptr)) {}
  Shadow& operator=(Shadow&&) = delete;

  struct Cells {
    Cell *first, *last;
    YOTTA_UNSEEN Cell* begin() const { return first; }
    YOTTA_UNSEEN Cell* end() const { return last; }
  };
  // The cells of [offset, offset + bytes), which lies inside.
  YOTTA_UNSEEN Cells cells(size_t offset, size_t bytes) {
    const size_t mask = (size_t{1} << shift_) - 1;
    if (((offset | bytes) & mask) != 0) split(offset | bytes);
    return {cells_ + (offset >> shift_), cells_ + ((offset + bytes) >> shift_)};
  }

  // visit(offset, bytes, cell) for every cell.
  template <class Visit>
  void each_cell(Visit visit) const {
    const size_t width = size_t{1} << shift_;
    for (size_t at = 0; at < bytes_; at += width)
      visit(at, std::min(width, bytes_ - at), cells_[at >> shift_]);
  }

  // The host wrote these bytes.
  void write_by_host(size_t offset, size_t bytes) {
    for (Cell& cell : cells(offset, bytes)) cell = {{host_time, 0, host_site}, {}, {}};
  }

 private:
  size_t count() const { return (bytes_ >> shift_) + 1; }
  static Cell* allocate(size_t cells) {
    void* memory =
        std::calloc(cells, sizeof(Cell));  // of pages that the system gives when they are touched
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<Cell*>(memory);
  }
  // Finer cells, so that one begins or ends where this offset and size do.
  void split(size_t offset_and_size) {
    const int finer = std::countr_zero(offset_and_size);
    const size_t parts = size_t{1} << (shift_ - finer), cells = count();
    Cell* const old = cells_;
    shift_ = finer;
    cells_ = allocate(count() + parts);
    for (size_t i = 0; i < cells; ++i)
      if (old[i].write.time != 0 || old[i].read.time != 0)
        std::fill_n(cells_ + i * parts, parts, old[i]);
    std::free(old);
  }

  size_t bytes_;
  int shift_ = 2;  // a cell covers 2^shift bytes
  Cell* cells_;
};

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

// A counter that only grows: every access from now on has a later time.
inline uint32_t& access_time() {
  static uint32_t now = host_time;
  return now;
}

// What the blocks of a launch share.
struct LaunchOrder {
  uint32_t begin = ++access_time();  // of the launch, or the last time that the grid has met
  std::unordered_map<uint32_t, uint32_t> published = {};  // by block

  void all_met() { begin = ++access_time(); }
};

class Order {
 public:
  explicit Order(LaunchOrder& launch)
      : launch_(launch), block_(launch.begin), interval_(launch.begin), now_(launch.begin) {}

  void block_starts(uint64_t number) {
    number_ = number;
    block_ = interval_ = now_ = ++access_time();
    for (WarpSync& each : warp_syncs_) each = {};
    acquired_ = false;
  }
  void all_met() { interval_ = now_ = ++access_time(); }
  void lanes_met(int warp, uint32_t mask) {
    now_ = ++access_time();
    for (int i = 0; i < 32; ++i)
      if ((mask >> i & 1) != 0) warp_syncs_[32 * warp + i] = {now_, mask};
  }
  void fence() {
    now_ = ++access_time();
    launch_.published[static_cast<uint32_t>(number_ % (1 << 20))] = now_;
  }
  YOTTA_UNSEEN void acquire() { acquired_ = true; }

  YOTTA_UNSEEN uint32_t now() const { return now_; }
  // Values in shared memory were written since the block started; what may race there happened
  // since the last barrier.
  YOTTA_UNSEEN uint32_t oldest_value(bool shared) const { return shared ? block_ : host_time; }
  YOTTA_UNSEEN uint32_t oldest_rival(bool shared) const {
    return shared ? interval_ : launch_.begin;
  }
  YOTTA_UNSEEN uint32_t number_of(int thread) const { return thread_number(number_, thread); }
  YOTTA_UNSEEN uint64_t block() const { return number_; }
  // In this block, and still on its way.
  YOTTA_UNSEEN bool in_flight(const Touch& other) const {
    return (other.who & in_flight_mark) != 0 && other.time >= block_;
  }

  // Whether another access, since oldest_rival(), and one that this thread makes now are unordered.
  bool races(const Touch& other, uint32_t me) {
    if ((other.who & me & atomic_mark) != 0) return false;
    if (block_of(other.who) != block_of(me)) {
      const auto published = launch_.published.find(block_of(other.who));
      return !acquired_ || published == launch_.published.end() || other.time >= published->second;
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
  uint64_t number_ = 0;  // of the block
  LaunchOrder& launch_;
  uint32_t block_, interval_, now_;
  WarpSync warp_syncs_[most_threads];
  bool acquired_ = false;
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
