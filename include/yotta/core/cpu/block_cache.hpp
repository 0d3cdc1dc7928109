// BlockCache: memory that is kept and handed out again.
//
// A training step allocates the same sizes again and again. Fresh pages from the operating system
// cost more than the arithmetic of a small layer (about 0.25 us for each 4 KiB page, the first time
// it is touched), so blocks are kept in bins by size and handed out again, as PyTorch's caching
// allocator does. Under AddressSanitizer nothing is kept, so that use after free is seen. A program
// of which only a part is instrumented says so itself: keep_nothing().
#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "yotta/core/system/build.hpp"

namespace yotta {

inline constexpr std::align_val_t block_alignment{64};  // a cache line, and the widest vector
inline constexpr int64_t large_page = int64_t{2} << 20;

// Free blocks of the whole process, by size. Sizes are rounded up to an eighth of their power of
// two, so that nearly equal ones share a bin and at most one eighth is wasted.
class BlockCache {
 public:
  static BlockCache& instance() {
    static BlockCache* cache = new BlockCache;  // never destroyed: tensors may outlive statics
    return *cache;
  }
  // What a matmul packs and reads again and again: from 2 MiB up on pages of that size, where the
  // system has them, so that the processor finds addresses with less work. Tensors in training gain
  // nothing by it.
  static BlockCache& scratch() {
    static BlockCache* cache = new BlockCache(true);
    return *cache;
  }
  explicit BlockCache(bool large_pages = false);
  ~BlockCache();

  void* take(int64_t bytes);
  void give(void* block, int64_t bytes);

  // From now on each block that is given goes back to the system, in all caches.
  static void keep_nothing() { keeps_ = false; }

  // Hand every free block back to the system.
  void release();

  static constexpr int64_t rounded(int64_t bytes) {
    const int64_t power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes | 1)));
    const int64_t step = std::max<int64_t>(64, power / 8);
    return std::max<int64_t>(64, (bytes + step - 1) / step * step);
  }

 private:
  bool is_large(int64_t size) const { return large_pages_ && size >= large_page; }
  std::align_val_t alignment(int64_t size) const {
    return is_large(size) ? std::align_val_t{large_page} : block_alignment;
  }
  void* allocate(int64_t size) const {
    void* block = ::operator new(static_cast<size_t>(size), alignment(size));
#if defined(MADV_HUGEPAGE)  // a wish: where it is not granted, nothing is lost
    if (is_large(size)) madvise(block, static_cast<size_t>(size), MADV_HUGEPAGE);
#endif
    return block;
  }
  void free_block(void* block, int64_t size) const { ::operator delete(block, alignment(size)); }

  static inline std::atomic<bool> keeps_ = true;
  bool large_pages_;
  std::mutex mutex_;
  std::map<int64_t, std::vector<void*>> bins_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/cpu/impl/block_cache.ipp"
#endif
