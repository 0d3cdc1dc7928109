#include "yotta/nn/cpu/zero_gradients.hpp"

#include <doctest/doctest.h>

#include "yotta/device/emulator/stream_queue.hpp"
#include "yotta/nn/cuda/cuda_kernels.hpp"

using namespace yotta;

TEST_CASE("gradients of several parameters become zeros, on a GPU by one launch a type") {
  install_accelerator();
  install_kernels();
  for (const Device device : {Device::cpu, Device::cuda}) {
    const DeviceScope scope(device);
    std::vector<ParameterPtr> all;
    for (const DType dtype : {DType::f32, DType::f64, DType::f32}) {
      all.push_back(std::make_shared<Parameter>());
      all.back()->grad = Tensor::full({300}, 2, dtype);
    }
    all.push_back(std::make_shared<Parameter>());  // has no gradient yet
    const uint64_t before = StreamQueue::instance().launches;
    zero_gradients(all);
    CHECK(StreamQueue::instance().launches - before == (device == Device::cuda ? 2 : 0));
    for (size_t i = 0; i < 3; ++i) CHECK(all[i]->grad.values() == std::vector<double>(300, 0));
    CHECK_FALSE(all[3]->grad.defined());
  }
}
