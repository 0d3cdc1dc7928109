// nvcc compiles every tensor-core kernel and every wrapped instruction; the suite asks for the
// kernels' registers (registers.tsv).
#include "yotta/device/tensor_cores_cuda_pipeline.hpp"
#include "yotta/device/tensor_cores_rungs.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

using Large = Tiles<128, 128, 32, 64, 32>;

#define YOTTA_COMPILE(...) \
  template __global__ void __VA_ARGS__(const bfloat16*, const bfloat16*, float*, int, int, int)
YOTTA_COMPILE(matmul_mma<4>);
YOTTA_COMPILE(matmul_warp_mma<4, 2, 4>);
YOTTA_COMPILE(matmul_tile<Large, Loads::words, Rows::plain>);
YOTTA_COMPILE(matmul_tile<Large, Loads::ldmatrix, Rows::plain>);
YOTTA_COMPILE(matmul_tile<Large, Loads::ldmatrix, Rows::swizzled>);
YOTTA_COMPILE(matmul_pipeline<Large, 3>);
YOTTA_COMPILE(matmul_cuda_pipeline<Large, 3>);

// The table takes the kernels' addresses.
inline int count_rungs() {
  return static_cast<int>(tensor_core_rungs<Large>.size() +
                          tensor_core_rungs<Tiles<128, 256, 32, 64, 64>, 4>.size());
}

__global__ void every_mma(float* f, int32_t* s, double* d) {
  const uint32_t a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {threadIdx.x, 5};
  const uint32_t half_a[2] = {threadIdx.x, 1}, half_b[1] = {threadIdx.x};
  float sum[4] = {}, volta[8] = {};
  int32_t whole[4] = {};
  double wide[2] = {};
  const double x[1] = {1};
  mma_m16n8k16_f16(sum, a, b, sum);
  mma_m16n8k16_bf16(sum, a, b, sum);
  mma_m16n8k8_f16(sum, half_a, half_b, sum);
  mma_m16n8k8_bf16(sum, half_a, half_b, sum);
  mma_m16n8k8_tf32(sum, a, b, sum);
  mma_m16n8k4_tf32(sum, half_a, half_b, sum);
#if __CUDA_ARCH__ >= 890
  mma_m16n8k32_e4m3(sum, a, b, sum);
  mma_m16n8k32_e5m2(sum, a, b, sum);
#endif
  mma_m16n8k32_s8(whole, a, b, whole);
  mma_m8n8k4_f64(wide, x, x, wide);
  mma_m8n8k4_f16(volta, half_a, b, volta);
  *f = sum[0] + volta[0];
  *s = whole[0];
  *d = wide[0];
}

__global__ void every_load(uint32_t* out, const uint32_t* in) {
  __shared__ __align__(16) uint32_t tile[128];
  cp_async<16>(tile, in);
  cp_async<8>(tile + 4, in + 4, 6);
  cp_async<4>(tile + 6, in + 6);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  uint32_t one[1], two[2], four[4];
  ldmatrix_x1(one, tile);
  ldmatrix_x2(two, tile);
  ldmatrix_x4(four, tile);
  out[0] = one[0] + two[1] + four[3];
  ldmatrix_x1_trans(one, tile);
  ldmatrix_x2_trans(two, tile);
  ldmatrix_x4_trans(four, tile);
  out[1] = one[0] + two[1] + four[3];
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
