// The bodies of device/emulator/stream_words.hpp.
#pragma once

#include "yotta/device/emulator/stream_words.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "yotta/device/emulator/stream_queue.hpp"

namespace yotta {

// The thread's, and what a query adds to it.
inline cudaError_t& last_error() {
  thread_local cudaError_t last = cudaSuccess;
  return last;
}
inline cudaError_t queried(cudaError_t code) {
  if (code == cudaErrorNotReady && StreamQueue::instance().keeps_not_ready) last_error() = code;
  return code;
}

// Rows of bytes that are moved.
struct RowCopy {
  std::byte* to = nullptr;
  size_t to_row = 0;
  const std::byte* from = nullptr;
  size_t from_row = 0, bytes = 0, rows = 0;
  bool to_device = false, from_device = false;

  bool valid() const {
    auto& memory = DeviceMemory::instance();
    for (size_t i = 0; i < rows; ++i)
      if ((to_device && !memory.holds(to + i * to_row, bytes)) ||
          (from_device && !memory.holds(from + i * from_row, bytes)))
        return false;
    return rows == 1 || (bytes <= to_row && bytes <= from_row);
  }
  void run() const {
    for (size_t i = 0; i < rows; ++i) {
      std::memmove(to + i * to_row, from + i * from_row, bytes);
      if (to_device) DeviceMemory::instance().written(to + i * to_row, bytes);
    }
  }
  // Of memory that others may use at the same time: the device's, and pinned memory.
  Footprint footprint(bool reads, bool writes) const {
    Footprint all;
    for (size_t i = 0; i < rows; ++i) {
      if (reads)
        all.add({reinterpret_cast<uintptr_t>(from + i * from_row), bytes, MemoryUse::read});
      if (writes) all.add({reinterpret_cast<uintptr_t>(to + i * to_row), bytes, MemoryUse::write});
    }
    return all;
  }
  // Reads its bytes now, so that their owner may change them.
  std::shared_ptr<std::vector<std::byte>> stage() {
    auto staged = std::make_shared<std::vector<std::byte>>(rows * bytes);
    for (size_t i = 0; i < rows; ++i)
      std::memcpy(staged->data() + i * bytes, from + i * from_row, bytes);
    from = staged->data();
    from_row = bytes;
    return staged;
  }
};

inline bool on_device(const void* at) {
  auto& memory = DeviceMemory::instance();
  return memory.holds(at, 1) && !memory.is_pinned(at);
}

// Which sides are the device's.
inline void set_sides(RowCopy& copy, cudaMemcpyKind kind) {
  const bool by_address = kind == cudaMemcpyDefault;
  copy.to_device = by_address ? on_device(copy.to)
                              : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  copy.from_device = by_address
                         ? on_device(copy.from)
                         : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
}

// A copy as an operation of a stream.
inline cudaError_t submit_copy(const char* word, RowCopy copy, cudaMemcpyKind kind,
                               cudaStream_t stream, Where where) {
  if (copy.bytes == 0 || copy.rows == 0) return cudaSuccess;
  if (copy.to == nullptr || copy.from == nullptr) return cudaErrorInvalidValue;
  set_sides(copy, kind);
  if (!copy.valid()) return cudaErrorInvalidValue;
  if ((!copy.to_device && on_device(copy.to)) || (!copy.from_device && on_device(copy.from)))
    return cudaErrorInvalidMemcpyDirection;
  auto& streams = StreamQueue::instance();
  if (!streams.in_use()) {
    copy.run();
    return cudaSuccess;
  }
  auto& memory = DeviceMemory::instance();
  const bool from_pageable = !copy.from_device && !memory.is_pinned(copy.from);
  const bool to_pageable = !copy.to_device && !memory.is_pinned(copy.to);
  StreamOperation operation{.word = word, .where = where};
  operation.footprint = copy.footprint(!from_pageable, !to_pageable);
  operation.pointers = {copy.to_device || !to_pageable ? copy.to : nullptr,
                        copy.from_device || !from_pageable ? copy.from : nullptr};
  const bool captured = streams.captures(stream);
  if (from_pageable && !captured && !streams.reads_pageable) {
    operation.run = [staged = copy.stage(), copy](StreamOperation&) { copy.run(); };
  } else {
    operation.run = [copy](StreamOperation&) { copy.run(); };
  }
  const cudaError_t code = streams.submit(stream, std::move(operation));
  return code == cudaSuccess && to_pageable && !captured ? streams.synchronise(stream) : code;
}

inline cudaError_t submit_set(const char* word, void* memory, int value, size_t bytes,
                              cudaStream_t stream, Where where) {
  if (bytes == 0) return cudaSuccess;
  if (!DeviceMemory::instance().holds(memory, bytes)) return cudaErrorInvalidValue;
  const auto set = [=](StreamOperation&) {
    std::memset(memory, value, bytes);
    DeviceMemory::instance().written(memory, bytes);
  };
  StreamOperation operation{.word = word, .where = where, .run = set};
  auto& streams = StreamQueue::instance();
  if (!streams.in_use()) {
    set(operation);
    return cudaSuccess;
  }
  operation.footprint.add({reinterpret_cast<uintptr_t>(memory), bytes, MemoryUse::write});
  operation.pointers = {memory};
  return streams.submit(stream, std::move(operation));
}

}  // namespace yotta

// ---- Streams and events ----
YOTTA_INLINE cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                      int priority) {
  if (stream == nullptr) return cudaErrorInvalidValue;
  int least = 0, greatest = 0;
  cudaDeviceGetStreamPriorityRange(&least, &greatest);
  *stream = yotta::StreamQueue::instance().create((flags & cudaStreamNonBlocking) == 0,
                                                  std::clamp(priority, greatest, least));
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  if (priority == nullptr) return cudaErrorInvalidValue;
  return yotta::StreamQueue::instance().priority(stream, priority);
}

YOTTA_INLINE cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return yotta::StreamQueue::instance().destroy(stream);
}

YOTTA_INLINE cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  auto& streams = yotta::StreamQueue::instance();
  return streams.in_use() ? streams.synchronise(stream) : cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaGetLastError() {
  return std::exchange(yotta::last_error(), cudaSuccess);
}

YOTTA_INLINE cudaError_t cudaPeekAtLastError() { return yotta::last_error(); }

YOTTA_INLINE cudaError_t cudaStreamQuery(cudaStream_t stream) {
  auto& streams = yotta::StreamQueue::instance();
  return streams.in_use() ? yotta::queried(streams.query(stream)) : cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaDeviceSynchronize() {
  return yotta::StreamQueue::instance().synchronise_all();
}

YOTTA_INLINE cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (event == nullptr) return cudaErrorInvalidValue;
  *event = yotta::StreamQueue::instance().create_event();
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return yotta::StreamQueue::instance().destroy(event);
}

YOTTA_INLINE cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return yotta::StreamQueue::instance().record(event, stream);
}

YOTTA_INLINE cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return yotta::StreamQueue::instance().wait(stream, event);
}

YOTTA_INLINE cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return yotta::StreamQueue::instance().synchronise(event);
}

YOTTA_INLINE cudaError_t cudaEventQuery(cudaEvent_t event) {
  return yotta::queried(yotta::StreamQueue::instance().query(event));
}

YOTTA_INLINE cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data,
                                            yotta::Where where) {
  if (function == nullptr) return cudaErrorInvalidValue;
  auto& streams = yotta::StreamQueue::instance();
  yotta::StreamOperation operation{.word = "cudaLaunchHostFunc", .where = where};
  operation.run = [=, &streams](yotta::StreamOperation& self) {
    streams.run_host_function(function, data, self);
  };
  operation.pointers = {data};
  return streams.submit(stream, std::move(operation));
}

// ---- Copies ----
YOTTA_INLINE cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                    yotta::Where where) {
  const cudaError_t code = yotta::submit_copy(
      "cudaMemcpy",
      {static_cast<std::byte*>(to), 0, static_cast<const std::byte*>(from), 0, bytes, 1}, kind,
      nullptr, where);
  if (code != cudaSuccess || kind == cudaMemcpyDeviceToDevice) return code;
  return cudaStreamSynchronize(nullptr);
}

YOTTA_INLINE cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                                         cudaMemcpyKind kind, cudaStream_t stream,
                                         yotta::Where where) {
  return yotta::submit_copy(
      "cudaMemcpyAsync",
      {static_cast<std::byte*>(to), 0, static_cast<const std::byte*>(from), 0, bytes, 1}, kind,
      stream, where);
}

YOTTA_INLINE cudaError_t cudaMemcpy2DAsync(void* to, size_t to_row, const void* from,
                                           size_t from_row, size_t bytes, size_t rows,
                                           cudaMemcpyKind kind, cudaStream_t stream,
                                           yotta::Where where) {
  if (bytes > to_row || bytes > from_row) return cudaErrorInvalidValue;
  return yotta::submit_copy("cudaMemcpy2DAsync",
                            {static_cast<std::byte*>(to), to_row,
                             static_cast<const std::byte*>(from), from_row, bytes, rows},
                            kind, stream, where);
}

YOTTA_INLINE cudaError_t cudaMemset(void* memory, int value, size_t bytes, yotta::Where where) {
  return yotta::submit_set("cudaMemset", memory, value, bytes, nullptr, where);
}

YOTTA_INLINE cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream,
                                         yotta::Where where) {
  return yotta::submit_set("cudaMemsetAsync", memory, value, bytes, stream, where);
}

// ---- Capture ----
YOTTA_INLINE cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return yotta::StreamQueue::instance().begin_capture(stream, mode == cudaStreamCaptureModeRelaxed);
}

YOTTA_INLINE cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (graph == nullptr) return cudaErrorInvalidValue;
  return yotta::StreamQueue::instance().end_capture(stream, graph);
}

// ---- Memory ----
YOTTA_INLINE cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const auto [left, whole] = yotta::DeviceMemory::instance().room();
  *free = left;
  *total = whole;
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  const cudaError_t code = yotta::StreamQueue::instance().host_work();
  if (code != cudaSuccess) return code;
  *memory = yotta::DeviceMemory::instance().allocate(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

namespace yotta {

// What cudaMallocManaged has given: pinned memory that is freed by cudaFree.
class ManagedMemory {
 public:
  static ManagedMemory& instance() {
    static auto* one = new ManagedMemory;  // never destroyed: arrays may outlive main()
    return *one;
  }
  void add(void* memory) {
    const std::lock_guard lock(mutex_);
    all_.insert(memory);
  }
  // False if it is none.
  bool forget(void* memory) {
    const std::lock_guard lock(mutex_);
    return all_.erase(memory) > 0;
  }

 private:
  std::mutex mutex_;
  std::set<void*> all_;
};

// Of device and of pinned memory.
inline cudaError_t free_when_idle(void* memory, Where where) {
  auto& streams = StreamQueue::instance();
  if (const cudaError_t code = streams.host_work(); code != cudaSuccess) return code;
  const bool well = !streams.in_use() || streams.synchronise_quietly();
  if (!DeviceMemory::instance().release(memory, where)) return cudaErrorInvalidValue;
  return well ? cudaSuccess : cudaErrorLaunchFailure;
}

}  // namespace yotta

YOTTA_INLINE cudaError_t cudaFree(void* memory, yotta::Where where) {
  if (memory == nullptr) return cudaSuccess;
  if (yotta::ManagedMemory::instance().forget(memory)) return cudaFreeHost(memory, where);
  if (yotta::DeviceMemory::instance().is_pinned(memory)) return cudaErrorInvalidValue;
  return yotta::free_when_idle(memory, where);
}

YOTTA_INLINE cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  const cudaError_t code = yotta::StreamQueue::instance().host_work();
  if (code != cudaSuccess) return code;
  *memory = yotta::DeviceMemory::instance().allocate(bytes, /*pinned=*/true);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  yotta::StreamQueue::instance().pinned_changes(1);
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaFreeHost(void* memory, yotta::Where where) {
  if (memory == nullptr) return cudaSuccess;
  if (!yotta::DeviceMemory::instance().is_pinned(memory)) return cudaErrorInvalidValue;
  const cudaError_t code = yotta::free_when_idle(memory, where);
  if (code != cudaErrorInvalidValue && code != cudaErrorNotPermitted)
    yotta::StreamQueue::instance().pinned_changes(-1);
  return code;
}

YOTTA_INLINE cudaError_t cudaMallocManaged(void** memory, size_t bytes, unsigned) {
  const cudaError_t code = cudaMallocHost(memory, bytes);
  if (code == cudaSuccess) yotta::ManagedMemory::instance().add(*memory);
  return code;
}

YOTTA_INLINE cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream,
                                         yotta::Where where) {
  auto& streams = yotta::StreamQueue::instance();
  if (streams.captures(stream)) return cudaErrorNotSupported;
  const cudaError_t code = cudaMalloc(memory, bytes);
  if (code != cudaSuccess || !streams.in_use()) return code;
  yotta::StreamOperation operation{
      .word = "cudaMallocAsync", .where = where, .run = [](yotta::StreamOperation&) {}};
  operation.footprint.add(
      {reinterpret_cast<uintptr_t>(*memory), bytes, yotta::MemoryUse::allocate});
  return streams.submit(stream, std::move(operation));
}

YOTTA_INLINE cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream, yotta::Where where) {
  auto& streams = yotta::StreamQueue::instance();
  auto& all = yotta::DeviceMemory::instance();
  if (memory == nullptr || !streams.in_use()) return cudaFree(memory, where);
  if (streams.captures(stream)) return cudaErrorNotSupported;
  const size_t bytes = all.bytes_of(memory);
  if (!all.mark_freed(memory)) return cudaErrorInvalidValue;
  yotta::StreamOperation operation{.word = "cudaFreeAsync", .where = where};
  operation.run = [=](yotta::StreamOperation&) { std::memset(memory, 0xff, bytes); };
  operation.forgotten = [=] { yotta::DeviceMemory::instance().release(memory, where); };
  operation.footprint.add({reinterpret_cast<uintptr_t>(memory), bytes, yotta::MemoryUse::free});
  return streams.submit(stream, std::move(operation));
}
