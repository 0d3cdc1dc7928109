#include "yotta/device/emulator/stream_words.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "support/message_of.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/streams.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("copies beyond an allocation are refused") {
  std::vector<int> host = {1, 2, 3, 4};
  int* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 12) == cudaSuccess);
  CHECK(cudaMemcpy(memory, host.data(), 16, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(memory + 1, host.data(), 12, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), host.data(), 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemset(memory, 0, 13) == cudaErrorInvalidValue);

  CHECK(cudaMemset(memory, 0, 12) == cudaSuccess);
  CHECK(cudaMemcpy(memory + 1, host.data(), 8, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(host.data(), memory, 12, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(host == std::vector<int>{0, 1, 2, 4});
  CHECK(cudaFree(memory) == cudaSuccess);
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

TEST_CASE(
    "pageable memory is staged: its owner may change it; pinned memory is read when the copy "
    "runs") {
  Stream stream;
  DeviceArray<int> x(1), y(1);
  PinnedArray<int> pinned(1);
  int pageable = 1;
  *pinned.data() = 1;
  check_cuda(cudaMemcpyAsync(x.data(), &pageable, 4, cudaMemcpyHostToDevice, stream));
  check_cuda(cudaMemcpyAsync(y.data(), pinned.data(), 4, cudaMemcpyHostToDevice, stream));
  pageable = *pinned.data() = 2;
  CHECK(x.to_host()[0] == 1);
  CHECK(y.to_host()[0] == 2);
}

TEST_CASE("a copy to pageable memory has ended when it returns, one to pinned memory has not") {
  Stream stream;
  const DeviceArray<int> x(std::vector<int>{7});
  PinnedArray<int> pinned(1);
  *pinned.data() = 0;
  int pageable = 0;
  check_cuda(cudaMemcpyAsync(pinned.data(), x.data(), 4, cudaMemcpyDeviceToHost, stream));
  CHECK(*pinned.data() == 0);
  check_cuda(cudaMemcpyAsync(&pageable, x.data(), 4, cudaMemcpyDeviceToHost, stream));
  CHECK(pageable == 7);
  CHECK(*pinned.data() == 7);
}

TEST_CASE("the default stream waits for blocking streams, and they for it") {
  cudaStream_t blocking = nullptr, free = nullptr;
  check_cuda(cudaStreamCreate(&blocking));
  check_cuda(cudaStreamCreateWithFlags(&free, cudaStreamNonBlocking));
  DeviceArray<unsigned char> x(4);
  check_cuda(cudaMemsetAsync(x.data(), 1, 2, blocking));
  check_cuda(cudaMemsetAsync(x.data() + 2, 1, 2, free));
  check_cuda(cudaMemsetAsync(x.data() + 1, 2, 1, nullptr));
  CHECK(x.data()[0] == 1);
  CHECK(x.data()[1] == 2);
  while (cudaStreamQuery(free) == cudaErrorNotReady) continue;
  CHECK(x.data()[2] == 1);
  check_cuda(cudaStreamDestroy(blocking));
  CHECK(cudaStreamDestroy(blocking) == cudaErrorInvalidResourceHandle);
  CHECK(cudaMemsetAsync(x.data(), 1, 1, blocking) == cudaErrorInvalidResourceHandle);
  check_cuda(cudaStreamDestroy(free));
}
