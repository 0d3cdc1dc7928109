// The kernel of sass_ours.cu in plain CUDA, without any header of ours.
__global__ void sum_rows(const float* x, float* sums, int* rows, int columns) {
  __shared__ float part[32];
  extern __shared__ float4 row[];
  row[threadIdx.x] = *reinterpret_cast<const float4*>(x + blockIdx.x * columns + 4 * threadIdx.x);
  __syncthreads();
  const float4 v = row[blockDim.x - 1 - threadIdx.x];
  float sum = v.x + v.y + v.z + v.w;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) sum += part[warp];
  sums[blockIdx.x] = sum;
  atomicAdd(rows, 1);
}
