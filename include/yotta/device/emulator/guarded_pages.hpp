// Pages for one array of the device, between two margins that nobody may touch.
//
//     addresses ->  [ margin: no access ][ pages of x ............ ][ margin: no access ]
//     after free    [ no access                                                         ]
//
// An index that leads far out of the array ends in a margin, so it is found even in the unchecked
// build, and it never reaches another array or the emulator's own data. The addresses of a freed
// array stay taken for a while (DeviceMemory), so a pointer that outlives its array leads to
// nothing.
//
// Cost: two calls of the system to take pages, one to give them back.
// Reference: mmap(2), mprotect(2).
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace yotta {

class GuardedPages {
 public:
  static constexpr size_t margin = 64 * 1024;

  GuardedPages() = default;
  // Without memory if the system refuses it.
  explicit GuardedPages(size_t bytes) : bytes_(whole_pages(bytes)) {
    void* const whole = ::mmap(nullptr, margin + bytes_ + margin, PROT_NONE, flags, -1, 0);
    if (whole == MAP_FAILED) return;
    begin_ = static_cast<std::byte*>(whole) + margin;
    if (::mprotect(begin_, bytes_, PROT_READ | PROT_WRITE) != 0) drop();
  }

  // The first byte of the array, at the beginning of a page; null if there is none.
  std::byte* begin() const { return begin_; }
  size_t bytes() const { return bytes_; }  // of whole pages
  // Of the array and its margins.
  size_t addresses() const { return margin + bytes_ + margin; }

  // Gives the memory back, and keeps the addresses.
  void lock() const { ::mmap(begin_, bytes_, PROT_NONE, flags | MAP_FIXED, -1, 0); }
  // Gives the addresses back too.
  void drop() {
    if (begin_ != nullptr) ::munmap(begin_ - margin, addresses());
    begin_ = nullptr;
  }

 private:
  static constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  static size_t whole_pages(size_t bytes) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
  }

  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace yotta
