// The bodies of memory.hpp: where the bytes come from, and what is said if there are none.
#pragma once

#include "yotta/core/memory.hpp"

#include <cstring>
#include <new>
#include <string>

#include "yotta/core/cpu/block_cache.hpp"

namespace yotta {

YOTTA_INLINE Buffer::Buffer(int64_t bytes, Device device, Where where)
    : bytes_(bytes),
      device_(device),
      kind_(context().memory_kind),
      count_(context().ledger.memory()),
      data_(take(bytes, device, where)) {
#ifndef NDEBUG
  if (device == Device::cpu) std::memset(data_, 0xff, static_cast<size_t>(bytes));  // NaN: shows up
#endif
  count_->add(kind_, bytes_);
}

YOTTA_INLINE Buffer::~Buffer() {
  count_->remove(kind_, bytes_);
  if (device_ == Device::cuda) accelerator()->release(data_);
  if (device_ == Device::cpu) BlockCache::instance().give(data_, bytes_);
}

YOTTA_INLINE void* Buffer::take(int64_t bytes, Device device, Where where) {
  if (device == Device::meta) return nullptr;
  if (device == Device::cuda) return accelerator_or_fail(where).allocate(bytes, where);
  try {
    return BlockCache::instance().take(bytes);
  } catch (const std::bad_alloc&) {
    fail_out_of_memory(bytes, where);
  }
}

YOTTA_INLINE void Buffer::fail_out_of_memory(int64_t bytes, Where where) {
  const auto gigabytes = [](int64_t n) { return static_cast<double>(n) * 1e-9; };
  const RankContext& self = context();
  const MemoryCount& held = *self.ledger.memory();
  std::string text;
  for (int i = 0; i < memory_kinds; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    if (held.live(kind) > 0)
      text += fmt::format("{} {} {:.3f} GB", text.empty() ? ":" : ",", name(kind),
                          gigabytes(held.live(kind)));
  }
  fail(where,
       "out of memory: rank {} asks for {:.3f} GB ({} bytes) of {}, which this computer does not "
       "give; it holds {:.3f} GB{}\n  try a smaller batch or model, more ranks that share it, or "
       "activation checkpointing",
       self.rank, gigabytes(bytes), bytes, name(self.memory_kind), gigabytes(held.live()), text);
}

}  // namespace yotta
