// The kernels of Device::cuda, compiled once for the course's programs: gives them use_cuda() (nn/cuda.hpp).
#include "yotta/nn/cuda_kernels.hpp"
