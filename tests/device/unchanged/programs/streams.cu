// Pieces of an array that are copied, computed and copied back in several streams.
#include <cuda_runtime.h>

#include <assert.h>
#include <stdio.h>

#include "check.cuh"

__global__ void kernel(float* a, int offset) {
  int i = offset + threadIdx.x + blockIdx.x * blockDim.x;
  float x = (float)i;
  float s = sinf(x);
  float c = cosf(x);
  a[i] = a[i] + sqrtf(s * s + c * c);
}

float maxError(float* a, int n) {
  float maxE = 0;
  for (int i = 0; i < n; i++) {
    float error = fabs(a[i] - 1.0f);
    if (error > maxE) maxE = error;
  }
  return maxE;
}

int main(int argc, char** argv) {
  const int blockSize = 64, nStreams = 4;
  const int n = 4 * 2 * blockSize * nStreams;
  const int streamSize = n / nStreams;
  const int streamBytes = streamSize * sizeof(float);
  const int bytes = n * sizeof(float);
  int devId = 0;
  if (argc > 1) devId = atoi(argv[1]);
  cudaDeviceProp prop;
  CUDA_CHECK(cudaGetDeviceProperties(&prop, devId));
  printf("Device : %s\n", prop.name);
  CUDA_CHECK(cudaSetDevice(devId));
  float *a, *d_a;
  CUDA_CHECK(cudaMallocHost((void**)&a, bytes));
  CUDA_CHECK(cudaMalloc((void**)&d_a, bytes));
  float ms;
  cudaEvent_t startEvent, stopEvent;
  cudaStream_t stream[nStreams];
  CUDA_CHECK(cudaEventCreate(&startEvent));
  CUDA_CHECK(cudaEventCreate(&stopEvent));
  for (int i = 0; i < nStreams; ++i) CUDA_CHECK(cudaStreamCreate(&stream[i]));
  memset(a, 0, bytes);
  CUDA_CHECK(cudaEventRecord(startEvent, 0));
  for (int i = 0; i < nStreams; ++i) {
    int offset = i * streamSize;
    CUDA_CHECK(
        cudaMemcpyAsync(&d_a[offset], &a[offset], streamBytes, cudaMemcpyHostToDevice, stream[i]));
    kernel<<<streamSize / blockSize, blockSize, 0, stream[i]>>>(d_a, offset);
    CUDA_CHECK(
        cudaMemcpyAsync(&a[offset], &d_a[offset], streamBytes, cudaMemcpyDeviceToHost, stream[i]));
  }
  CUDA_CHECK(cudaEventRecord(stopEvent, 0));
  CUDA_CHECK(cudaEventSynchronize(stopEvent));
  CUDA_CHECK(cudaEventElapsedTime(&ms, startEvent, stopEvent));
  CUDA_CHECK(cudaDeviceSynchronize());
  const float error = maxError(a, n);
  printf("max error: %e\n", error);
  assert(ms >= 0);
  for (int i = 0; i < nStreams; ++i) CUDA_CHECK(cudaStreamDestroy(stream[i]));
  cudaEventDestroy(startEvent);
  cudaEventDestroy(stopEvent);
  cudaFree(d_a);
  cudaFreeHost(a);
  return error < 1e-5f ? 0 : 1;
}
