// The bodies of core/cpu/block_cache.hpp.
#pragma once

#include "yotta/core/cpu/block_cache.hpp"

namespace yotta {

YOTTA_INLINE BlockCache::BlockCache(bool large_pages) : large_pages_(large_pages) {}
YOTTA_INLINE BlockCache::~BlockCache() { release(); }

YOTTA_INLINE void* BlockCache::take(int64_t bytes) {
  const int64_t size = rounded(bytes);
  {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& bin = bins_[size];
    if (!bin.empty()) {
      void* block = bin.back();
      bin.pop_back();
      return block;
    }
  }
  try {
    return allocate(size);
  } catch (const std::bad_alloc&) {  // without what lies here unused there may be enough
    release();
    return allocate(size);
  }
}

YOTTA_INLINE void BlockCache::give(void* block, int64_t bytes) {
  if (YOTTA_ASAN || !keeps_) return free_block(block, rounded(bytes));
  const std::lock_guard lock(mutex_);
  bins_[rounded(bytes)].push_back(block);
}

YOTTA_INLINE void BlockCache::release() {
  const std::lock_guard lock(mutex_);
  for (auto& [size, bin] : bins_)
    for (void* block : bin) free_block(block, size);
  bins_.clear();
}

}  // namespace yotta
