// The bodies of device/'s checked build: the emulator with its checks, and the functions that the
// compiler calls in instrumented kernels. Compiled with the flags of cmake/kernels.cmake and
// YOTTA_COMPILED; what both builds share lies in yotta::compiled, with which it is linked.
#define YOTTA_COMPILING_checked 1
#include "yotta/device/atomics.hpp"
#include "yotta/device/counted.hpp"
#include "yotta/device/cp_async.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/kernel.hpp"
#include "yotta/device/ldmatrix.hpp"
#include "yotta/device/mma.hpp"
#include "yotta/device/vector_types.hpp"
