// CUDA's streams and stream-ordered memory on the CPU: launches and copies have ended when they return, so every
// stream is the same, and always done.
//
//     GPU     cudaMallocAsync ── kernel ── cudaMemcpyAsync ── ...     in order, while the host goes on
//     here    each has ended before the next begins
#pragma once

#include "yotta/device/emulator/simt_launch.hpp"
#include "yotta/device/emulator/simt_memory.hpp"

inline cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) {
  return cudaMalloc(memory, bytes);
}
inline cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return cudaFree(memory); }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(memory, value, bytes);
}
// `rows` rows of `bytes`, that lie to_row and from_row bytes apart.
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_row, const void* from, size_t from_row,
                                     size_t bytes, size_t rows, cudaMemcpyKind kind, cudaStream_t) {
  if (bytes > to_row || bytes > from_row) return cudaErrorInvalidValue;
  for (size_t i = 0; i < rows; ++i) {
    const cudaError_t code =
        cudaMemcpy(static_cast<std::byte*>(to) + i * to_row,
                   static_cast<const std::byte*>(from) + i * from_row, bytes, kind);
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}
inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
