// Every body of nn/ as a kernel, in the slots where its op looks for it.
//
//     install_accelerator();  install_kernels();      from here on the ops run on Device::cuda
//
// nvcc compiles this file too: once per program, in one .cu file, together with the kernels of
// parallel/ (parallel/cuda/parallel_kernels.hpp). g++ compiles it for the emulator.
#pragma once

#include "yotta/device/cuda/cuda_accelerator.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Kernels for all ops of nn/, and for what collectives compute. Call it once, after
// install_accelerator().
void install_kernels();

}  // namespace YOTTA_DEVICE_BUILD

}  // namespace yotta

#if !defined(YOTTA_COMPILED) || defined(__CUDACC__)
#include "yotta/nn/cuda/impl/cuda_kernels.ipp"
#endif
