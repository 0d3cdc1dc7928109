#include "yotta/device/unchanged/runtime_words.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/message_of.hpp"
#include "yotta/device/atomics.hpp"
#include "yotta/device/block_cluster.hpp"
#include "yotta/device/cooperative_groups.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

int table[8];

__global__ void add_table(int* x, int factor) { x[threadIdx.x] += factor * table[threadIdx.x]; }
__global__ void uses_shared(float* x) {
  __shared__ float part[3000];
  part[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = part[threadIdx.x];
}

__global__ void tells_cluster(unsigned* y, long more) {
  y[blockIdx.x] = cluster_size() + static_cast<unsigned>(more);
}
__global__ void meets(unsigned* y) {
  atomicAdd(y, 1u);
  cooperative_groups::this_grid().sync();
  y[1 + blockIdx.x] = y[0];
}

}  // namespace

TEST_CASE("the device is the described chip, and it is the only one") {
  cudaDeviceProp its;
  REQUIRE(cudaGetDeviceProperties(&its, 0) == cudaSuccess);
  CHECK(its.multiProcessorCount == 132);
  CHECK(its.sharedMemPerBlockOptin == 227 * 1024);
  CHECK(its.warpSize == 32);
  CHECK(std::string(its.name).find("h100") != std::string::npos);
  CHECK(cudaGetDeviceProperties(&its, 1) == cudaErrorInvalidDevice);
  int count = 0, number = 0;
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 1);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceGetAttribute(&number, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) == cudaSuccess);
  CHECK(number == 227 * 1024);
}

TEST_CASE("variables of the program are copied to and from, within their bounds") {
  const int values[] = {1, 2, 3};
  int back[2] = {};
  CHECK(cudaMemcpyToSymbol(table, values, sizeof values, sizeof(int)) == cudaSuccess);
  CHECK(cudaMemcpyFromSymbol(back, table, sizeof back, 2 * sizeof(int)) == cudaSuccess);
  CHECK(back[0] == 2);
  CHECK(back[1] == 3);
  CHECK(cudaMemcpyToSymbol(table, values, sizeof values, 6 * sizeof(int)) == cudaErrorInvalidValue);
}

TEST_CASE("variables of the program are copied to and from device memory, within its bounds") {
  const int values[] = {4, 5, 6, 7};
  const DeviceArray<int> x(std::vector<int>(values, values + 4));
  DeviceArray<int> y(2);
  CHECK(cudaMemcpyToSymbol(table, x.data(), sizeof values, 0, cudaMemcpyDeviceToDevice) ==
        cudaSuccess);
  CHECK(cudaMemcpyFromSymbol(y.data(), table, 2 * sizeof(int), sizeof(int),
                             cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(y.to_host() == std::vector<int>{5, 6});
  CHECK(cudaMemcpyFromSymbol(y.data(), table, 3 * sizeof(int), 0, cudaMemcpyDeviceToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyFromSymbol(nullptr, table, sizeof(int)) == cudaErrorInvalidValue);
}

TEST_CASE("__shared__ arrays and dynamic shared memory share the 48 KiB of every kernel") {
  DeviceArray<float> x(std::vector<float>(8, 2.0f));
  float* data = x.data();
  void* arguments[] = {&data};
  const auto run = [&](size_t bytes) { cudaLaunchKernel(uses_shared, 1, 8, arguments, bytes); };
  run(48 * 1024 - 12000);
  CHECK(contains(message_of([&] { run(48 * 1024 - 11999); }),
                 "37153 bytes of dynamic shared memory and 12000 of __shared__ arrays"));
  CHECK(cudaFuncSetAttribute(uses_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 40000) ==
        cudaSuccess);
  run(40000);
  CHECK(x.to_host()[7] == 2.0f);
}

TEST_CASE("a configuration has the clusters of a launch, and whether it is cooperative") {
  DeviceArray<unsigned> y(4);
  cudaLaunchAttribute attribute = {cudaLaunchAttributeClusterDimension, {{2, 1, 1}}};
  cudaLaunchConfig_t configuration = {4, 1, 0, nullptr, &attribute, 1};
  CHECK(cudaLaunchKernelEx(&configuration, tells_cluster, y.data(), 10) == cudaSuccess);
  CHECK(y.to_host() == std::vector<unsigned>(4, 12));
  unsigned* data = y.data();
  long more = 20;
  void* arguments[] = {&data, &more};
  CHECK(cudaLaunchKernelExC(&configuration, tells_cluster, arguments) == cudaSuccess);
  CHECK(y.to_host() == std::vector<unsigned>(4, 22));

  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  configuration.yotta_gridDim = 3;
  y.copy_from(std::vector<unsigned>(4, 0));
  CHECK(cudaLaunchKernelEx(&configuration, meets, y.data()) == cudaSuccess);
  CHECK(y.to_host() == std::vector<unsigned>(4, 3));
  configuration.yotta_gridDim = 5000;  // more than 32 on each of 132
  CHECK(contains(message_of([&] { cudaLaunchKernelEx(&configuration, meets, y.data()); }),
                 "runtime_words_test.cpp"));
}

TEST_CASE("rows of bytes keep their pitch") {
  int* rows = nullptr;
  size_t pitch = 0;
  REQUIRE(cudaMallocPitch(&rows, &pitch, 5 * sizeof(int), 3) == cudaSuccess);
  CHECK(pitch == 512);
  const int host[3][5] = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}};
  int back[3][5] = {};
  CHECK(cudaMemcpy2D(rows, pitch, host, 20, 20, 3, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemset2D(rows, pitch, 0, 8, 2) == cudaSuccess);
  CHECK(cudaMemcpy2D(back, 20, rows, pitch, 20, 3, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(back[0][1] == 0);
  CHECK(back[1][2] == 8);
  CHECK(back[2][0] == 11);
  CHECK(cudaMemset2D(rows, 4, 0, 8, 2) == cudaErrorInvalidValue);
  CHECK(cudaFree(rows) == cudaSuccess);
}

TEST_CASE("managed memory is the host's and the device's, and cudaFree frees it") {
  int* x = nullptr;
  REQUIRE(cudaMallocManaged(&x, 8 * sizeof(int)) == cudaSuccess);
  for (int i = 0; i < 8; ++i) x[i] = i, table[i] = 10;
  void* arguments[2];
  int factor = 2;
  arguments[0] = &x, arguments[1] = &factor;
  CHECK(cudaLaunchKernel(add_table, 1, 8, arguments) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(x[7] == 27);
  CHECK(cudaFree(x) == cudaSuccess);
  CHECK(cudaFree(x) == cudaErrorInvalidValue);
}

TEST_CASE("kernels say what they need, and what fills a multiprocessor") {
  cudaFuncAttributes its;
  CHECK(cudaFuncGetAttributes(&its, uses_shared) == cudaSuccess);
  CHECK(its.sharedSizeBytes == 12000);
  int blocks = 0, threads = 0;
  CHECK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, add_table) == cudaSuccess);
  CHECK(threads == 1024);
  CHECK(blocks == 2 * 132);
  CHECK(cudaFuncSetAttribute(add_table, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024) ==
        cudaErrorInvalidValue);
}

TEST_CASE("the time between two records is never negative, and needs both") {
  cudaEvent_t begin, end;
  float milliseconds = -1;
  CHECK(cudaEventCreate(&begin) == cudaSuccess);
  CHECK(cudaEventCreate(&end) == cudaSuccess);
  CHECK(cudaEventRecord(begin) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(end) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess);
  CHECK(milliseconds >= 0);
  CHECK(cudaEventDestroy(begin) == cudaSuccess);
  CHECK(cudaEventDestroy(end) == cudaSuccess);
}
