// Softmax of the rows of a matrix: a thread a row, a block a row, and a warp a row that reads the
// row once and keeps the maximum and the sum as it goes.
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <vector>

#include "check.cuh"

template <typename T, int NUM>
__inline__ __device__ T warpReduceMax(T val) {
#pragma unroll
  for (int mask = NUM / 2; mask > 0; mask >>= 1)
    val = max(val, __shfl_xor_sync(0xffffffffu, val, mask, 32));
  return val;
}

template <typename T>
__inline__ __device__ T warpReduceSum(T val) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) val += __shfl_xor_sync(0xffffffffu, val, mask, 32);
  return val;
}

__global__ void softmax_kernel1(float* out, const float* inp, int N, int C) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    const float* inp_row = inp + i * C;
    float maxval = -INFINITY;
    for (int j = 0; j < C; j++)
      if (inp_row[j] > maxval) maxval = inp_row[j];
    double sum = 0.0;
    for (int j = 0; j < C; j++) {
      out[i * C + j] = expf(inp_row[j] - maxval);
      sum += out[i * C + j];
    }
    for (int j = 0; j < C; j++) out[i * C + j] /= (float)sum;
  }
}

__global__ void softmax_kernel2(float* out, const float* inp, int N, int C) {
  extern __shared__ float shared[];
  int idx = blockIdx.x, tid = threadIdx.x, block_size = blockDim.x;
  const float* x = inp + idx * C;
  float maxval = -FLT_MAX;
  for (int i = tid; i < C; i += block_size) maxval = fmaxf(maxval, x[i]);
  shared[tid] = maxval;
  __syncthreads();
  for (int stride = block_size / 2; stride >= 1; stride /= 2) {
    __syncthreads();
    if (tid < stride) shared[tid] = fmaxf(shared[tid], shared[tid + stride]);
  }
  __syncthreads();
  float offset = shared[0];
  float sumval = 0.0f;
  for (int i = tid; i < C; i += block_size) sumval += __expf(x[i] - offset);
  __syncthreads();
  shared[tid] = sumval;
  __syncthreads();
  for (int stride = block_size / 2; stride >= 1; stride /= 2) {
    __syncthreads();
    if (tid < stride) shared[tid] += shared[tid + stride];
  }
  __syncthreads();
  float sum = shared[0];
  for (int i = tid; i < C; i += block_size)
    out[idx * C + i] = __fdividef(__expf(x[i] - offset), sum);
}

struct __align__(8) SumMax {
  float maxval;
  float sum;
};

__device__ __forceinline__ SumMax join(SumMax a, SumMax b) {
  bool a_bigger = (a.maxval > b.maxval);
  SumMax bigger_m = a_bigger ? a : b;
  SumMax smaller_m = a_bigger ? b : a;
  SumMax res;
  res.maxval = bigger_m.maxval;
  res.sum = bigger_m.sum + smaller_m.sum * expf(smaller_m.maxval - bigger_m.maxval);
  return res;
}

__global__ void softmax_online(float* __restrict__ out, const float* __restrict__ inp, int N,
                               int C) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= N) return;
  const float4* x4 = reinterpret_cast<const float4*>(inp + row * C);
  SumMax sm{-FLT_MAX, 0.0f};
  for (int i = lane; i < C / 4; i += 32) {
    const float4 v = x4[i];
    sm = join(sm, SumMax{v.x, 1.0f});
    sm = join(sm, SumMax{v.y, 1.0f});
    sm = join(sm, SumMax{v.z, 1.0f});
    sm = join(sm, SumMax{v.w, 1.0f});
  }
  const float maxval = warpReduceMax<float, 32>(sm.maxval);
  const float sum = warpReduceSum(sm.sum * expf(sm.maxval - maxval));
  for (int i = lane; i < C; i += 32)
    __stcs(out + row * C + i, expf(__ldcs(inp + row * C + i) - maxval) / sum);
}

int main() {
  const int N = 24, C = 260;
  std::vector<float> inp(N * C), expected(N * C), out(N * C);
  for (int i = 0; i < N * C; ++i) inp[i] = 5.0f * sinf(0.37f * i) + i % 7;
  for (int n = 0; n < N; ++n) {
    double sum = 0;
    for (int c = 0; c < C; ++c) sum += exp((double)inp[n * C + c]);
    for (int c = 0; c < C; ++c) expected[n * C + c] = exp((double)inp[n * C + c]) / sum;
  }
  float *d_inp, *d_out;
  CUDA_CHECK(cudaMalloc(&d_inp, N * C * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&d_out, N * C * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(d_inp, inp.data(), N * C * sizeof(float), cudaMemcpyHostToDevice));
  for (int kernel = 1; kernel <= 3; ++kernel) {
    CUDA_CHECK(cudaMemset(d_out, 0, N * C * sizeof(float)));
    if (kernel == 1) {
      softmax_kernel1<<<1, 32>>>(d_out, d_inp, N, C);
    } else if (kernel == 2)
      softmax_kernel2<<<N, 64, 64 * sizeof(float)>>>(d_out, d_inp, N, C);
    else
      softmax_online<<<(N + 3) / 4, 4 * 32>>>(d_out, d_inp, N, C);
    CUDA_CHECK(cudaMemcpy(out.data(), d_out, N * C * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < N * C; ++i)
      if (!close_to(out[i] * C, expected[i] * C)) {
        printf("kernel %d: element %d is %g, expected %g\n", kernel, i, out[i], expected[i]);
        return 1;
      }
  }
  CUDA_CHECK(cudaFree(d_inp));
  CUDA_CHECK(cudaFree(d_out));
  return 0;
}
