// Gravity between all pairs of bodies, a tile of bodies in shared memory at a time.
#include <cuda_runtime.h>
#include <math.h>

#include <cstdio>
#include <vector>

#include "check.cuh"

__constant__ float softeningSquared;

template <typename T>
struct vec3 {
  typedef float3 Type;
};

__device__ float rsqrt_T(float x) { return rsqrtf(x); }

template <typename T>
__device__ typename vec3<T>::Type bodyBodyInteraction(typename vec3<T>::Type ai, float4 bi,
                                                      float4 bj) {
  typename vec3<T>::Type r;
  r.x = bj.x - bi.x;
  r.y = bj.y - bi.y;
  r.z = bj.z - bi.z;
  T distSqr = r.x * r.x + r.y * r.y + r.z * r.z;
  distSqr += softeningSquared;
  T invDist = rsqrt_T(distSqr);
  T invDistCube = invDist * invDist * invDist;
  T s = bj.w * invDistCube;
  ai.x += r.x * s;
  ai.y += r.y * s;
  ai.z += r.z * s;
  return ai;
}

__global__ void integrateBodies(float4* __restrict__ newPos, const float4* __restrict__ oldPos,
                                float4* vel, unsigned int n, float deltaTime, float damping,
                                int numTiles) {
  extern __shared__ float4 sharedPos[];
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= n) return;
  float4 position = oldPos[index];
  float3 accel = make_float3(0.0f, 0.0f, 0.0f);
  for (int tile = 0; tile < numTiles; tile++) {
    sharedPos[threadIdx.x] = oldPos[tile * blockDim.x + threadIdx.x];
    __syncthreads();
#pragma unroll 16
    for (unsigned int counter = 0; counter < blockDim.x; counter++)
      accel = bodyBodyInteraction<float>(accel, position, sharedPos[counter]);
    __syncthreads();
  }
  float4 velocity = vel[index];
  velocity.x = (velocity.x + accel.x * deltaTime) * damping;
  velocity.y = (velocity.y + accel.y * deltaTime) * damping;
  velocity.z = (velocity.z + accel.z * deltaTime) * damping;
  position.x += velocity.x * deltaTime;
  position.y += velocity.y * deltaTime;
  position.z += velocity.z * deltaTime;
  newPos[index] = position;
  vel[index] = velocity;
}

int main() {
  const int n = 128, p = 64;
  const float soft = 0.1f, dt = 0.01f, damping = 0.995f;
  std::vector<float4> pos(n), vel(n), out(n);
  for (int i = 0; i < n; ++i) {
    pos[i] = make_float4(sinf(i), cosf(1.7f * i), sinf(0.3f * i + 1), 1.0f + i % 3);
    vel[i] = make_float4(0, 0, 0, 1);
  }
  float4 *dPos[2], *dVel;
  for (auto& each : dPos) CUDA_CHECK(cudaMalloc((void**)&each, n * sizeof(float4)));
  CUDA_CHECK(cudaMalloc((void**)&dVel, n * sizeof(float4)));
  CUDA_CHECK(cudaMemcpy(dPos[0], pos.data(), n * sizeof(float4), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dVel, vel.data(), n * sizeof(float4), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpyToSymbol(softeningSquared, &soft, sizeof(float), 0, cudaMemcpyHostToDevice));
  integrateBodies<<<(n + p - 1) / p, p, p * sizeof(float4)>>>(dPos[1], dPos[0], dVel, n, dt,
                                                              damping, (n + p - 1) / p);
  CUDA_CHECK(cudaMemcpy(out.data(), dPos[1], n * sizeof(float4), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) {
    double a[3] = {0, 0, 0};
    for (int j = 0; j < n; ++j) {
      const double r[3] = {pos[j].x - pos[i].x, pos[j].y - pos[i].y, pos[j].z - pos[i].z};
      const double d = r[0] * r[0] + r[1] * r[1] + r[2] * r[2] + soft;
      for (int k = 0; k < 3; ++k) a[k] += pos[j].w * r[k] / (d * sqrt(d));
    }
    if (!close_to(out[i].x, pos[i].x + a[0] * dt * damping * dt) ||
        !close_to(out[i].z, pos[i].z + a[2] * dt * damping * dt) || out[i].w != pos[i].w) {
      printf("body %d is wrong\n", i);
      return 1;
    }
  }
  return 0;
}
