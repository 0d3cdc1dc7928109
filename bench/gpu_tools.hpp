// What the benchmarks on a GPU share; read by nvcc, and for the emulator.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "yotta/core/random.hpp"
#include "yotta/device/device_memory.hpp"

namespace yotta::bench {

inline void check_cublas(cublasStatus_t status, Where where = Where::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(where, "cuBLAS: {}", cublasGetStatusString(status));
}

// cuBLAS's handle.
class Cublas {
 public:
  Cublas() { check_cublas(cublasCreate(&handle_)); }
  ~Cublas() { cublasDestroy(handle_); }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  operator cublasHandle_t() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

// The first GPU's name; empty if there is none.
inline std::string first_gpu() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return "";
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, 0));
  return properties.name;
}

// Seconds of the host that a body takes.
template <class Body>
double seconds_of(const Body& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Seconds of the GPU that so many calls of run() take, one after the other in the default stream,
// between two events. The host waits once, at the end.
template <class Run>
double seconds_by_events(int calls, const Run& run) {
  struct Event {
    cudaEvent_t made = nullptr;
    Event() { check_cuda(cudaEventCreate(&made)); }
    ~Event() { cudaEventDestroy(made); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
  };
  const Event begin, end;
  check_cuda(cudaEventRecord(begin.made, nullptr));
  for (int i = 0; i < calls; ++i) run();
  check_cuda(cudaEventRecord(end.made, nullptr));
  check_cuda(cudaEventSynchronize(end.made));
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, begin.made, end.made));
  return milliseconds * 1e-3;
}

// Numbers from -0.5 to 0.5, times `scale`.
template <class T>
std::vector<T> random_numbers(size_t count, const char* name, double scale = 1) {
  const Random random(1, name);
  std::vector<T> x(count);
  for (size_t i = 0; i < count; ++i)
    x[i] = T(static_cast<float>(scale * (random.uniform(i) - 0.5)));
  return x;
}

// The largest difference, relative to the largest number of y.
template <class T, class U>
double largest_difference(const std::vector<T>& x, const std::vector<U>& y) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    if (!(d <= difference)) difference = d;  // a NaN stays
    largest = std::fmax(largest, std::abs(static_cast<double>(y[i])));
  }
  return difference / largest;
}

}  // namespace yotta::bench
