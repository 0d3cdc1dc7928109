// Shadow memory: for every four bytes of memory that kernels share, who wrote and who read them last, and when.
//
//     memory   | x[0]  | x[1]  | x[2]  | ...
//     shadow   | write: time 17, thread 3, line ..   read: time 18, thread 5   another read: time 18, thread 9 |
//
// Time is a counter that moves at every barrier. Two accesses of one interval by different threads, one of them a
// write, race: no barrier orders them. Two readers are remembered, since a writer may be one of them. A cell whose
// write has time 0 was never written: reading it is reading garbage.
//
// Cost: 36 bytes a cell, taken from the system only where memory is touched. Cells cover 4 bytes until an access
// is smaller or crosses cells (half, char); then the array's cells are split to 2 bytes or 1.
// The idea is Eraser's and ThreadSanitizer's: Serebryany and Iskhodzhanov, "ThreadSanitizer: data race detection
// in practice", WBIA 2009. Barriers make it simpler: intervals instead of vector clocks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "yotta/device/emulator/simt_build.hpp"

namespace yotta {

// One access.
struct Touch {
  uint32_t time = 0;  // 0: there was none
  uint32_t who = 0;   // thread_number() of check_access.hpp
  uint32_t site = 0;  // the line: source_lines.hpp
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

}  // namespace yotta
