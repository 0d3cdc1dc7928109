#include "yotta/device/emulator/guarded_pages.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

using yotta::GuardedPages;

namespace {

// Whether the system has a mapping there, and whether it can be written to.
bool is_mapped(std::byte* at) { return ::msync(at, 1, MS_ASYNC) == 0; }
bool can_write(std::byte* at) {
  const int zeros = ::open("/dev/zero", O_RDONLY);
  const bool well = ::read(zeros, at, 1) == 1;
  ::close(zeros);
  return well;
}

}  // namespace

TEST_CASE("pages can be used, their margins cannot, and locked addresses stay taken") {
  GuardedPages pages(10000);
  std::byte* const begin = pages.begin();
  REQUIRE(begin != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(begin) % 4096 == 0);
  CHECK(pages.bytes() == 12288);
  CHECK(can_write(begin));
  CHECK(can_write(begin + 8192));
  CHECK_FALSE(can_write(begin - 4096));
  CHECK_FALSE(can_write(begin + 12288));
  pages.lock();
  CHECK_FALSE(can_write(begin));
  CHECK(is_mapped(begin));
  pages.drop();
  CHECK(pages.begin() == nullptr);
}
