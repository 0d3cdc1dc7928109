// The bodies of nn/ as kernels of the emulator's unchecked build.
#include "yotta/nn/cuda/cuda_kernels.hpp"
