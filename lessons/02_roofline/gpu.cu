#include "gpu.hpp"

#include "yotta/device/device_memory.hpp"

namespace yotta {
namespace {

constexpr int steps = 4096,
              chains = 8;  // eight sums per thread, so that none waits for its own last one

// Multiplies and adds in registers, and writes so little that it cannot be optimised away.
__global__ void multiply_add(float* x, float factor) {
  float sums[chains];
  for (int i = 0; i < chains; ++i) sums[i] = static_cast<float>(threadIdx.x + i);
  for (int step = 0; step < steps; ++step)
    for (int i = 0; i < chains; ++i) sums[i] = sums[i] * factor + 1.0f;
  float total = 0;
  for (int i = 0; i < chains; ++i) total += sums[i];
  if (total == 0.12345f) x[threadIdx.x] = total;
}

// y = 2 x, sixteen bytes per thread and step.
__global__ void stream(const float4* x, float4* y, size_t n) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float4 four = x[i];
    y[i] = make_float4(2 * four.x, 2 * four.y, 2 * four.z, 2 * four.w);
  }
}

}  // namespace

std::optional<GpuRates> measure_gpu(const Shortest& shortest_seconds) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return std::nullopt;
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, 0));
  const auto blocks = static_cast<unsigned>(8 * properties.multiProcessorCount);
  const size_t count = size_t{1} << 28;  // 1 GiB each, far beyond any cache
  DeviceArray<float> x(count), y(count);
  const double fma_seconds = shortest_seconds([&] {
    launch(multiply_add, blocks, 256, 0, nullptr, x.data(), 0.5f);
    check_cuda(cudaDeviceSynchronize());
  });
  const double stream_seconds = shortest_seconds([&] {
    launch(stream, blocks, 256, 0, nullptr, reinterpret_cast<const float4*>(x.data()),
           reinterpret_cast<float4*>(y.data()), count / 4);
    check_cuda(cudaDeviceSynchronize());
  });
  return GpuRates{properties.name, 2.0 * blocks * 256 * steps * chains / fma_seconds,
                  2.0 * 4.0 * static_cast<double>(count) / stream_seconds};
}

}  // namespace yotta
