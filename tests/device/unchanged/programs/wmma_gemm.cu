// A product on tensor cores: a warp a tile of 16 x 16, and a ReLU on the fragment.
#include <cuda_fp16.h>
#include <mma.h>

#include <cstdio>
#include <vector>

#include "check.cuh"

using namespace nvcuda;

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

__global__ void wmma_example(half* a, half* b, float* c, int M, int N, int K, float alpha,
                             float beta) {
  int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
  int warpN = (blockIdx.y * blockDim.y + threadIdx.y);
  wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> a_frag;
  wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> b_frag;
  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag;
  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;
  wmma::fill_fragment(acc_frag, 0.0f);
  for (int i = 0; i < K; i += WMMA_K) {
    int aRow = warpM * WMMA_M, bCol = warpN * WMMA_N;
    if (aRow < M && bCol < N) {
      wmma::load_matrix_sync(a_frag, a + aRow + i * M, M);
      wmma::load_matrix_sync(b_frag, b + bCol + i * N, N);
      wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
    }
  }
  int cRow = warpM * WMMA_M, cCol = warpN * WMMA_N;
  if (cRow < M && cCol < N) {
    wmma::load_matrix_sync(c_frag, c + cRow + cCol * M, M, wmma::mem_col_major);
#pragma unroll
    for (int i = 0; i < c_frag.num_elements; i++) {
      c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
      c_frag.x[i] = c_frag.x[i] > 0.0f ? c_frag.x[i] : 0.0f;
    }
    wmma::store_matrix_sync(c + cRow + cCol * M, c_frag, M, wmma::mem_col_major);
  }
}

int main() {
  const int M = 64, N = 32, K = 48;
  const float alpha = 2.0f, beta = 1.0f;
  std::vector<half> a(M * K), b(K * N);
  std::vector<float> c(M * N), result(M * N);
  for (int i = 0; i < M * K; ++i) a[i] = __float2half(i * 7 % 13 - 6);
  for (int i = 0; i < K * N; ++i) b[i] = __float2half(i * 5 % 11 - 5);
  for (int i = 0; i < M * N; ++i) c[i] = i % 9;
  half *d_a, *d_b;
  float* d_c;
  CUDA_CHECK(cudaMalloc(&d_a, M * K * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&d_b, K * N * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&d_c, M * N * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(d_a, a.data(), M * K * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d_b, b.data(), K * N * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d_c, c.data(), M * N * sizeof(float), cudaMemcpyHostToDevice));
  dim3 gridDim;
  dim3 blockDim;
  blockDim.x = 64;
  blockDim.y = 2;
  gridDim.x = (M + (WMMA_M * blockDim.x / 32 - 1)) / (WMMA_M * blockDim.x / 32);
  gridDim.y = (N + WMMA_N * blockDim.y - 1) / (WMMA_N * blockDim.y);
  wmma_example<<<gridDim, blockDim>>>(d_a, d_b, d_c, M, N, K, alpha, beta);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaMemcpy(result.data(), d_c, M * N * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += __half2float(a[k * M + i]) * __half2float(b[k * N + j]);
      const float expected = fmaxf(alpha * sum + beta * c[j * M + i], 0.0f);
      if (result[j * M + i] != expected) {
        printf("C(%d, %d) is %g, expected %g\n", i, j, result[j * M + i], expected);
        return EXIT_FAILURE;
      }
    }
  return EXIT_SUCCESS;
}
