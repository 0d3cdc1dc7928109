#include "yotta/core/system/accelerator.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/core/tensor.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// A device that is the host's memory and counts what it is asked for.
struct HostDevice : Accelerator {
  int allocations = 0, to_device = 0, to_host = 0, on_device = 0;
  void* allocate(int64_t bytes, Where) override {
    ++allocations;
    return ::operator new(static_cast<size_t>(bytes));
  }
  void release(void* memory) noexcept override { ::operator delete(memory); }
  void copy(void* to, const void* from, int64_t bytes, Transfer transfer) override {
    ++(transfer == Transfer::to_device ? to_device
       : transfer == Transfer::to_host ? to_host
                                       : on_device);
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void copy_rows(void*, int64_t, const void*, int64_t, int64_t, int64_t) override {}
  void zero(void* memory, int64_t bytes) override {
    std::memset(memory, 0, static_cast<size_t>(bytes));
  }
  void wait(Where) override {}
  std::unique_ptr<RecordedWork> record(const std::function<void()>&, Where) override {
    return nullptr;
  }
  LateFinding* finding(Where) override { return nullptr; }
};

struct Installed {
  HostDevice device;
  Installed() { accelerator() = &device; }
  ~Installed() { accelerator() = nullptr; }
};

struct Double {
  float* x;
  template <class Count>
  void operator()(int64_t i, Count) const {
    x[i] *= 2;
  }
};

}  // namespace

TEST_CASE("without CUDA a tensor on cuda is refused in one line") {
  const DeviceScope scope(Device::cuda);
  const std::string message = message_of([] { Tensor::zeros({2}); });
  CHECK(contains(message, "this build has no CUDA tensors; use Device::cpu or Device::meta"));
  CHECK(message.find('\n') == std::string::npos);
  CHECK(contains(message_of([] { accelerator_or_fail(Where::current()); }), "no CUDA tensors"));
}

TEST_CASE("tensors on cuda: made, filled, copied both ways, converted, counted") {
  Installed installed;
  RankContext rank;
  const ContextScope context_scope(rank);
  const Tensor host = Tensor::from<float>({1, 2.00390625f, 3, 4}, {2, 2});
  {
    const Tensor x = host.to(Device::cuda);
    CHECK(x.describe() == "(2, 2) f32 on cuda");
    CHECK(x.values() == host.values());
    CHECK(x.item({1, 0}) == 3);
    CHECK(x.rows(1, 2).values() == std::vector<double>{3, 4});
    CHECK(rank.ledger.memory()->live() == 32);
    Tensor y = x.clone();
    y.fill(5);
    CHECK(y.values() == std::vector<double>{5, 5, 5, 5});
    y.zero();
    CHECK(y.values() == std::vector<double>{0, 0, 0, 0});
    y.copy_from(host);
    CHECK(y.values() == host.values());
    Tensor back = Tensor::zeros({2, 2});
    back.copy_from(y);
    CHECK(back.values() == host.values());
    CHECK(installed.device.on_device == 1);  // clone
    // f64 has no kernel of its own: by way of the host; so has f32 to bf16 from another device
    CHECK(x.to(DType::f64).values() == host.values());
    Tensor narrow = Tensor::zeros({2, 2}, DType::bf16);
    narrow.copy_from(x);
    CHECK(narrow.values() == std::vector<double>{1, 2, 3, 4});
    const DeviceScope scope(Device::cuda);
    CHECK(Tensor::from<int32_t>({7, 8}, {2}).values() == std::vector<double>{7, 8});
    CHECK(Tensor::full({2}, 9).device() == Device::cuda);
  }
  CHECK(rank.ledger.memory()->live() == 16);
}

TEST_CASE("the host does not read a tensor on cuda, nor a kernel one on the host") {
  Installed installed;
  Tensor x = Tensor::zeros({2}).to(Device::cuda);
  CHECK(contains(message_of([&] { x.data<float>(); }),
                 "(2) f32 on cuda was read on cpu; copy it with .to(Device::cpu)"));
  CHECK(contains(message_of([&] { x.span<float>(); }), "was read on cpu"));
  CHECK(x.address<float>(Device::cuda) == x.raw());
  CHECK(contains(message_of([] { Tensor::zeros({2}).address<float>(Device::cuda); }),
                 "(2) f32 was read on cuda; copy it with .to(Device::cuda)"));
  CHECK(contains(message_of([&] { x.address<double>(Device::cuda); }), "was read as f64"));
}

TEST_CASE("a body runs by the kernel in its slot, or says that there is none") {
  float numbers[] = {1, 2, 3};
  const Double body{numbers};
  CHECK(contains(message_of([&] { run_kernel("doubling", body, 3, Where::current()); }),
                 "doubling: this build has no kernel for it; copy its tensors with"));
  KernelOf<Double>::launch = [](const Double& each, int64_t items, Where) {
    for (int64_t i = 0; i < items; ++i) each(i, OneLane{});
  };
  run_kernel("doubling", body, 2, Where::current());
  run_kernel("doubling", body, 0, Where::current());
  KernelOf<Double>::launch = nullptr;
  CHECK(numbers[0] == 2);
  CHECK(numbers[1] == 4);
  CHECK(numbers[2] == 3);
}
