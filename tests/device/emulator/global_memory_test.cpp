#include "yotta/device/emulator/global_memory.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

TEST_CASE("device memory is aligned as on a GPU, and holds no zeros") {
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{4096}}) {
    unsigned char* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, bytes) == cudaSuccess);
    CHECK(reinterpret_cast<uintptr_t>(memory) % 256 == 0);
    CHECK(memory[0] == 0xff);
    CHECK(memory[bytes - 1] == 0xff);
    CHECK(cudaFree(memory) == cudaSuccess);
  }
  CHECK(cudaFree(nullptr) == cudaSuccess);
}

TEST_CASE("copies beyond an allocation, and frees of what is none, are refused") {
  std::vector<int> host = {1, 2, 3, 4};
  int* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 12) == cudaSuccess);
  CHECK(cudaMemcpy(memory, host.data(), 16, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(memory + 1, host.data(), 12, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), host.data(), 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemset(memory, 0, 13) == cudaErrorInvalidValue);
  CHECK(cudaFree(memory + 1) == cudaErrorInvalidValue);

  CHECK(cudaMemset(memory, 0, 12) == cudaSuccess);
  CHECK(cudaMemcpy(memory + 1, host.data(), 8, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(host.data(), memory, 12, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(host == std::vector<int>{0, 1, 2, 4});
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
}

TEST_CASE("stream-ordered memory: taken, set, copied, given back") {
  void* memory = nullptr;
  REQUIRE(cudaMallocAsync(&memory, 12, nullptr) == cudaSuccess);
  CHECK(cudaMemsetAsync(memory, 1, 12, nullptr) == cudaSuccess);
  unsigned char host[12] = {};
  CHECK(cudaMemcpyAsync(host, memory, 12, cudaMemcpyDeviceToHost, nullptr) == cudaSuccess);
  CHECK(host[11] == 1);
  CHECK(cudaMemcpyAsync(host, memory, 13, cudaMemcpyDeviceToHost, nullptr) ==
        cudaErrorInvalidValue);
  CHECK(cudaStreamQuery(nullptr) == cudaSuccess);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(cudaFreeAsync(memory, nullptr) == cudaSuccess);
  CHECK(cudaFreeAsync(memory, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("rows that lie apart") {
  const unsigned char from[] = {1, 2, 0, 3, 4, 0};
  unsigned char to[8] = {};
  void* memory = nullptr;
  REQUIRE(cudaMallocAsync(&memory, 8, nullptr) == cudaSuccess);
  CHECK(cudaMemsetAsync(memory, 9, 8, nullptr) == cudaSuccess);
  CHECK(cudaMemcpy2DAsync(memory, 4, from, 3, 2, 2, cudaMemcpyHostToDevice, nullptr) ==
        cudaSuccess);
  CHECK(cudaMemcpy(to, memory, 8, cudaMemcpyDeviceToHost) == cudaSuccess);
  const unsigned char expected[] = {1, 2, 9, 9, 3, 4, 9, 9};
  for (int i = 0; i < 8; ++i) CHECK(to[i] == expected[i]);
  CHECK(cudaMemcpy2DAsync(memory, 4, from, 3, 5, 1, cudaMemcpyHostToDevice, nullptr) ==
        cudaErrorInvalidValue);
  CHECK(cudaFreeAsync(memory, nullptr) == cudaSuccess);
}
