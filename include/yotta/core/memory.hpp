// Memory of tensors: counted on the ledger of the rank that made them, and reused
// (cpu/block_cache.hpp).
#pragma once

#include <cstdint>
#include <memory>

#include "yotta/core/context.hpp"
#include "yotta/core/system/accelerator.hpp"

namespace yotta {

// The bytes behind one or more tensors, on the ledger of the rank that made them. On meta there is
// no data, but the bytes are counted all the same.
class Buffer {
 public:
  Buffer(int64_t bytes, Device device, Where where = Where::current());
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  MemoryKind kind() const { return kind_; }

 private:
  static void* take(int64_t bytes, Device device, Where where);
  [[noreturn]] static void fail_out_of_memory(int64_t bytes, Where where);

  int64_t bytes_;
  Device device_;
  MemoryKind kind_;
  std::shared_ptr<MemoryCount> count_;
  void* data_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/impl/memory.ipp"
#endif
