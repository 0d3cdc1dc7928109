// Counts what a program holds of memory from `new`: for cases about how much a function may keep.
// One unit of a program includes this; all of the program is counted from then on.
//
//     HeldMemory held;
//     flash_tile(...);
//     held.most()        bytes more than at the beginning, at the worst moment
#pragma once

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace exercise {

class HeldMemory {
 public:
  HeldMemory() : before_(now_) { most_ = now_.load(); }
  int64_t most() const { return most_ - before_; }

  static void* took(void* block) {
    if (block == nullptr) throw std::bad_alloc();
    const int64_t now = now_ += static_cast<int64_t>(malloc_usable_size(block));
    for (int64_t most = most_; most < now && !most_.compare_exchange_weak(most, now);) {
    }
    return block;
  }
  static void gave(void* block) {
    if (block != nullptr) now_ -= static_cast<int64_t>(malloc_usable_size(block));
    std::free(block);
  }

 private:
  static inline std::atomic<int64_t> now_ = 0, most_ = 0;
  int64_t before_;
};

}  // namespace exercise

void* operator new(std::size_t bytes) {
  return exercise::HeldMemory::took(std::malloc(std::max<std::size_t>(1, bytes)));
}
void* operator new(std::size_t bytes, std::align_val_t align) {
  const auto to = static_cast<std::size_t>(align);
  return exercise::HeldMemory::took(std::aligned_alloc(to, (bytes + to - 1) / to * to));
}
void operator delete(void* block) noexcept { exercise::HeldMemory::gave(block); }
void operator delete(void* block, std::size_t) noexcept { exercise::HeldMemory::gave(block); }
void operator delete(void* block, std::align_val_t) noexcept { exercise::HeldMemory::gave(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  exercise::HeldMemory::gave(block);
}
