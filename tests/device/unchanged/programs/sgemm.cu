// A ladder of matrix products: naive, coalesced, tiles in shared memory, tiles in registers, and
// vector loads.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.cuh"

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

__global__ void sgemm_naive(int M, int N, int K, float alpha, const float* A, const float* B,
                            float beta, float* C) {
  const uint x = blockIdx.x * blockDim.x + threadIdx.x;
  const uint y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < M && y < N) {
    float tmp = 0.0;
    for (int i = 0; i < K; ++i) tmp += A[x * K + i] * B[i * N + y];
    C[x * N + y] = alpha * tmp + beta * C[x * N + y];
  }
}

template <const uint BLOCKSIZE>
__global__ void sgemm_global_mem_coalesce(int M, int N, int K, float alpha, const float* A,
                                          const float* B, float beta, float* C) {
  const int cRow = blockIdx.x * BLOCKSIZE + (threadIdx.x / BLOCKSIZE);
  const int cCol = blockIdx.y * BLOCKSIZE + (threadIdx.x % BLOCKSIZE);
  if (cRow < M && cCol < N) {
    float tmp = 0.0;
    for (int i = 0; i < K; ++i) tmp += A[cRow * K + i] * B[i * N + cCol];
    C[cRow * N + cCol] = alpha * tmp + beta * C[cRow * N + cCol];
  }
}

template <const int BLOCKSIZE>
__global__ void sgemm_shared_mem_block(int M, int N, int K, float alpha, const float* A,
                                       const float* B, float beta, float* C) {
  const uint cRow = blockIdx.x;
  const uint cCol = blockIdx.y;
  __shared__ float As[BLOCKSIZE * BLOCKSIZE];
  __shared__ float Bs[BLOCKSIZE * BLOCKSIZE];
  const uint threadCol = threadIdx.x % BLOCKSIZE;
  const uint threadRow = threadIdx.x / BLOCKSIZE;
  A += cRow * BLOCKSIZE * K;
  B += cCol * BLOCKSIZE;
  C += cRow * BLOCKSIZE * N + cCol * BLOCKSIZE;
  float tmp = 0.0;
  for (int bkIdx = 0; bkIdx < K; bkIdx += BLOCKSIZE) {
    As[threadRow * BLOCKSIZE + threadCol] = A[threadRow * K + threadCol];
    Bs[threadRow * BLOCKSIZE + threadCol] = B[threadRow * N + threadCol];
    __syncthreads();
    A += BLOCKSIZE;
    B += BLOCKSIZE * N;
    for (int dotIdx = 0; dotIdx < BLOCKSIZE; ++dotIdx)
      tmp += As[threadRow * BLOCKSIZE + dotIdx] * Bs[dotIdx * BLOCKSIZE + threadCol];
    __syncthreads();
  }
  C[threadRow * N + threadCol] = alpha * tmp + beta * C[threadRow * N + threadCol];
}

template <const int BM, const int BN, const int BK, const int TM, const int TN>
__global__ void __launch_bounds__((BM * BN) / (TM * TN), 1)
    sgemmVectorize(int M, int N, int K, float alpha, float* A, float* B, float beta, float* C) {
  const uint cRow = blockIdx.y;
  const uint cCol = blockIdx.x;
  const int threadCol = threadIdx.x % (BN / TN);
  const int threadRow = threadIdx.x / (BN / TN);
  __shared__ float As[BM * BK];
  __shared__ float Bs[BK * BN];
  A += cRow * BM * K;
  B += cCol * BN;
  C += cRow * BM * N + cCol * BN;
  const uint innerRowA = threadIdx.x / (BK / 4), innerColA = threadIdx.x % (BK / 4);
  const uint innerRowB = threadIdx.x / (BN / 4), innerColB = threadIdx.x % (BN / 4);
  const uint strideA = blockDim.x / (BK / 4), strideB = blockDim.x / (BN / 4);
  float threadResults[TM * TN] = {0.0};
  float regM[TM] = {0.0};
  float regN[TN] = {0.0};
  for (uint bkIdx = 0; bkIdx < K; bkIdx += BK) {
    for (uint row = innerRowA; row < BM; row += strideA) {
      float4 tmp = reinterpret_cast<float4*>(&A[row * K + innerColA * 4])[0];
      As[(innerColA * 4 + 0) * BM + row] = tmp.x;
      As[(innerColA * 4 + 1) * BM + row] = tmp.y;
      As[(innerColA * 4 + 2) * BM + row] = tmp.z;
      As[(innerColA * 4 + 3) * BM + row] = tmp.w;
    }
    for (uint row = innerRowB; row < BK; row += strideB)
      reinterpret_cast<float4*>(&Bs[row * BN + innerColB * 4])[0] =
          reinterpret_cast<float4*>(&B[row * N + innerColB * 4])[0];
    __syncthreads();
    A += BK;
    B += BK * N;
    for (uint dotIdx = 0; dotIdx < BK; ++dotIdx) {
      for (uint i = 0; i < TM; ++i) regM[i] = As[dotIdx * BM + threadRow * TM + i];
      for (uint i = 0; i < TN; ++i) regN[i] = Bs[dotIdx * BN + threadCol * TN + i];
#pragma unroll
      for (uint m = 0; m < TM; ++m)
#pragma unroll
        for (uint n = 0; n < TN; ++n) threadResults[m * TN + n] += regM[m] * regN[n];
    }
    __syncthreads();
  }
  for (uint m = 0; m < TM; m += 1)
    for (uint n = 0; n < TN; n += 4) {
      float4 tmp = reinterpret_cast<float4*>(&C[(threadRow * TM + m) * N + threadCol * TN + n])[0];
      tmp.x = alpha * threadResults[m * TN + n] + beta * tmp.x;
      tmp.y = alpha * threadResults[m * TN + n + 1] + beta * tmp.y;
      tmp.z = alpha * threadResults[m * TN + n + 2] + beta * tmp.z;
      tmp.w = alpha * threadResults[m * TN + n + 3] + beta * tmp.w;
      reinterpret_cast<float4*>(&C[(threadRow * TM + m) * N + threadCol * TN + n])[0] = tmp;
    }
}

void run_sgemm(int kernel_num, int M, int N, int K, float alpha, float* A, float* B, float beta,
               float* C) {
  switch (kernel_num) {
    case 0: {
      dim3 gridDim(CEIL_DIV(M, 16), CEIL_DIV(N, 16));
      dim3 blockDim(16, 16);
      sgemm_naive<<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
      break;
    }
    case 1: {
      dim3 gridDim(CEIL_DIV(M, 16), CEIL_DIV(N, 16));
      dim3 blockDim(16 * 16);
      sgemm_global_mem_coalesce<16><<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
      break;
    }
    case 2: {
      dim3 gridDim(CEIL_DIV(M, 16), CEIL_DIV(N, 16));
      dim3 blockDim(16 * 16);
      cudaFuncSetAttribute(sgemm_shared_mem_block<16>,
                           cudaFuncAttributePreferredSharedMemoryCarveout,
                           cudaSharedmemCarveoutMaxShared);
      sgemm_shared_mem_block<16><<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
      break;
    }
    default: {
      const uint BK = 8, TM = 8, TN = 8, BM = 64, BN = 64;
      dim3 gridDim(CEIL_DIV(N, BN), CEIL_DIV(M, BM));
      dim3 blockDim((BM * BN) / (TM * TN));
      sgemmVectorize<BM, BN, BK, TM, TN><<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
    }
  }
}

int main() {
  const int M = 64, N = 128, K = 48;
  const float alpha = 0.5f, beta = 3.0f;
  std::vector<float> A(M * K), B(K * N), C(M * N), result(M * N);
  for (int i = 0; i < M * K; ++i) A[i] = (i * 13 % 17) - 8;
  for (int i = 0; i < K * N; ++i) B[i] = (i * 7 % 11) - 5;
  for (int i = 0; i < M * N; ++i) C[i] = i % 5;
  float *dA, *dB, *dC;
  CUDA_CHECK(cudaMalloc((void**)&dA, sizeof(float) * A.size()));
  CUDA_CHECK(cudaMalloc((void**)&dB, sizeof(float) * B.size()));
  CUDA_CHECK(cudaMalloc((void**)&dC, sizeof(float) * C.size()));
  CUDA_CHECK(cudaMemcpy(dA, A.data(), sizeof(float) * A.size(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dB, B.data(), sizeof(float) * B.size(), cudaMemcpyHostToDevice));
  for (int kernel = 0; kernel < 4; ++kernel) {
    CUDA_CHECK(cudaMemcpy(dC, C.data(), sizeof(float) * C.size(), cudaMemcpyHostToDevice));
    run_sgemm(kernel, M, N, K, alpha, dA, dB, beta, dC);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(result.data(), dC, sizeof(float) * C.size(), cudaMemcpyDeviceToHost));
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < N; ++j) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[i * K + k] * B[k * N + j];
        if (!close_to(result[i * N + j], alpha * sum + beta * C[i * N + j])) {
          printf("kernel %d: C[%d][%d] = %g\n", kernel, i, j, result[i * N + j]);
          exit(EXIT_FAILURE);
        }
      }
  }
  cudaFree(dA);
  cudaFree(dB);
  cudaFree(dC);
  return 0;
}
