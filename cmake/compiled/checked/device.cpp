// The bodies of device/'s checked build: the emulator with its checks, and the functions that the
// compiler calls in instrumented kernels. Compiled with the flags of cmake/kernels.cmake and
// YOTTA_COMPILED; what both builds share lies in yotta::compiled, with which it is linked.
#include "yotta/device/impl/atomics.ipp"
#include "yotta/device/impl/counted.ipp"
#include "yotta/device/impl/cp_async.ipp"
#include "yotta/device/impl/cp_async_bulk.ipp"
#include "yotta/device/impl/cp_async_bulk_tensor.ipp"
#include "yotta/device/emulator/impl/compiler_hooks.ipp"
#include "yotta/device/emulator/impl/cuda_builtins.ipp"
#include "yotta/device/emulator/impl/scheduler.ipp"
#include "yotta/device/impl/ldmatrix.ipp"
#include "yotta/device/impl/mbarrier.ipp"
#include "yotta/device/impl/mma.ipp"
#include "yotta/device/impl/vector_types.ipp"
#include "yotta/device/unchanged/impl/launch_syntax.ipp"
#include "yotta/device/unchanged/impl/warp_words.ipp"
#include "yotta/device/impl/warp_groups.ipp"
#include "yotta/device/impl/wgmma.ipp"
