// Pi by darts: each thread has a stream of random numbers of its own from Philox 4x32-10, whose
// state is a counter.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

#include "check.cuh"

struct Philox {
  uint2 key;
  uint4 counter;

  __host__ __device__ Philox(uint64_t seed, uint64_t stream)
      : key{(uint32_t)seed, (uint32_t)(seed >> 32)},
        counter{0, 0, (uint32_t)stream, (uint32_t)(stream >> 32)} {}

  __host__ __device__ static uint32_t mulhi(uint32_t a, uint32_t b) {
    return (uint32_t)(((uint64_t)a * b) >> 32);
  }
  __host__ __device__ uint4 operator()() {
    uint4 x = counter;
    uint2 k = key;
    for (int round = 0; round < 10; ++round) {
      const uint32_t hi0 = mulhi(0xD2511F53u, x.x), lo0 = 0xD2511F53u * x.x;
      const uint32_t hi1 = mulhi(0xCD9E8D57u, x.z), lo1 = 0xCD9E8D57u * x.z;
      x = make_uint4(hi1 ^ x.y ^ k.x, lo1, hi0 ^ x.w ^ k.y, lo0);
      k.x += 0x9E3779B9u;
      k.y += 0xBB67AE85u;
    }
    if (++counter.x == 0) ++counter.y;
    return x;
  }
};

__host__ __device__ inline float unit(uint32_t x) { return (x >> 8) * (1.0f / 16777216.0f); }

__host__ __device__ inline int inside(Philox& random) {
  const uint4 bits = random();
  const float x = unit(bits.x), y = unit(bits.y), z = unit(bits.z), w = unit(bits.w);
  return (x * x + y * y <= 1.0f) + (z * z + w * w <= 1.0f);
}

__global__ void darts(uint64_t seed, int draws, unsigned long long* hits) {
  Philox random(seed, blockIdx.x * blockDim.x + threadIdx.x);
  unsigned mine = 0;
  for (int i = 0; i < draws; ++i) mine += inside(random);
  mine = __reduce_add_sync(0xffffffffu, mine);
  if (threadIdx.x % 32 == 0) atomicAdd(hits, (unsigned long long)mine);
}

int main() {
  const int blocks = 4, threads = 64, draws = 40;
  const uint64_t seed = 20240229;
  unsigned long long *dHits, hits = 0, expected = 0;
  CUDA_CHECK(cudaMalloc(&dHits, sizeof *dHits));
  CUDA_CHECK(cudaMemset(dHits, 0, sizeof *dHits));
  darts<<<blocks, threads>>>(seed, draws, dHits);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaMemcpy(&hits, dHits, sizeof hits, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(dHits));
  for (int stream = 0; stream < blocks * threads; ++stream) {
    Philox random(seed, stream);
    for (int i = 0; i < draws; ++i) expected += inside(random);
  }
  const double pi = 4.0 * (double)hits / (2.0 * blocks * threads * draws);
  printf("pi is about %f\n", pi);
  const uint4 first = Philox(0, 0)();  // a known answer of the generator's authors
  const bool known = first.x == 0x6627e8d5u && first.y == 0xe169c58du && first.z == 0xbc57ac4cu &&
                     first.w == 0x9b00dbd8u;
  // A point on the circle may fall on either side, by how the sum of squares is rounded.
  const bool same = hits > expected ? hits - expected < 3 : expected - hits < 3;
  return known && same && close_to(pi, 3.14159, 0.02) ? 0 : 1;
}
