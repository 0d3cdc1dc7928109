// Of CUDA's driver API what kernels with tensor maps need: cuTensorMapEncodeTiled (tensor_map.hpp),
// by its name or as the entry point that the runtime hands out. The rest says what to use instead.
//
//     void* function = nullptr;
//     cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
//
// Reference: CUDA Driver API, "Tensor Map Object Management"; CUDA Runtime API, "Driver Entry Point
// Access".
#pragma once

#if !defined(__CUDACC__)

#include <cstdint>
#include <string_view>

#include "yotta/device/tensor_map.hpp"
#include "yotta/device/unchanged/cuda_words.hpp"

using cuuint32_t = uint32_t;
using cuuint64_t = uint64_t;

enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess,
  cudaDriverEntryPointSymbolNotFound
};
inline constexpr unsigned long long cudaEnableDefault = 0;

inline namespace YOTTA_DEVICE_BUILD {

using PFN_cuTensorMapEncodeTiled = decltype(&cuTensorMapEncodeTiled);
using PFN_cuTensorMapEncodeTiled_v12000 = PFN_cuTensorMapEncodeTiled;

// Of any other function *entry is null.
inline cudaError_t cudaGetDriverEntryPoint(const char* name, void** entry, unsigned long long,
                                           cudaDriverEntryPointQueryResult* result = nullptr) {
  const bool found = std::string_view(name) == "cuTensorMapEncodeTiled";
  *entry = found ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled) : nullptr;
  if (result != nullptr)
    *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
inline cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** entry, unsigned /*version*/, unsigned long long flags,
    cudaDriverEntryPointQueryResult* result = nullptr) {
  return cudaGetDriverEntryPoint(name, entry, flags, result);
}

}  // namespace YOTTA_DEVICE_BUILD

// ---- What is left out ----
#define YOTTA_DRIVER_LEFT_OUT(word, hint)                     \
  template <class... Arguments>                               \
  YOTTA_LEFT_OUT("the driver API, here " #word ": use " hint) \
  CUresult word(Arguments&&...);
YOTTA_DRIVER_LEFT_OUT(cuInit, "the runtime API, which needs no beginning")
YOTTA_DRIVER_LEFT_OUT(cuDeviceGet, "cudaGetDevice()")
YOTTA_DRIVER_LEFT_OUT(cuCtxCreate, "the runtime API, which has one context")
YOTTA_DRIVER_LEFT_OUT(cuMemAlloc, "cudaMalloc()")
YOTTA_DRIVER_LEFT_OUT(cuModuleLoad, "kernels of the program itself")
YOTTA_DRIVER_LEFT_OUT(cuModuleGetFunction, "kernels of the program itself")
YOTTA_DRIVER_LEFT_OUT(cuLaunchKernel, "<<<>>> or cudaLaunchKernel()")
YOTTA_DRIVER_LEFT_OUT(cuTensorMapEncodeIm2col, "cuTensorMapEncodeTiled()")
#undef YOTTA_DRIVER_LEFT_OUT

#endif
