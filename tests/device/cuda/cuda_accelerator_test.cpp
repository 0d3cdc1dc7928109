#include "yotta/device/cuda/cuda_accelerator.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/core/tensor.hpp"
#include "yotta/device/emulator/stream_queue.hpp"

using namespace yotta;
using namespace yotta_test;

// Here Device::cuda is the emulator's memory.

TEST_CASE("tensors live in device memory, counted, and come back") {
  install_accelerator();
  RankContext rank;
  const ContextScope context_scope(rank);
  const Tensor host = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  {
    const Tensor x = host.to(Device::cuda);
    CHECK(DeviceMemory::instance().holds(x.raw(), 24));
    CHECK_FALSE(DeviceMemory::instance().holds(host.raw(), 24));
    CHECK(x.clone().rows(1, 2).values() == std::vector<double>{4, 5, 6});
    Tensor y = x.clone();
    y.rows(0, 1).zero();
    CHECK(y.values() == std::vector<double>{0, 0, 0, 4, 5, 6});
    CHECK(rank.ledger.memory()->live() == 3 * 24);
    CHECK(rank.ledger.memory()->peak() >= 3 * 24);
    const Tensor none = Tensor::zeros({0, 3}).to(Device::cuda);
    CHECK(none.raw() == nullptr);
    CHECK(none.values().empty());
  }
  CHECK(rank.ledger.memory()->live() == 24);
}

TEST_CASE("fresh memory is no zeros, rows are copied apart") {
  install_accelerator();
  const DeviceScope scope(Device::cuda);
  const Tensor fresh = Tensor::empty({2});
  CHECK(fresh.item({0}) != fresh.item({0}));  // NaN
  const Tensor x = Tensor::from<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor y = Tensor::full({2, 2}, 0, DType::i32);
  accelerator()->copy_rows(y.raw(), 8, static_cast<std::byte*>(x.raw()) + 4, 12, 8, 2);
  CHECK(y.values() == std::vector<double>{2, 3, 5, 6});
}

TEST_CASE("the stream of what others wait for has more priority than any that computes") {
  cudaStream_t computes = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&computes, cudaStreamNonBlocking));
  const cudaStream_t urgent = make_urgent_stream();
  const auto priority_of = [](cudaStream_t stream) {
    int priority = 0;
    check_cuda(cudaStreamGetPriority(stream, &priority));
    return priority;
  };
  CHECK(priority_of(urgent) < priority_of(computes));
  CHECK(priority_of(computes) == priority_of(nullptr));
  check_cuda(cudaStreamDestroy(urgent));
  check_cuda(cudaStreamDestroy(computes));
  int none = 0;
  CHECK(cudaStreamGetPriority(urgent, &none) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamGetPriority(nullptr, nullptr) == cudaErrorInvalidValue);
  int greatest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(nullptr, &greatest) == cudaSuccess);
  CHECK(greatest < 0);
  CHECK(cudaDeviceGetStreamPriorityRange(nullptr, nullptr) == cudaSuccess);
}

TEST_CASE("a copy to the device has its own copy of the bytes, also where the GPU stages none") {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  StreamQueue::instance().reads_pageable = true;
  compute_stream() = stream;
  {
    CudaAccelerator device;
    for (const size_t count : {size_t{3}, size_t{1} << 19}) {  // 2 MiB are waited for
      std::vector<float> numbers(count, 1);
      const auto bytes = static_cast<int64_t>(count * sizeof(float));
      std::vector<void*> copies;
      for (int i = 0; i < 3; ++i) {
        copies.push_back(device.allocate(bytes, Where::current()));
        device.copy(copies.back(), numbers.data(), bytes, Transfer::to_device);
        std::fill(numbers.begin(), numbers.end(), 2.f + static_cast<float>(i));  // ours again
      }
      for (int i = 0; i < 3; ++i) {
        device.copy(numbers.data(), copies[static_cast<size_t>(i)], bytes, Transfer::to_host);
        CHECK(numbers[0] == static_cast<float>(1 + i));
        CHECK(numbers.back() == static_cast<float>(1 + i));
        device.release(copies[static_cast<size_t>(i)]);
      }
    }
    device.wait();
  }
  compute_stream() = nullptr;
  StreamQueue::instance().reads_pageable = false;
  check_cuda(cudaStreamDestroy(stream));
}

TEST_CASE("waiting leaves no error behind, which the next launch would report as its own") {
  StreamQueue::instance().keeps_not_ready = true;
  const Stream stream;
  compute_stream() = stream;
  float number = 1;
  {
    CudaAccelerator device;
    std::vector<void*> copies;
    for (int i = 0; i < 3; ++i) {  // staged: a copy before it may still be under way
      copies.push_back(device.allocate(4, Where::current()));
      device.copy(copies.back(), &number, 4, Transfer::to_device);
      CHECK(cudaGetLastError() == cudaSuccess);
    }
    for (void* const memory : copies) device.zero(memory, 4);
    CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    CHECK(cudaGetLastError() == cudaErrorNotReady);
    CHECK(cudaGetLastError() == cudaSuccess);
    device.wait();
    CHECK(cudaGetLastError() == cudaSuccess);
    for (void* const memory : copies) device.release(memory);
  }
  compute_stream() = nullptr;
  StreamQueue::instance().keeps_not_ready = false;
}

TEST_CASE("CUDA and NCCL are asked for queues and an order of launches, if the user has not") {
  const auto value_of = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  for (const char* name : {"CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_LAUNCH_ORDER_IMPLICIT"})
    unsetenv(name);
  ask_for_launch_order();
  CHECK(value_of("CUDA_DEVICE_MAX_CONNECTIONS") == "32");
  CHECK(value_of("NCCL_LAUNCH_ORDER_IMPLICIT") == "1");
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  ask_for_launch_order();
  CHECK(value_of("CUDA_DEVICE_MAX_CONNECTIONS") == "8");
  CHECK(value_of("NCCL_LAUNCH_ORDER_IMPLICIT") == "0");
}

TEST_CASE("a process takes the GPU of its number among those that it sees") {
  CHECK(gpu_of_process(3, 8) == 3);
  CHECK(gpu_of_process(3, 1) == 0);  // srun --gpus-per-task=1
}

TEST_CASE("memory that is not the device's is refused, and who watches is asked") {
  install_accelerator();
  float numbers[4] = {};
  CHECK(contains(message_of([&] { accelerator()->zero(numbers, 16); }), "CUDA: invalid argument"));
  accelerator_watch() = [](Where where, double) { fail(where, "a peer is gone"); };
  CHECK(contains(message_of([] { accelerator()->wait(); }), "a peer is gone"));
  accelerator_watch() = nullptr;
  accelerator()->wait();
}

TEST_CASE(
    "without memory: what was asked for, what is free, what to try; what there is still serves") {
  install_accelerator();
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  const size_t used = total - free;
  DeviceMemory::instance().limit(used + 4096);
  {
    const DeviceScope scope(Device::cuda);
    const Tensor kept = Tensor::empty({512});
    const std::string text = message_of([] { Tensor::empty({1024}); });
    CAPTURE(text);
    CHECK(contains(text, "cuda_accelerator_test.cpp"));
    CHECK(contains(text, "no memory left for 4096 bytes"));
    CHECK(contains(text, fmt::format("of its {} bytes 2048 are free", used + 4096)));
    CHECK(contains(text, "fewer sequences per microbatch, activation checkpointing"));
    CHECK(contains(message_of([] { DeviceArray<float>(1024); }), "CUDA: out of memory"));
    const Tensor fits = Tensor::empty({512});
    CHECK(fits.raw() != nullptr);
  }
  CHECK(Tensor::zeros({1024}).to(Device::cuda).raw() != nullptr);  // all of it is free again
  DeviceMemory::instance().limit(SIZE_MAX);
}

namespace {

struct CountedDriver : CudaAccelerator {
  int asked = 0;
  void* ask_driver(int64_t bytes, Where where) override {
    ++asked;
    return CudaAccelerator::ask_driver(bytes, where);
  }
};

}  // namespace

TEST_CASE("released memory serves the next request of its size; the driver is asked once") {
  CountedDriver device;
  device.keeps_memory = true;
  const auto ask = [&](int64_t bytes) { return device.allocate(bytes, Where::current()); };
  void *const a = ask(1000), *const b = ask(1024), *const c = ask(1025);
  CHECK(device.asked == 3);
  CHECK(a != b);
  for (void* each : {a, b, c}) device.release(each);
  CHECK(ask(1537) != c);  // 2048: another size
  CHECK(device.asked == 4);
  void *const again = ask(700), *const too = ask(513);
  CHECK((again == b && too == a));  // 1024 bytes, as all from 513 on
  CHECK(ask(1100) == c);
  CHECK(device.asked == 4);
}

TEST_CASE("what waits goes back before a request fails for want of memory") {
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  DeviceMemory::instance().limit(total - free + 4096);
  CountedDriver device;
  device.keeps_memory = true;
  const auto ask = [&](int64_t bytes) { return device.allocate(bytes, Where::current()); };
  device.release(ask(2048));
  device.release(ask(1024));
  void* const large = ask(4096);
  CHECK(large != nullptr);
  CHECK(contains(message_of([&] { ask(512); }), "no memory left for 512 bytes"));
  device.release(large);
  device.release(ask(2048));
  DeviceMemory::instance().limit(SIZE_MAX);
}
