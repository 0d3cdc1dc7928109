// What the source step writes, by hand.
#include "yotta/device/unchanged/launch_syntax.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "support/message_of.hpp"
#include "yotta/device/block_cluster.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/unchanged/runtime_words.hpp"

using namespace yotta;
using namespace yotta_test;
using emulator::launch_call;
using emulator::LaunchShape;

namespace {

template <class T, int n>
__global__ __attribute__((noinline)) void sums(const T* x, T* y) {
  if (emulator::kernel_is_asked()) return;
  __shared__ T part[n];
  part[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x > 0) return;
  T sum = 0;
  for (int i = 0; i < n; ++i) sum += part[i];
  y[blockIdx.x] = sum;
}

__global__ __attribute__((noinline)) void fills(float* y, float value) {
  if (emulator::kernel_is_asked()) return;
  auto* const part = dynamic_shared<float>();
  part[threadIdx.x] = value;
  y[threadIdx.x] = part[threadIdx.x];
}

__global__ __attribute__((noinline)) void fails(int* y) {
  if (emulator::kernel_is_asked()) return;
  __shared__ int too_large[13000];
  too_large[threadIdx.x] = 1;
  y[0] = too_large[0];
}

// __launch_bounds__(64, 1, 2) __cluster_dims__(n)
template <unsigned n>
__global__ __attribute__((noinline)) void tells_cluster(unsigned* y) {
  if (emulator::kernel_is_asked(
          emulator::KernelAttributes().launch_bounds(64, 1, 2).cluster_dims(n)))
    return;
  y[blockIdx.x] = cluster_size();
}
// __launch_bounds__(64)
__global__ __attribute__((noinline)) void is_bounded(unsigned* y) {
  if (emulator::kernel_is_asked(emulator::KernelAttributes().launch_bounds(64))) return;
  y[blockIdx.x] = blockDim.x;
}

constexpr emulator::DynamicArray<float> outside{};
__global__ __attribute__((noinline)) void uses_outside(float* y) {
  if (emulator::kernel_is_asked()) return;
  outside[threadIdx.x] = 3.0f;
  y[threadIdx.x] = *(outside + threadIdx.x) + emulator::decayed(outside)[threadIdx.x];
}

}  // namespace

TEST_CASE("a template's types are deduced from the arguments of a launch") {
  const DeviceArray<double> x(std::vector<double>(32, 0.5));
  DeviceArray<double> y(3);
  const auto call = [](auto... a) { sums<double, 32>(a...); };
  launch_call(call, LaunchShape(3, 32))(x.data(), y.data());
  CHECK(y.to_host() == std::vector<double>(3, 16.0));
}

TEST_CASE("a launch on a stream may run later: it keeps its arguments") {
  DeviceArray<float> y(16);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  launch_call([](auto... a) { fills(a...); }, LaunchShape(1, dim3(16), 64, stream))(y.data(), 7.0f);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(y.to_host() == std::vector<float>(16, 7.0f));
}

TEST_CASE("the emulator finds the kernel that a call leads to") {
  DeviceArray<int> y(1);
  const std::string message = message_of(
      [&] { launch_call([](auto... a) { fails(a...); }, LaunchShape(1, 32))(y.data()); });
  CHECK(contains(message, "too much shared memory: the kernel's __shared__ arrays take 52000"));
}

TEST_CASE("more than 48 KiB of dynamic shared memory must be allowed first") {
  DeviceArray<float> y(16);
  const auto run = [&] {
    launch_call([](auto... a) { fills(a...); }, LaunchShape(1, 16, 50000))(y.data(), 1.0f);
  };
  CHECK(contains(message_of(run), "call cudaFuncSetAttribute(kernel, "));
  CHECK(cudaFuncSetAttribute(fills, cudaFuncAttributeMaxDynamicSharedMemorySize, 50000) ==
        cudaSuccess);
  run();
  CHECK(y.to_host()[15] == 1.0f);
}

TEST_CASE("a kernel with the dimensions of its cluster is launched in such clusters") {
  DeviceArray<unsigned> y(4);
  launch_call([](auto... a) { tells_cluster<2>(a...); }, LaunchShape(4, 32))(y.data());
  CHECK(y.to_host() == std::vector<unsigned>(4, 2));
  CHECK(contains(message_of([&] {
                   launch_call([](auto... a) { tells_cluster<4>(a...); },
                               LaunchShape(4, 32))(y.data());
                 }),
                 "a launch of 4 blocks in a cluster, and the kernel's __launch_bounds__ allows 2"));
}

TEST_CASE("functions that launch need not name the cluster, and must not name another") {
  DeviceArray<unsigned> y(4);
  unsigned* data = y.data();
  void* arguments[] = {&data};
  const auto clusters = [&] {
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    const std::vector<unsigned> all = y.to_host();
    y.copy_from(std::vector<unsigned>(4, 0));
    return all;
  };
  const std::vector<unsigned> own(4, 2);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  for (const cudaStream_t each : {cudaStream_t{}, stream}) {
    cudaLaunchKernel(tells_cluster<2>, 4, 32, arguments, 0, each);
    CHECK(clusters() == own);
    cudaLaunchCooperativeKernel(tells_cluster<2>, 4, 32, arguments, 0, each);
    CHECK(clusters() == own);
  }
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  cudaLaunchAttribute attribute = {cudaLaunchAttributeClusterDimension, {{1, 1, 1}}};
  cudaLaunchConfig_t configuration = {4, 32, 0, nullptr, &attribute, 0};
  cudaLaunchKernelEx(&configuration, tells_cluster<2>, data);
  CHECK(clusters() == own);
  configuration.numAttrs = 1;
  CHECK(contains(message_of([&] { cudaLaunchKernelEx(&configuration, tells_cluster<2>, data); }),
                 "a launch in clusters of (1, 1, 1), and the kernel's __cluster_dims__ says "
                 "(2, 1, 1)"));
}

TEST_CASE("a launch of more threads than __launch_bounds__ allows is refused") {
  DeviceArray<unsigned> y(1);
  const auto run = [&](unsigned threads) {
    launch_call([](auto... a) { is_bounded(a...); }, LaunchShape(1, threads))(y.data());
  };
  run(64);
  CHECK(y.to_host()[0] == 64);
  CHECK(
      contains(message_of([&] { run(65); }),
               "a launch of 65 threads in a block, and the kernel's __launch_bounds__ allows 64"));
}

TEST_CASE("a variable with the name of dynamic shared memory stays what it is") {
  int number = 3;
  std::vector<float> list(4);
  CHECK(&emulator::decayed(number) == &number);
  CHECK(&emulator::decayed(list) == &list);
  static_assert(std::is_same_v<decltype(emulator::decayed(true)), bool&&>);
  static_assert(std::is_same_v<decltype(emulator::decayed(outside)), float*>);
}

TEST_CASE("dynamic shared memory that is declared outside of functions") {
  DeviceArray<float> y(16);
  launch_call([](auto... a) { uses_outside(a...); }, LaunchShape(1, 16, 64))(y.data());
  CHECK(y.to_host() == std::vector<float>(16, 6.0f));
}
