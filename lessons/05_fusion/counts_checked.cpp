#include "counts.hpp"

#include "yotta/device/counted.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"

namespace yotta {
namespace {

template <class Real>
__global__ void multiply(Real* x, int times) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  Real value = x[i];
  for (int k = 0; k < times; ++k) value = value * Real(2);
  x[i] = value;
}

}  // namespace

MultiplyCounts count_multiplies(int times) {
  constexpr int n = 512;
  DeviceArray<Counted<float>> x(std::vector<Counted<float>>(n, Counted<float>(1.0f)));
  Profile profile;
  launch(multiply<Counted<float>>, n / 256, 256, 0, nullptr, x.data(), times);
  return {static_cast<double>(profile.global_bytes()) / n,
          static_cast<double>(profile.flops()) / n};
}

}  // namespace yotta
