// CUDA's words for work that the host only starts, in the emulator: streams, events, copies, and
// memory that is taken and given back in the order of a stream. They put operations into the
// queues of stream_queue.hpp, which says when these run.
//
// Copies. Between device and pinned memory a copy is an operation of its stream. Pageable memory
// of the host, which is all that does not come from cudaMallocHost, cannot be read by a GPU's copy
// engine at any time: its bytes are put aside (staged) before the call returns, and a copy to it
// has ended when the call returns. So it overlaps with nothing.
//
//                               cudaMemcpyAsync returns
//     pinned   -> device        at once                       do not change it until the copy ended
//     pageable -> device        when its bytes are staged     may be changed
//     device   -> pinned        at once                       do not read it until the copy ended
//     device   -> pageable      when the copy has ended       may be read
//
// Memory of cudaMallocAsync may be used by what comes later in its stream, or after an event that
// was recorded there; memory of cudaFreeAsync by what comes before.
// References: CUDA Runtime API, "API synchronization behavior", "Stream Ordered Memory Allocator".
#pragma once

#include <cstddef>

#include "yotta/device/emulator/cuda_errors.hpp"
#include "yotta/device/emulator/global_memory.hpp"
#include "yotta/device/emulator/task.hpp"
#include "yotta/device/emulator/unset_locals.hpp"

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
inline constexpr unsigned cudaStreamDefault = 0;
inline constexpr unsigned cudaStreamNonBlocking = 1;  // knows nothing of the default stream
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventDisableTiming = 2;
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};

// ---- Streams and events ----
// Streams of any priority run in any order here: on a GPU, too, it only says whose blocks get the
// next room. The numbers are those of GPUs since Volta; one beyond them is the nearest.
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority);
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
// What was issued on it still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();  // launches have thrown
cudaError_t cudaPeekAtLastError();
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event);
// The event happens when all that the stream has been given so far has ended. Recorded again, it
// means the later moment.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
// What the stream is given from now on waits for the event. An event that was never recorded has
// happened already.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);

// Calls function(data) on the host when all that the stream has been given so far has ended. The
// function must not call CUDA.
using cudaHostFn_t = void (*)(void* data);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data,
                               yotta::Where where = yotta::Where::current());

// ---- Capture ----
// What the stream is given from now on is recorded, and does not run; so too on streams that wait
// for its events.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);

// ---- Copies ----
// The side that is the device's must lie in one allocation, and the kind must be the right one.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                       yotta::Where where = yotta::Where::current());
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr,
                            yotta::Where where = yotta::Where::current());
// `rows` rows of `bytes` bytes, which lie to_row and from_row bytes apart.
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_row, const void* from, size_t from_row,
                              size_t bytes, size_t rows, cudaMemcpyKind kind,
                              cudaStream_t stream = nullptr,
                              yotta::Where where = yotta::Where::current());
cudaError_t cudaMemset(void* memory, int value, size_t bytes,
                       yotta::Where where = yotta::Where::current());
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream = nullptr,
                            yotta::Where where = yotta::Where::current());

// ---- Memory ----
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** memory, size_t bytes);
template <class T>
cudaError_t cudaMalloc(T** memory, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}
// What is queued on any stream has ended when it returns.
cudaError_t cudaFree(void* memory, yotta::Where where = yotta::Where::current());
// Pinned memory of the host.
cudaError_t cudaMallocHost(void** memory, size_t bytes);
template <class T>
cudaError_t cudaMallocHost(T** memory, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(memory), bytes);
}
cudaError_t cudaFreeHost(void* memory, yotta::Where where = yotta::Where::current());
// Memory that both sides see, which cudaFree frees.
inline constexpr unsigned cudaMemAttachGlobal = 1, cudaMemAttachHost = 2;
cudaError_t cudaMallocManaged(void** memory, size_t bytes, unsigned flags = cudaMemAttachGlobal);
template <class T>
cudaError_t cudaMallocManaged(T** memory, size_t bytes, unsigned flags = cudaMemAttachGlobal) {
  return cudaMallocManaged(reinterpret_cast<void**>(memory), bytes, flags);
}
// In the order of a stream.
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream,
                            yotta::Where where = yotta::Where::current());
template <class T>
cudaError_t cudaMallocAsync(T** memory, size_t bytes, cudaStream_t stream,
                            yotta::Where where = yotta::Where::current()) {
  return cudaMallocAsync(reinterpret_cast<void**>(memory), bytes, stream, where);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream,
                          yotta::Where where = yotta::Where::current());

#ifndef YOTTA_COMPILED
#include "yotta/device/emulator/impl/stream_words.ipp"
#endif
