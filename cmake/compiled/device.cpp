// The bodies of device/: of its unchecked build, and of what both builds share.
#include "yotta/device/impl/atomics.ipp"
#include "yotta/device/impl/cp_async.ipp"
#include "yotta/device/emulator/impl/cuda_builtins.ipp"
#include "yotta/device/emulator/impl/global_memory.ipp"
#include "yotta/device/emulator/impl/scheduler.ipp"
#include "yotta/device/impl/ldmatrix.ipp"
#include "yotta/device/impl/mma.ipp"
#include "yotta/device/impl/profile.ipp"
