#include "yotta/device/emulator/global_memory.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "yotta/device/emulator/stream_words.hpp"

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

TEST_CASE("frees of what is no allocation are refused") {
  int* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 12) == cudaSuccess);
  CHECK(cudaFree(memory + 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
}

TEST_CASE("pinned memory is known, and takes none of the device's") {
  auto& all = yotta::DeviceMemory::instance();
  all.limit(1000);
  float* memory = nullptr;
  const size_t free = all.room().first;
  REQUIRE(cudaMallocHost(&memory, 4000) == cudaSuccess);
  CHECK(all.room().first == free);
  CHECK(all.is_pinned(memory + 999));
  CHECK_FALSE(all.is_pinned(memory + 1000));
  CHECK(all.describe(memory + 2, 4) == "pinned memory, bytes 8 to 11 of 4000");
  CHECK(cudaFreeHost(memory) == cudaSuccess);
  CHECK_FALSE(all.is_pinned(memory));
  CHECK(cudaFreeHost(memory) == cudaErrorInvalidValue);
  all.limit(SIZE_MAX);
}
