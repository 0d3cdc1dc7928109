// All words of CUDA that a program may use after #include <cuda_runtime.h>, and those that it may
// not: they say why, where they are used.
//
// The folder headers/ has files by CUDA's names, cuda_runtime.h and others, which include this one
// and its neighbours. A program that is compiled for the emulator looks there first.
#pragma once

#if !defined(__CUDACC__)

#include "yotta/device/atomics.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/unchanged/device_math.hpp"
#include "yotta/device/unchanged/integer_intrinsics.hpp"
#include "yotta/device/unchanged/launch_syntax.hpp"
#include "yotta/device/unchanged/runtime_words.hpp"
#include "yotta/device/unchanged/warp_words.hpp"
#include "yotta/device/vector_types.hpp"

// A parameter that is not copied, and a variable that both sides see: as all are here.
#define __grid_constant__
#define __managed__

// ---- What is left out ----
#define YOTTA_LEFT_OUT(hint) __attribute__((unavailable("not in Yotta's emulator: " hint)))
#define __cluster_dims__(...)                                                                     \
  YOTTA_LEFT_OUT(                                                                                 \
      "clusters as an attribute of a declaration, of a macro, or in a C++ file: write it behind " \
      "__global__ of the kernel itself, or use launch_cluster() of kernel.hpp")
struct YOTTA_LEFT_OUT("textures: read the array itself, or by __ldg()") cudaTextureDesc;
using cudaTextureObject_t YOTTA_LEFT_OUT("textures: read the array itself, or by __ldg()") =
    unsigned long long;
using cudaSurfaceObject_t YOTTA_LEFT_OUT("surfaces: write the array itself") = unsigned long long;
struct YOTTA_LEFT_OUT("arrays for textures: use cudaMalloc or cudaMallocPitch") cudaArray;
using cudaArray_t YOTTA_LEFT_OUT("arrays for textures: use cudaMalloc or cudaMallocPitch") = void*;
template <class... Arguments>
YOTTA_LEFT_OUT("clusters that fit at once: here any number of them does")
cudaError_t cudaOccupancyMaxActiveClusters(Arguments...);
template <class... Arguments>
YOTTA_LEFT_OUT("the largest cluster: it has 8 blocks")
cudaError_t cudaOccupancyMaxPotentialClusterSize(Arguments...);
YOTTA_LEFT_OUT("more than one device") cudaError_t cudaDeviceEnablePeerAccess(int, unsigned);
YOTTA_LEFT_OUT("more than one device")
cudaError_t cudaMemcpyPeer(void*, int, const void*, int, size_t);
YOTTA_LEFT_OUT("pinning memory that exists: allocate it with cudaMallocHost")
cudaError_t cudaHostRegister(void*, size_t, unsigned);

#endif
