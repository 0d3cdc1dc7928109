#include "yotta/device/unchanged/cuda_ptx.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;
namespace ptx = cuda::ptx;

namespace {

constexpr int numbers = 64;

// y = 2 x: a tile comes and goes as bulk copies. Each way to wait for a phase is used once.
__global__ void doubles(const int* x, int* y) {
  __shared__ __align__(128) int tile[numbers];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_expect_tx(ptx::sem_relaxed, ptx::scope_cta, ptx::space_shared, &full, 64);
    ptx::cp_async_bulk(ptx::space_shared, ptx::space_global, tile, x, 64, &full);
    const uint64_t state = ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta,
                                                          ptx::space_shared, &full, 192);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile + 16, x + 16, 192, &full);
    while (!ptx::mbarrier_try_wait(&full, state, 100)) continue;
    while (!ptx::mbarrier_test_wait(ptx::sem_acquire, ptx::scope_cta, &full, state)) continue;
  }
  __syncthreads();
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cta, &full, 0)) continue;
  tile[threadIdx.x] *= 2;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x > 0) return;
  ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y, tile, sizeof tile);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}

// The tile is added twice to itself in the tensor, then put there once more, one row lower.
__global__ void adds(const __grid_constant__ CUtensorMap map) {
  __shared__ __align__(128) int tile[numbers];
  __shared__ uint64_t full;
  if (threadIdx.x > 0) return;
  ptx::mbarrier_init(&full, 1);
  ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full,
                                 sizeof tile);
  ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &map, {0, 0}, &full);
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) continue;
  for (int i = 0; i < 2; ++i)
    ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &map,
                                     {0, 0}, tile);
  ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &map, {0, 1}, tile);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}

// Rank 1 arrives at the mbarrier of rank 0, which sees what it wrote there; then both meet.
__global__ void tells_first(uint32_t* out) {
  __shared__ uint32_t value;
  __shared__ uint64_t told;
  if (threadIdx.x == 0) ptx::mbarrier_init(&told, 3);
  ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  if (ptx::get_sreg_cluster_ctarank() == 1 && ptx::get_sreg_laneid() == 0) {
    uint32_t* const there = ptx::mapa(ptx::space_cluster, &value, 0);
    uint64_t* const theirs = ptx::mapa(ptx::space_cluster, &told, 0);
    *there = 10 * ptx::getctarank(ptx::space_cluster, theirs) + ptx::get_sreg_cluster_nctarank();
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, theirs, 2);
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, theirs);
  }
  if (ptx::get_sreg_cluster_ctarank() == 0) {
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &told, 0)) continue;
    out[threadIdx.x] = value;
  }
  ptx::barrier_cluster_arrive(ptx::sem_release);
  ptx::barrier_cluster_wait(ptx::sem_acquire);
}

std::vector<int> counted(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i + 1);
  return all;
}

}  // namespace

TEST_CASE("bulk copies, mbarriers and fences by the names of cuda::ptx") {
  const DeviceArray<int> x(counted(numbers));
  DeviceArray<int> y(numbers);
  launch(doubles, 1, numbers, 0, nullptr, x.data(), y.data());
  std::vector<int> expected = counted(numbers);
  for (int& each : expected) each *= 2;
  CHECK(y.to_host() == expected);
}

TEST_CASE("copies and reductions by a tensor map by the names of cuda::ptx") {
  DeviceArray<int> x(counted(2 * numbers));
  launch(adds, 1, 32, 0, nullptr, tensor_map(x.data(), {2, numbers}, {1, numbers}, Swizzle::none));
  const std::vector<int> got = x.to_host();
  for (int i = 0; i < numbers; ++i) {
    CHECK(got[static_cast<size_t>(i)] == 3 * (i + 1));
    CHECK(got[static_cast<size_t>(numbers + i)] == i + 1);
  }
}

TEST_CASE("clusters by the names of cuda::ptx") {
  DeviceArray<uint32_t> out(32);
  launch_cluster(tells_first, 2, 2, 32, 0, nullptr, out.data());
  CHECK(out.to_host() == std::vector<uint32_t>(32, 2));
}
