// nvcc compiles Hopper's rungs; the suite asks no more of this file. None may spill.
#include "yotta/device/tensor_cores_cluster.hpp"
#include "yotta/device/tensor_cores_persistent.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

#define YOTTA_MAP const __grid_constant__ CUtensorMap
template __global__ void matmul_wgmma<128>(const bfloat16*, const bfloat16*, float*, int, int, int);
template __global__ void matmul_wgmma<256>(const bfloat16*, const bfloat16*, float*, int, int, int);
template __global__ void matmul_tma<256, 4>(YOTTA_MAP, YOTTA_MAP, float*, int, int, int);
template __global__ void matmul_producer<256, 4, 1>(YOTTA_MAP, YOTTA_MAP, float*, int, int, int);
template __global__ void matmul_producer<256, 4, 2>(YOTTA_MAP, YOTTA_MAP, float*, int, int, int);
template __global__ void matmul_multicast<256, 4, 2>(YOTTA_MAP, YOTTA_MAP, float*, int, int, int);
template __global__ void matmul_persistent<256, 4, 2>(YOTTA_MAP, YOTTA_MAP, YOTTA_MAP, int, int,
                                                      int);
#undef YOTTA_MAP

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
