#include "yotta/core/cpu/block_cache.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("sizes are rounded up by at most an eighth, to whole cache lines") {
  for (int64_t bytes = 0; bytes < 100000; bytes += 7) {
    const int64_t size = BlockCache::rounded(bytes);
    CHECK_UNARY(size >= bytes);
    CHECK_UNARY(size % 64 == 0);
    CHECK_UNARY(size <= bytes + std::max<int64_t>(64, bytes / 8));
  }
}

TEST_CASE("a freed block is handed out again, aligned") {
  BlockCache cache;
  void* first = cache.take(100000);
  CHECK(reinterpret_cast<uintptr_t>(first) % 64 == 0);
  cache.give(first, 100000);
  void* second = cache.take(100000);
  if (!YOTTA_ASAN) CHECK(second == first);
  cache.give(second, 100000);
  cache.release();
}

TEST_CASE("a large block of scratch begins on a large page, and comes and goes like the others") {
  BlockCache cache(true);
  for (const int64_t bytes : {large_page - 1, large_page, 3 * large_page + 1}) {
    auto* block = static_cast<char*>(cache.take(bytes));
    CHECK(reinterpret_cast<uintptr_t>(block) % large_page == 0);
    block[0] = block[bytes - 1] = 1;
    cache.give(block, bytes);
    cache.release();
  }
}
