#include "gpu_matmul.hpp"

#include <cublas_v2.h>

#include <cmath>

#include "yotta/core/random.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/matmul_rungs.hpp"

namespace yotta::bench {
namespace {

void check_cublas(cublasStatus_t status, Where where = Where::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(where, "cuBLAS: {}", cublasGetStatusString(status));
}

std::vector<float> random_numbers(size_t count, const char* name) {
  const Random random(1, name);
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(random.uniform(i) - 0.5);
  return x;
}

double largest_difference(const std::vector<float>& x, const std::vector<float>& y) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    if (!(d <= difference)) difference = d;  // a NaN stays
    largest = std::fmax(largest, std::abs(static_cast<double>(y[i])));
  }
  return difference / largest;
}

// Rows of C are columns of C' = B' A', which is how cuBLAS, column by column, sees it.
class Cublas {
 public:
  Cublas() { check_cublas(cublasCreate(&handle_)); }
  ~Cublas() { cublasDestroy(handle_); }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  void multiply(const float* a, const float* b, float* c, int n) {
    const float one = 1, zero = 0;
    check_cublas(
        cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, n, a, n, &zero, c, n));
  }

 private:
  cublasHandle_t handle_ = nullptr;
};

}  // namespace

std::string gpu_name() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return "";
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, 0));
  return properties.name;
}

std::vector<GpuMatmul> measure_gpu_matmul(int size, const Shortest& shortest_seconds) {
  const size_t count = static_cast<size_t>(size) * static_cast<size_t>(size);
  const DeviceArray<float> a(random_numbers(count, "a")), b(random_numbers(count, "b"));
  DeviceArray<float> c(count);
  const auto tflops = [&](auto multiply) {
    const double best = shortest_seconds([&] {
      multiply();
      check_cuda(cudaDeviceSynchronize());
    });
    return matmul_flops(size, size, size) / best * 1e-12;
  };
  Cublas cublas;
  std::vector<GpuMatmul> rows;
  rows.push_back(
      {"cuBLAS", size, tflops([&] { cublas.multiply(a.data(), b.data(), c.data(), size); }), 0});
  const std::vector<float> expected = c.to_host();
  for (const MatmulRung& rung : matmul_rungs) {
    check_cuda(cudaMemset(c.data(), 0xff, count * sizeof(float)));  // NaN: nothing may be left over
    const double rate =
        tflops([&] { rung.run(a.data(), b.data(), c.data(), size, size, size, nullptr); });
    rows.push_back({rung.name, size, rate, largest_difference(c.to_host(), expected)});
  }
  return rows;
}

}  // namespace yotta::bench
