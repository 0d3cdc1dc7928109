// A hash table with open addressing: 64-bit compare-and-swap on pairs of a key and a value.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

#include "check.cuh"

typedef unsigned long long int Entry;
const uint32_t kCapacity = 2048;
const uint32_t kEmpty = 0xffffffff;

__device__ uint32_t hash(uint32_t k) {
  k ^= k >> 16;
  k *= 0x85ebca6b;
  k ^= k >> 13;
  k *= 0xc2b2ae35;
  k ^= k >> 16;
  return k & (kCapacity - 1);
}

// Adds the value to that of the key.
__global__ void insert(Entry* table, const uint32_t* keys, const uint32_t* values, unsigned int n) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (uint32_t slot = hash(keys[i]);; slot = (slot + 1) & (kCapacity - 1)) {
    Entry seen = atomicCAS(&table[slot], (Entry)kEmpty << 32, (Entry)keys[i] << 32);
    if (seen == ((Entry)kEmpty << 32) || (uint32_t)(seen >> 32) == keys[i]) {
      atomicAdd(&table[slot], (Entry)values[i]);
      return;
    }
  }
}

__global__ void lookup(const Entry* table, const uint32_t* keys, uint32_t* values, unsigned int n) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (uint32_t slot = hash(keys[i]);; slot = (slot + 1) & (kCapacity - 1)) {
    const Entry entry = table[slot];
    if ((uint32_t)(entry >> 32) == kEmpty) break;
    if ((uint32_t)(entry >> 32) == keys[i]) {
      values[i] = (uint32_t)entry;
      return;
    }
  }
  values[i] = kEmpty;
}

int main() {
  const unsigned int n = 1000;
  std::vector<uint32_t> keys(n), values(n), found(n);
  std::map<uint32_t, uint32_t> expected;
  for (unsigned int i = 0; i < n; ++i) {
    keys[i] = i * i * 2654435761u % 700;
    values[i] = i;
    expected[keys[i]] += i;
  }
  std::vector<Entry> empty(kCapacity, (Entry)kEmpty << 32);
  Entry* d_table;
  uint32_t *d_keys, *d_values;
  CUDA_CHECK(cudaMalloc(&d_table, kCapacity * sizeof(Entry)));
  CUDA_CHECK(cudaMalloc(&d_keys, n * sizeof(uint32_t)));
  CUDA_CHECK(cudaMalloc(&d_values, n * sizeof(uint32_t)));
  CUDA_CHECK(cudaMemcpy(d_table, empty.data(), kCapacity * sizeof(Entry), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d_keys, keys.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d_values, values.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
  insert<<<(n + 127) / 128, 128>>>(d_table, d_keys, d_values, n);
  keys[0] = 12345678;
  CUDA_CHECK(cudaMemcpy(d_keys, keys.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
  lookup<<<(n + 127) / 128, 128>>>(d_table, d_keys, d_values, n);
  CUDA_CHECK(cudaMemcpy(found.data(), d_values, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
  for (unsigned int i = 1; i < n; ++i)
    if (found[i] != expected[keys[i]]) return printf("key %u is wrong\n", keys[i]), 1;
  return found[0] == kEmpty ? 0 : 1;
}
