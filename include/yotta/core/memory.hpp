// Memory of tensors: counted on the ledger of the rank that made them, and reused
// (cpu/block_cache.hpp).
#pragma once

#include <cstdint>
#include <memory>

#include "yotta/core/context.hpp"
#include "yotta/core/system/accelerator.hpp"

#if YOTTA_BODIES_OF(core)
#include <cstring>
#include <new>
#include <string>

#include "yotta/core/cpu/block_cache.hpp"
#endif  // YOTTA_BODIES

namespace yotta {

// The bytes behind one or more tensors, on the ledger of the rank that made them. On meta there is
// no data, but the bytes are counted all the same.
class Buffer {
 public:
  YOTTA_API Buffer(int64_t bytes, Device device, Where where = Where::current());
  YOTTA_API ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  MemoryKind kind() const { return kind_; }

 private:
  YOTTA_API static void* take(int64_t bytes, Device device, Where where);
  [[noreturn]] YOTTA_API static void fail_out_of_memory(int64_t bytes, Where where);

  int64_t bytes_;
  Device device_;
  MemoryKind kind_;
  std::shared_ptr<MemoryCount> count_;
  void* data_;
};

#if YOTTA_BODIES_OF(core)

Buffer::Buffer(int64_t bytes, Device device, Where where)
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

Buffer::~Buffer() {
  count_->remove(kind_, bytes_);
  if (device_ == Device::cuda) accelerator()->release(data_);
  if (device_ == Device::cpu) BlockCache::instance().give(data_, bytes_);
}

void* Buffer::take(int64_t bytes, Device device, Where where) {
  if (device == Device::meta) return nullptr;
  if (device == Device::cuda) return accelerator_or_fail(where).allocate(bytes, where);
  try {
    return BlockCache::instance().take(bytes);
  } catch (const std::bad_alloc&) {
    fail_out_of_memory(bytes, where);
  }
}

void Buffer::fail_out_of_memory(int64_t bytes, Where where) {
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

#endif  // YOTTA_BODIES

}  // namespace yotta
