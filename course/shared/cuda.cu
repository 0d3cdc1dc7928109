// What nvcc compiles, once, for the course's programs: the kernels of Device::cuda, which give them use_cuda()
// (nn/cuda.hpp), and NCCL where it is installed (comm/nccl_support.hpp).
#include "yotta/comm/nccl.hpp"
#include "yotta/parallel/parallel_kernels.hpp"
