#include "yotta/device/emulator/simt_streams.hpp"

#include <doctest/doctest.h>

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
