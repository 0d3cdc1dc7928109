// What nvcc compiles, once, for the course's programs: the kernels of Device::cuda, which give them
// use_cuda() (parallel/cuda/use_cuda.hpp), and NCCL where it is installed (comm/nccl/nccl.hpp).
#include "yotta/comm/nccl/nccl.hpp"
#include "yotta/parallel/cuda/parallel_kernels.hpp"
