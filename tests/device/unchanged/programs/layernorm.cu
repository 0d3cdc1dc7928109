// Layer normalisation: a warp a row with cooperative groups, and a block a row in half precision.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "check.cuh"

namespace cg = cooperative_groups;

__global__ void layernorm_forward_kernel3(float* __restrict__ out, float* __restrict__ mean,
                                          float* __restrict__ rstd, const float* __restrict__ inp,
                                          const float* __restrict__ weight,
                                          const float* __restrict__ bias, int N, int C) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  int idx = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
  if (idx >= N) return;
  const float* x = inp + idx * C;
  float sum = 0.0f;
  for (int i = warp.thread_rank(); i < C; i += warp.size()) sum += x[i];
  sum = cg::reduce(warp, sum, cg::plus<float>{});
  float m = sum / C;
  if (warp.thread_rank() == 0 && mean != nullptr) __stcs(mean + idx, m);
  sum = 0.0f;
  for (int i = warp.thread_rank(); i < C; i += warp.size()) {
    float diff = x[i] - m;
    sum += diff * diff;
  }
  sum = cg::reduce(warp, sum, cg::plus<float>{});
  float s = rsqrtf(sum / C + 1e-5f);
  if (warp.thread_rank() == 0 && rstd != nullptr) __stcs(rstd + idx, s);
  float* o = out + idx * C;
  for (int c = warp.thread_rank(); c < C; c += warp.size()) {
    float n = s * (__ldcs(x + c) - m);
    __stcs(o + c, n * weight[c] + bias[c]);
  }
}

__inline__ __device__ float block_sum(float value) {
  __shared__ float warps[32];
  __shared__ float total;
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    total = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) total += warps[w];
  }
  __syncthreads();
  const float result = total;
  __syncthreads();
  return result;
}

__global__ void layernorm_half(half2* out, const half2* inp, const half2* weight, const half2* bias,
                               int C) {
  const half2* x = inp + blockIdx.x * C / 2;
  float sum = 0.0f, squares = 0.0f;
  for (int i = threadIdx.x; i < C / 2; i += blockDim.x) {
    const float2 v = __half22float2(x[i]);
    sum += v.x + v.y;
    squares += v.x * v.x + v.y * v.y;
  }
  const float m = block_sum(sum) / C;
  const float s = rsqrtf(block_sum(squares) / C - m * m + 1e-5f);
  for (int i = threadIdx.x; i < C / 2; i += blockDim.x) {
    const half2 n = __hmul2(__hsub2(x[i], __float2half2_rn(m)), __float2half2_rn(s));
    out[blockIdx.x * C / 2 + i] = __hfma2(n, weight[i], bias[i]);
  }
}

int main() {
  const int N = 10, C = 96;
  std::vector<float> inp(N * C), weight(C), bias(C), out(N * C), expected(N * C), mean(N);
  for (int i = 0; i < N * C; ++i) inp[i] = sinf(i * 0.7f) * (1 + i / C % 3);
  for (int c = 0; c < C; ++c) weight[c] = 1 + 0.01f * c, bias[c] = 0.5f - 0.02f * c;
  for (int n = 0; n < N; ++n) {
    double m = 0, v = 0;
    for (int c = 0; c < C; ++c) m += inp[n * C + c] / C;
    for (int c = 0; c < C; ++c) v += (inp[n * C + c] - m) * (inp[n * C + c] - m) / C;
    for (int c = 0; c < C; ++c)
      expected[n * C + c] = (inp[n * C + c] - m) / sqrt(v + 1e-5) * weight[c] + bias[c];
  }
  float *d_inp, *d_out, *d_mean, *d_weight, *d_bias;
  CUDA_CHECK(cudaMalloc(&d_inp, N * C * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&d_out, N * C * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&d_mean, N * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&d_weight, C * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&d_bias, C * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(d_inp, inp.data(), N * C * sizeof(float), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d_weight, weight.data(), C * sizeof(float), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d_bias, bias.data(), C * sizeof(float), cudaMemcpyHostToDevice));
  layernorm_forward_kernel3<<<(N + 3) / 4, 128>>>(d_out, d_mean, NULL, d_inp, d_weight, d_bias, N,
                                                  C);
  CUDA_CHECK(cudaMemcpy(out.data(), d_out, N * C * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < N * C; ++i)
    if (!close_to(out[i], expected[i])) return printf("float: element %d\n", i), 1;

  std::vector<half> h(N * C), w(C), b(C);
  for (int i = 0; i < N * C; ++i) h[i] = __float2half(inp[i]);
  for (int c = 0; c < C; ++c) w[c] = __float2half(weight[c]), b[c] = __float2half(bias[c]);
  half *d_h, *d_w, *d_b, *d_o;
  CUDA_CHECK(cudaMalloc(&d_h, N * C * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&d_o, N * C * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&d_w, C * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&d_b, C * sizeof(half)));
  CUDA_CHECK(cudaMemcpy(d_h, h.data(), N * C * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d_w, w.data(), C * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d_b, b.data(), C * sizeof(half), cudaMemcpyHostToDevice));
  layernorm_half<<<N, 64>>>((half2*)d_o, (const half2*)d_h, (const half2*)d_w, (const half2*)d_b,
                            C);
  CUDA_CHECK(cudaMemcpy(h.data(), d_o, N * C * sizeof(half), cudaMemcpyDeviceToHost));
  for (int i = 0; i < N * C; ++i)
    if (!close_to(__half2float(h[i]), expected[i], 2e-2)) return printf("half: element %d\n", i), 1;
  return 0;
}
