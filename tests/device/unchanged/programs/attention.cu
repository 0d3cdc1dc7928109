// Attention, tile by tile with a running maximum and sum, so that the scores are never stored.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "check.cuh"

__global__ void forward_kernel(const float* Q, const float* K, const float* V, const int N,
                               const int d, const int Tc, const int Tr, const int Bc, const int Br,
                               const float softmax_scale, float* l, float* m, float* O) {
  int tx = threadIdx.x;
  int bx = blockIdx.x, by = blockIdx.y;
  int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d);
  int lm_offset = (bx * gridDim.y * N) + (by * N);

  extern __shared__ float sram[];
  int tile_size = Bc * d;
  float* Qi = sram;
  float* Kj = &sram[tile_size];
  float* Vj = &sram[tile_size * 2];
  float* S = &sram[tile_size * 3];

  for (int j = 0; j < Tc; j++) {
    for (int x = 0; x < d; x++) {
      Kj[(tx * d) + x] = K[qkv_offset + (tile_size * j) + (tx * d) + x];
      Vj[(tx * d) + x] = V[qkv_offset + (tile_size * j) + (tx * d) + x];
    }
    __syncthreads();
    for (int i = 0; i < Tr; i++) {
      for (int x = 0; x < d; x++) Qi[(tx * d) + x] = Q[qkv_offset + (tile_size * i) + (tx * d) + x];
      float row_m_prev = m[lm_offset + (Br * i) + tx];
      float row_l_prev = l[lm_offset + (Br * i) + tx];
      float row_m = -INFINITY;
      for (int y = 0; y < Bc; y++) {
        float sum = 0;
        for (int x = 0; x < d; x++) sum += Qi[(tx * d) + x] * Kj[(y * d) + x];
        sum *= softmax_scale;
        S[(Bc * tx) + y] = sum;
        if (sum > row_m) row_m = sum;
      }
      float row_l = 0;
      for (int y = 0; y < Bc; y++) {
        S[(Bc * tx) + y] = __expf(S[(Bc * tx) + y] - row_m);
        row_l += S[(Bc * tx) + y];
      }
      float row_m_new = max(row_m_prev, row_m);
      float row_l_new =
          (__expf(row_m_prev - row_m_new) * row_l_prev) + (__expf(row_m - row_m_new) * row_l);
      for (int x = 0; x < d; x++) {
        float pv = 0;
        for (int y = 0; y < Bc; y++) pv += S[(Bc * tx) + y] * Vj[(y * d) + x];
        float* o = &O[qkv_offset + (tile_size * i) + (tx * d) + x];
        *o = (1 / row_l_new) * ((row_l_prev * __expf(row_m_prev - row_m_new) * *o) +
                                (__expf(row_m - row_m_new) * pv));
      }
      m[lm_offset + (Br * i) + tx] = row_m_new;
      l[lm_offset + (Br * i) + tx] = row_l_new;
    }
    __syncthreads();
  }
}

int main() {
  const int B = 1, nh = 2, N = 64, d = 16, Bc = 32, Br = 32;
  const size_t count = B * nh * N * d;
  std::vector<float> q(count), k(count), v(count), o(count, 0.0f), l(B * nh * N, 0.0f),
      m(B * nh * N, -INFINITY);
  for (size_t i = 0; i < count; ++i) {
    q[i] = sinf(0.13f * i);
    k[i] = cosf(0.31f * i);
    v[i] = sinf(0.05f * i + 1);
  }
  float *dq, *dk, *dv, *dout, *dl, *dm;
  for (float** each : {&dq, &dk, &dv, &dout}) CUDA_CHECK(cudaMalloc(each, count * sizeof(float)));
  for (float** each : {&dl, &dm}) CUDA_CHECK(cudaMalloc(each, l.size() * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(dq, q.data(), count * sizeof(float), cudaMemcpyDefault));
  CUDA_CHECK(cudaMemcpy(dk, k.data(), count * sizeof(float), cudaMemcpyDefault));
  CUDA_CHECK(cudaMemcpy(dv, v.data(), count * sizeof(float), cudaMemcpyDefault));
  CUDA_CHECK(cudaMemcpy(dout, o.data(), count * sizeof(float), cudaMemcpyDefault));
  CUDA_CHECK(cudaMemcpy(dl, l.data(), l.size() * sizeof(float), cudaMemcpyDefault));
  CUDA_CHECK(cudaMemcpy(dm, m.data(), m.size() * sizeof(float), cudaMemcpyDefault));

  const int sram_size = (3 * Bc * d * sizeof(float)) + (Bc * Br * sizeof(float));
  int max_sram_size;
  cudaDeviceGetAttribute(&max_sram_size, cudaDevAttrMaxSharedMemoryPerBlock, 0);
  printf("Max shared memory: %d, requested shared memory: %d\n", max_sram_size, sram_size);
  dim3 grid_dim(B, nh);
  dim3 block_dim(Bc);
  const float scale = 1.0 / sqrt(d);
  forward_kernel<<<grid_dim, block_dim, sram_size>>>(dq, dk, dv, N, d, N / Bc, N / Br, Bc, Br,
                                                     scale, dl, dm, dout);
  CUDA_CHECK(cudaMemcpy(o.data(), dout, count * sizeof(float), cudaMemcpyDeviceToHost));
  for (int h = 0; h < B * nh; ++h)
    for (int i = 0; i < N; ++i) {
      std::vector<double> p(N);
      double sum = 0;
      for (int j = 0; j < N; ++j) {
        double s = 0;
        for (int x = 0; x < d; ++x) s += q[(h * N + i) * d + x] * k[(h * N + j) * d + x];
        sum += p[j] = exp(s * scale);
      }
      for (int x = 0; x < d; ++x) {
        double expected = 0;
        for (int j = 0; j < N; ++j) expected += p[j] / sum * v[(h * N + j) * d + x];
        if (!close_to(o[(h * N + i) * d + x], expected)) {
          printf("head %d, row %d, column %d is wrong\n", h, i, x);
          return 1;
        }
      }
    }
  return 0;
}
