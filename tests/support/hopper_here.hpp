// For tests of Hopper's instructions that nvcc compiles too: whether kernels can run them here.
#pragma once

#include "yotta/device/kernel.hpp"

// True for the emulator, and for GPUs of compute capability 9.0 (wgmma is theirs alone).
inline bool hopper_is_here() {
#if defined(__CUDACC__)
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return major == 9;
#else
  return true;
#endif
}
