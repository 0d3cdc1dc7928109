// Cooperative groups: barriers of more than a block. NVIDIA's names; with nvcc they are NVIDIA's.
//
//     namespace cg = cooperative_groups;
//     __global__ void two_steps(float* x) {
//       ...                          all blocks write
//       cg::this_grid().sync();      all blocks wait for all
//       ...                          all blocks read
//     }
//     launch_cooperative(two_steps, blocks, 256, 0, nullptr, x.data());
//
// Contract: the grid can meet only if all of its blocks are on the chip at once, so a cooperative
// launch of more than fit is refused (occupancy.hpp). All threads of the grid call sync().
// Reference: CUDA C++ Programming Guide, "Cooperative Groups".
#pragma once

#include "yotta/device/kernel.hpp"
#if defined(__CUDACC__)
#include <cooperative_groups.h>
#else

namespace cooperative_groups {
inline namespace YOTTA_DEVICE_BUILD {

class grid_group {
 public:
  void sync(yotta::Where where = yotta::Where::current()) const {
    yotta::emulator::grid_sync(where);
  }
  unsigned long long num_blocks() const {
    return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
  }
  unsigned long long num_threads() const {
    return num_blocks() * blockDim.x * blockDim.y * blockDim.z;
  }
  unsigned long long size() const { return num_threads(); }
  bool is_valid() const { return true; }
  dim3 group_dim() const { return gridDim; }
  dim3 dim_blocks() const { return gridDim; }
  unsigned long long block_rank() const {
    return blockIdx.x +
           gridDim.x * (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z);
  }
  unsigned long long thread_rank() const {
    return block_rank() * blockDim.x * blockDim.y * blockDim.z + threadIdx.x +
           blockDim.x * (threadIdx.y + static_cast<unsigned long long>(blockDim.y) * threadIdx.z);
  }
};
inline grid_group this_grid() { return {}; }

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace cooperative_groups
#endif
