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

TEST_CASE("null pointers and handles that were destroyed have CUDA's codes") {
  Stream stream;
  cudaStream_t gone = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaStreamCreate(nullptr) == cudaErrorInvalidValue);
  CHECK(cudaStreamDestroy(nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventCreate(nullptr) == cudaErrorInvalidValue);
  CHECK(cudaEventRecord(nullptr, stream) == cudaErrorInvalidResourceHandle);
  check_cuda(cudaStreamCreate(&gone));
  check_cuda(cudaStreamDestroy(gone));
  const Stream next;  // not at the same address
  CHECK(cudaStreamSynchronize(gone) == cudaErrorInvalidResourceHandle);
  check_cuda(cudaEventCreate(&event));
  check_cuda(cudaEventDestroy(event));
  const Event another;
  CHECK(cudaEventDestroy(event) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(event, stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamWaitEvent(stream, event) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventSynchronize(event) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventQuery(event) == cudaErrorInvalidResourceHandle);
  CHECK(cudaMalloc(static_cast<void**>(nullptr), 4) == cudaErrorInvalidValue);
  CHECK(cudaLaunchHostFunc(stream, nullptr, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("a copy whose kind is wrong, or without an address, is refused; one of nothing is none") {
  DeviceArray<int> x(4), y(4);
  PinnedArray<int> pinned(4);
  int host[4] = {};
  CHECK(cudaMemcpy(x.data(), y.data(), 4, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemcpy(x.data(), y.data(), 4, cudaMemcpyDeviceToHost) ==
        cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemcpy(x.data(), nullptr, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(nullptr, x.data(), 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host, nullptr, 0, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(cudaMemset(nullptr, 0, 0) == cudaSuccess);
  CHECK(cudaFree(pinned.data()) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(x.data()) == cudaErrorInvalidValue);
}

TEST_CASE("a function of the host runs in its stream, and must not call CUDA") {
  Stream stream;
  DeviceArray<int> x(1);
  PinnedArray<int> host(1);
  std::vector<cudaError_t> codes;
  check_cuda(cudaMemsetAsync(x.data(), 1, 4, stream));
  check_cuda(cudaMemcpyAsync(host.data(), x.data(), 4, cudaMemcpyDeviceToHost, stream));
  const auto twice = [](void* data) { *static_cast<int*>(data) *= 2; };
  check_cuda(cudaLaunchHostFunc(stream, twice, host.data()));
  const auto calls = [](void* data) {
    void* memory = nullptr;
    *static_cast<std::vector<cudaError_t>*>(data) = {
        cudaMalloc(&memory, 4), cudaDeviceSynchronize(), cudaStreamSynchronize(nullptr),
        cudaLaunchHostFunc(
            nullptr, [](void*) {}, nullptr)};
  };
  check_cuda(cudaLaunchHostFunc(stream, calls, &codes));
  check_cuda(cudaStreamSynchronize(stream));
  CHECK(*host.data() == 2 * 0x01010101);
  CHECK(codes == std::vector<cudaError_t>(4, cudaErrorNotPermitted));
  const auto fails = [](void*) { throw std::runtime_error("no luck"); };
  check_cuda(cudaLaunchHostFunc(stream, fails, nullptr));
  CHECK_THROWS_WITH(check_cuda(cudaStreamSynchronize(stream)), "no luck");
  check_cuda(cudaLaunchHostFunc(stream, twice, host.data()));
  check_cuda(cudaStreamSynchronize(stream));
  CHECK(*host.data() == 4 * 0x01010101);
}

namespace {

__global__ void copy_volatile(const volatile int* from, int* to) { *to = *from; }

}  // namespace

TEST_CASE("a kernel may have pointers to volatile memory") {
  Stream stream;
  DeviceArray<int> x(std::vector<int>{7}), y(1);
  launch(copy_volatile, 1, 1, 0, stream, x.data(), y.data());
  CHECK(y.to_host()[0] == 7);
}

TEST_CASE("a launch of nothing, or on a stream that is gone, is an error of its line") {
  static constexpr auto* kernel = iterate_map<float>;
  DeviceArray<float> x(1);
  const auto launched = [&](unsigned blocks, cudaStream_t stream) {
    return message_of([&] { launch(kernel, blocks, 1, 0, stream, x.data(), x.data(), 1, 1); });
  };
  Stream stream;
  cudaStream_t gone = nullptr;
  check_cuda(cudaStreamCreate(&gone));
  check_cuda(cudaStreamDestroy(gone));
  CHECK(contains(launched(0, stream), "a grid of (0, 1, 1) blocks; a GPU allows at least 1"));
  CHECK(contains(launched(0, nullptr), "stream_words_test.cpp"));
  CHECK(contains(launched(1, gone), "CUDA: invalid resource handle"));
}
