// The bodies of device/unchanged/runtime_words.hpp. They are compiled once for both builds.
#pragma once

#include "yotta/device/unchanged/runtime_words.hpp"

#include <algorithm>
#include <cstdio>

#include "yotta/device/emulator/stream_queue.hpp"

YOTTA_INLINE cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) return cudaErrorInvalidValue;
  if (device != 0) return cudaErrorInvalidDevice;
  const yotta::Multiprocessors& chip = yotta::emulator_options().chip;
  cudaDeviceProp& its = *properties;
  its = {};
  std::snprintf(its.name, sizeof its.name, "Yotta's emulator of %s", chip.chip);
  size_t free = 0;
  static_cast<void>(cudaMemGetInfo(&free, &its.totalGlobalMem));
  its.totalGlobalMem = std::min(its.totalGlobalMem, size_t{80} << 30);
  its.sharedMemPerBlock = 48 * 1024;
  its.sharedMemPerBlockOptin = chip.shared_of_block;
  its.sharedMemPerMultiprocessor = chip.shared;
  its.reservedSharedMemPerBlock = 1024;
  its.totalConstMem = 64 * 1024;
  its.memPitch = 0x7fffffff;
  its.textureAlignment = 512;
  its.regsPerBlock = its.regsPerMultiprocessor = chip.registers;
  its.warpSize = 32;
  its.maxThreadsPerBlock = its.maxThreadsDim[0] = its.maxThreadsDim[1] = 1024;
  its.maxThreadsDim[2] = 64;
  its.maxGridSize[0] = 0x7fffffff;
  its.maxGridSize[1] = its.maxGridSize[2] = 65535;
  its.major = 9;
  its.multiProcessorCount = chip.count;
  its.maxThreadsPerMultiProcessor = 32 * chip.warps;
  its.maxBlocksPerMultiProcessor = chip.blocks;
  its.clockRate = 1830000;  // an H100's
  its.memoryClockRate = 2619000;
  its.memoryBusWidth = 5120;
  its.l2CacheSize = 50 << 20;
  its.asyncEngineCount = 3;
  its.concurrentKernels = its.cooperativeLaunch = its.unifiedAddressing = its.managedMemory = 1;
  its.canMapHostMemory = its.deviceOverlap = its.concurrentManagedAccess = 1;
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp its;
  if (const cudaError_t code = cudaGetDeviceProperties(&its, device); code != cudaSuccess)
    return code;
  const std::pair<cudaDeviceAttr, size_t> known[] = {
      {cudaDevAttrMaxThreadsPerBlock, 1024},
      {cudaDevAttrMaxBlockDimX, 1024},
      {cudaDevAttrMaxGridDimX, 0x7fffffff},
      {cudaDevAttrMaxSharedMemoryPerBlock, its.sharedMemPerBlock},
      {cudaDevAttrWarpSize, 32},
      {cudaDevAttrMultiProcessorCount, static_cast<size_t>(its.multiProcessorCount)},
      {cudaDevAttrMaxThreadsPerMultiProcessor,
       static_cast<size_t>(its.maxThreadsPerMultiProcessor)},
      {cudaDevAttrComputeCapabilityMajor, 9},
      {cudaDevAttrComputeCapabilityMinor, 0},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, its.sharedMemPerMultiprocessor},
      {cudaDevAttrManagedMemory, 1},
      {cudaDevAttrConcurrentManagedAccess, 1},
      {cudaDevAttrCooperativeLaunch, 1},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, its.sharedMemPerBlockOptin}};
  for (const auto& [each, number] : known)
    if (each == attribute) return *value = static_cast<int>(number), cudaSuccess;
  return cudaErrorInvalidValue;
}

YOTTA_INLINE cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin,
                                              cudaEvent_t end) {
  return yotta::StreamQueue::instance().elapsed(milliseconds, begin, end);
}

YOTTA_INLINE cudaError_t cudaMemcpy2D(void* to, size_t to_row, const void* from, size_t from_row,
                                      size_t bytes, size_t rows, cudaMemcpyKind kind,
                                      yotta::Where where) {
  const cudaError_t code =
      cudaMemcpy2DAsync(to, to_row, from, from_row, bytes, rows, kind, nullptr, where);
  return code == cudaSuccess ? cudaStreamSynchronize(nullptr) : code;
}

YOTTA_INLINE cudaError_t cudaMemset2D(void* memory, size_t pitch, int value, size_t bytes,
                                      size_t rows, yotta::Where where) {
  if (bytes > pitch) return cudaErrorInvalidValue;
  for (size_t i = 0; i < rows; ++i) {
    const cudaError_t code =
        cudaMemset(static_cast<std::byte*>(memory) + i * pitch, value, bytes, where);
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t yotta_copy_symbol(void* to, const void* from, size_t bytes,
                                           cudaStream_t stream) {
  const cudaError_t code = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
  return code == cudaSuccess ? cudaStreamSynchronize(stream) : code;
}
