#include "yotta/device/emulator/simt_memory.hpp"

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
