#include "yotta/device/cuda/cuda_accelerator.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/core/tensor.hpp"

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
