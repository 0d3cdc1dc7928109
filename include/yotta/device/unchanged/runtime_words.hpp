// CUDA's runtime functions that a program asks for beside those of stream_words.hpp: the device and
// its properties, variables of the program (cudaMemcpyToSymbol), rows of bytes, managed memory,
// attributes of kernels, occupancy, launches by pointers to arguments and by configurations.
//
//     cudaGetDeviceProperties      one device: emulator_options().chip, with the limits of compute
//                                  capability 9.0
//     cudaEventElapsedTime         time of the host between two records: no time of a GPU
//     cudaGetLastError             knows of no launch: what fails there has thrown
//
// Reference: CUDA Runtime API.
#pragma once

#if !defined(__CUDACC__)

#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "yotta/device/emulator/cuda_errors.hpp"
#include "yotta/device/emulator/stream_words.hpp"
#include "yotta/device/unchanged/launch_syntax.hpp"

// ---- The device ----
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
  size_t reservedSharedMemPerBlock, totalConstMem, memPitch, textureAlignment;
  int regsPerBlock, regsPerMultiprocessor, warpSize, maxThreadsPerBlock;
  int maxThreadsDim[3], maxGridSize[3];
  int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor;
  int clockRate, memoryClockRate, memoryBusWidth, l2CacheSize;  // the clocks in kHz
  int asyncEngineCount, concurrentKernels, cooperativeLaunch, unifiedAddressing, managedMemory;
  int canMapHostMemory, integrated, computeMode, ECCEnabled, deviceOverlap;
  int concurrentManagedAccess, pageableMemoryAccess, kernelExecTimeoutEnabled, isMultiGpuBoard;
  int pciBusID, pciDeviceID, pciDomainID, persistingL2CacheMaxSize;
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxBlockDimX = 2,
  cudaDevAttrMaxGridDimX = 5,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrManagedMemory = 83,
  cudaDevAttrConcurrentManagedAccess = 89,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
inline cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }
inline cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 12000, cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int* version) { return *version = 12000, cudaSuccess; }
// What a GPU is set to and the emulator has not.
enum cudaFuncCache {
  cudaFuncCachePreferNone,
  cudaFuncCachePreferShared,
  cudaFuncCachePreferL1,
  cudaFuncCachePreferEqual
};
enum cudaSharedMemConfig {
  cudaSharedMemBankSizeDefault,
  cudaSharedMemBankSizeFourByte,
  cudaSharedMemBankSizeEightByte
};
enum cudaLimit { cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize };
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
inline constexpr unsigned cudaDeviceScheduleAuto = 0, cudaDeviceScheduleBlockingSync = 4;
inline cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

// ---- Streams and events ----
inline constexpr unsigned cudaEventBlockingSync = 1;
// cudaErrorInvalidResourceHandle: one of them was never recorded.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

// ---- Memory ----
inline constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1,
                          cudaHostAllocMapped = 2, cudaHostAllocWriteCombined = 4;
inline constexpr int cudaCpuDeviceId = -1;
template <class T>
cudaError_t cudaHostAlloc(T** memory, size_t bytes, unsigned) {
  return cudaMallocHost(memory, bytes);
}
template <class T>
cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned) {
  return *device = static_cast<T*>(host), cudaSuccess;
}
inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t = nullptr) {
  return cudaSuccess;
}
enum cudaMemoryAdvise {
  cudaMemAdviseSetReadMostly = 1,
  cudaMemAdviseUnsetReadMostly,
  cudaMemAdviseSetPreferredLocation,
  cudaMemAdviseUnsetPreferredLocation,
  cudaMemAdviseSetAccessedBy,
  cudaMemAdviseUnsetAccessedBy
};
inline cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, int) { return cudaSuccess; }

// Rows that lie *pitch bytes apart, a multiple of 512.
template <class T>
cudaError_t cudaMallocPitch(T** memory, size_t* pitch, size_t bytes, size_t rows) {
  *pitch = (bytes + 511) / 512 * 512;
  return cudaMalloc(memory, *pitch * rows);
}
cudaError_t cudaMemcpy2D(void* to, size_t to_row, const void* from, size_t from_row, size_t bytes,
                         size_t rows, cudaMemcpyKind kind,
                         yotta::Where where = yotta::Where::current());
cudaError_t cudaMemset2D(void* memory, size_t pitch, int value, size_t bytes, size_t rows,
                         yotta::Where where = yotta::Where::current());

// ---- Variables of the program ----
cudaError_t yotta_copy_symbol(void* to, const void* from, size_t bytes, cudaStream_t stream);
template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind = cudaMemcpyHostToDevice,
                               cudaStream_t stream = nullptr) {
  if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cudaErrorInvalidValue;
  auto* const begin = reinterpret_cast<char*>(const_cast<std::remove_const_t<T>*>(&symbol));
  return yotta_copy_symbol(begin + offset, from, bytes, stream);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind = cudaMemcpyDeviceToHost,
                                 cudaStream_t stream = nullptr) {
  if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cudaErrorInvalidValue;
  return yotta_copy_symbol(to, reinterpret_cast<const char*>(&symbol) + offset, bytes, stream);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind, stream);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind, stream);
}
template <class T>
cudaError_t cudaGetSymbolAddress(void** address, const T& symbol) {
  return *address = const_cast<std::remove_const_t<T>*>(&symbol), cudaSuccess;
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) {
  return *bytes = sizeof(T), cudaSuccess;
}

#define YOTTA_ATTRIBUTE_LEFT_OUT(hint) \
  __attribute__((unavailable("not in Yotta's emulator: " hint)))

inline namespace YOTTA_DEVICE_BUILD {

// ---- Kernels ----
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeNonPortableClusterSizeAllowed YOTTA_ATTRIBUTE_LEFT_OUT(
      "clusters of more than 8 blocks") = 14
};
inline constexpr int cudaSharedmemCarveoutMaxShared = 100;
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute,
                                 int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  const size_t most = yotta::emulator_options().chip.shared_of_block;
  if (value < 0 || static_cast<size_t>(value) > most) return cudaErrorInvalidValue;
  yotta::emulator::allow_dynamic_shared(reinterpret_cast<const void*>(kernel),
                                        static_cast<size_t>(value));
  return cudaSuccess;
}
template <class... Parameters>
cudaError_t cudaFuncSetCacheConfig(void (*)(Parameters...), cudaFuncCache) {
  return cudaSuccess;
}
// Registers are the decision of the compiler for the GPU: 0, not known.
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes;
};
template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Parameters...)) {
  *attributes = {.sharedSizeBytes = yotta::emulator::needs_of(kernel, dim3(1), 0).shared,
                 .constSizeBytes = 0,
                 .localSizeBytes = 0,
                 .maxThreadsPerBlock = 1024,
                 .numRegs = 0,
                 .ptxVersion = 90,
                 .binaryVersion = 90,
                 .maxDynamicSharedSizeBytes = 48 * 1024};
  return cudaSuccess;
}

// The block size with which most warps are on a multiprocessor, and the blocks that fill the chip.
template <class... Parameters, class Shared>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* blocks, int* threads,
                                                           void (*kernel)(Parameters...),
                                                           Shared shared_bytes, int limit = 0) {
  int most_warps = 0, each = 0;
  *blocks = *threads = 0;
  for (int size = limit > 0 ? limit : 1024; size >= 32; size -= 32) {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, size, shared_bytes(size));
    if (each * size <= most_warps) continue;
    most_warps = each * size;
    *threads = size;
    *blocks = each * yotta::emulator_options().chip.count;
  }
  return *threads > 0 ? cudaSuccess : cudaErrorInvalidValue;
}
template <class... Parameters>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* blocks, int* threads,
                                               void (*kernel)(Parameters...),
                                               size_t shared_bytes = 0, int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMem(
      blocks, threads, kernel, [=](int) { return shared_bytes; }, limit);
}

}  // namespace YOTTA_DEVICE_BUILD

// ---- Launches by functions ----
enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeSynchronizationPolicy = 3,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeClusterSchedulingPolicyPreference = 5,
  cudaLaunchAttributeProgrammaticStreamSerialization YOTTA_ATTRIBUTE_LEFT_OUT(
      "kernels that begin before the one before them has ended: leave the attribute away") = 6,
  cudaLaunchAttributeProgrammaticEvent YOTTA_ATTRIBUTE_LEFT_OUT(
      "events within kernels: record one behind the launch") = 7,
  cudaLaunchAttributePriority = 8
};
#undef YOTTA_ATTRIBUTE_LEFT_OUT
union cudaLaunchAttributeValue {
  struct {
    unsigned x, y, z;
  } clusterDim;
  int cooperative, priority, syncPolicy, clusterSchedulingPolicyPreference;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 yotta_gridDim, yotta_blockDim;  // so the source step calls members gridDim, blockDim
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// What a launch by a function is told beside its arguments.
struct LaunchConfiguration {
  LaunchShape shape;
  std::optional<dim3> cluster = {};  // otherwise the kernel's own
  bool cooperative = false;
  LaunchConfiguration(const LaunchShape& shape_, bool cooperative_)
      : shape(shape_), cooperative(cooperative_) {}
  LaunchConfiguration(const cudaLaunchConfig_t* its, Where where = Where::current())
      : shape(its->yotta_gridDim, its->yotta_blockDim, its->dynamicSmemBytes, its->stream, where) {
    for (unsigned i = 0; i < its->numAttrs; ++i) {
      const auto& [id, value] = its->attrs[i];
      if (id == cudaLaunchAttributeCooperative) cooperative = value.cooperative != 0;
      if (id == cudaLaunchAttributeClusterDimension)
        cluster = dim3(value.clusterDim.x, value.clusterDim.y, value.clusterDim.z);
    }
  }
};
template <class... Parameters, class... Arguments>
void launch_by_configuration(void (*kernel)(Parameters...), const LaunchConfiguration& its,
                             Arguments&&... arguments) {
  check_dynamic_shared(reinterpret_cast<const void*>(kernel), its.shape);
  launch_task(kernel, Grid(its.shape.grid, its.shape.where), its.shape.block,
              its.shape.shared_bytes, its.shape.stream, its.cooperative, its.cluster,
              std::forward<Arguments>(arguments)...);
}
template <class... Parameters, size_t... I>
void launch_by_pointers(void (*kernel)(Parameters...), const LaunchConfiguration& its,
                        void** arguments, std::index_sequence<I...>) {
  launch_by_configuration(kernel, its,
                          *static_cast<std::remove_const_t<Parameters>*>(arguments[I])...);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

// arguments: pointers to one value for each parameter.
template <class... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes = 0, cudaStream_t stream = nullptr,
                             yotta::Where where = yotta::Where::current()) {
  yotta::emulator::launch_by_pointers(kernel, {{grid, block, shared_bytes, stream, where}, false},
                                      arguments, std::index_sequence_for<Parameters...>{});
  return cudaSuccess;
}
template <class... Parameters>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                        void** arguments, size_t shared_bytes = 0,
                                        cudaStream_t stream = nullptr,
                                        yotta::Where where = yotta::Where::current()) {
  yotta::emulator::launch_by_pointers(kernel, {{grid, block, shared_bytes, stream, where}, true},
                                      arguments, std::index_sequence_for<Parameters...>{});
  return cudaSuccess;
}
template <class... Parameters>
cudaError_t cudaLaunchKernelExC(yotta::emulator::LaunchConfiguration configuration,
                                void (*kernel)(Parameters...), void** arguments) {
  yotta::emulator::launch_by_pointers(kernel, configuration, arguments,
                                      std::index_sequence_for<Parameters...>{});
  return cudaSuccess;
}
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(yotta::emulator::LaunchConfiguration configuration,
                               void (*kernel)(Parameters...), Arguments&&... arguments) {
  yotta::emulator::launch_by_configuration(kernel, configuration,
                                           std::forward<Arguments>(arguments)...);
  return cudaSuccess;
}

}  // namespace YOTTA_DEVICE_BUILD

#ifndef YOTTA_COMPILED
#include "yotta/device/unchanged/impl/runtime_words.ipp"
#endif
#endif
