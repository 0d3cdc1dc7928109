// CUDA's header of this name, for programs that run in the emulator.
#pragma once
#include <cuda_runtime.h>

#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_MIN_DENORM_F __int_as_float(0x00000001)
#define CUDART_MAX_NORMAL_F __int_as_float(0x7f7fffff)
#define CUDART_NEG_ZERO_F __int_as_float(0x80000000)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ll)
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.1415926535897931e+0
