// CUDA's 16-bit floats, __half and __nv_bfloat16, and their pairs, by the same names in both
// builds.
//
//     y[i] = __float2bfloat16(2.0f * __bfloat162float(x[i]));  storage in 16 bits, arithmetic in 32
//
//     nvcc     cuda_fp16.h, cuda_bf16.h: the vendor's types
//     CPU      the same words on core/dtype.hpp's float16 and bfloat16, which have the same bits
//              and round alike
//
// Pairs move as one 4-byte access. Arithmetic on 16-bit values is best done in f32; tensor cores do
// their own.
// nvcc compiles this file too.
#pragma once

#include "yotta/device/kernel.hpp"

#if defined(__CUDACC__)

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#else

#include "yotta/device/unchanged/half_types.hpp"

#endif
