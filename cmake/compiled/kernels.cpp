// The bodies of nn/ as kernels of the emulator's unchecked build.
#include "yotta/nn/cuda/impl/cuda_kernels.ipp"
