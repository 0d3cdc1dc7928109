// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/block_cluster.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/hopper_here.hpp"
#include "support/kernel_error.hpp"
#include "yotta/device/atomics.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

// Which block of the grid has which rank.
__global__ void tells_ranks(uint32_t* ranks) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  if (threadIdx.x == 0) ranks[block] = 100 * cluster_size() + cluster_rank();
}

// Each block reads what the next one of its cluster has written, in static and dynamic shared
// memory, and writes into the one after that.
__global__ void passes_on(int* out) {
  __shared__ int number[32], given[32];
  int* const more = dynamic_shared<int>();
  const uint32_t rank = cluster_rank(), size = cluster_size();
  const int lane = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  number[lane] = 100 * block + lane;
  more[lane] = 1000;
  cluster_sync();
  const int of_next = *map_shared(number + lane, (rank + 1) % size);
  map_shared(given, (rank + 2) % size)[31 - lane] = of_next;
  atomicAdd(map_shared(more + lane, 0), 1);
  cluster_sync();
  out[32 * block + lane] = given[lane] + more[lane];
}

// Rank 0 hands numbers to the others, one after the other, through a place in their shared memory:
// mbarriers say that it is full, and that it is free again.
__global__ void hands_over(int rounds, int* sums) {
  __shared__ int place;
  __shared__ uint64_t full, empty;
  const uint32_t rank = cluster_rank(), size = cluster_size();
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init(&empty, size - 1);
    fence_mbarrier_init();
  }
  cluster_sync();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < rounds; ++i) {
      const auto parity = static_cast<uint32_t>(i % 2);
      if (rank == 0) {
        while (!mbarrier_try_wait_parity_cluster(&empty, 1 - parity)) continue;
        for (uint32_t other = 1; other < size; ++other) {
          *map_shared(&place, other) = i + static_cast<int>(other);
          mbarrier_arrive_at(&full, other);
        }
      } else {
        while (!mbarrier_try_wait_parity_cluster(&full, parity)) continue;
        sum += place;
        mbarrier_arrive_at(&empty, 0);
      }
    }
    sums[blockIdx.x] = sum;
  }
  cluster_sync();
}

// Between its arrival and its wait a block does something else.
__global__ void arrives_early(int* out) {
  __shared__ int number;
  if (threadIdx.x == 0) number = static_cast<int>(blockIdx.x) + 5;
  cluster_arrive();
  const int own = static_cast<int>(threadIdx.x);
  cluster_wait();
  const int other = *map_shared(&number, 1 - cluster_rank());
  cluster_arrive();
  out[blockIdx.x * blockDim.x + threadIdx.x] = own + other;
  cluster_wait();
}

}  // namespace

TEST_CASE("clusters: blocks that are neighbours in the grid, ranks along x first" *
          doctest::skip(!hopper_is_here())) {
  DeviceArray<uint32_t> ranks(4 * 2 * 2);
  launch_cluster(tells_ranks, {4, 2, 2}, {2, 2}, 32, 0, nullptr, ranks.data());
  const std::vector<uint32_t> got = ranks.to_host();
  for (uint32_t z = 0; z < 2; ++z)
    for (uint32_t y = 0; y < 2; ++y)
      for (uint32_t x = 0; x < 4; ++x) CHECK(got[x + 4 * (y + 2 * z)] == 400 + x % 2 + 2 * y);
  launch(tells_ranks, 3, 32, 0, nullptr, ranks.data());
  CHECK(ranks.to_host()[2] == 100);
}

TEST_CASE("clusters: blocks read, write and add in each other's shared memory" *
          doctest::skip(!hopper_is_here())) {
  for (const int size : {1, 2, 4, 8}) {
    CAPTURE(size);
    DeviceArray<int> out(16 * 32);
    launch_cluster(passes_on, 16, size, 32, 128, nullptr, out.data());
    const std::vector<int> got = out.to_host();
    int wrong = 0;
    for (int block = 0; block < 16; ++block)
      for (int lane = 0; lane < 32; ++lane) {
        const int first = block / size * size, rank = block % size;
        const int next = first + (rank + 2 * size - 1) % size;  // of the one two before it
        const int added = rank == 0 ? size : 0;
        wrong +=
            got[static_cast<size_t>(32 * block + lane)] != 100 * next + 31 - lane + 1000 + added;
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("clusters: mbarriers of other blocks" * doctest::skip(!hopper_is_here())) {
  constexpr int rounds = 50;
  for (const int size : {2, 3, 8}) {
    DeviceArray<int> sums(static_cast<size_t>(size * 3));
    launch_cluster(hands_over, size * 3, size, 64, 0, nullptr, rounds, sums.data());
    const std::vector<int> got = sums.to_host();
    for (int block = 0; block < 3 * size; ++block) {
      const int rank = block % size;
      CHECK(got[static_cast<size_t>(block)] ==
            (rank == 0 ? 0 : rounds * (rounds - 1) / 2 + rounds * rank));
    }
  }
}

TEST_CASE("clusters: arriving and waiting are two steps" * doctest::skip(!hopper_is_here())) {
  DeviceArray<int> out(4 * 64);
  launch_cluster(arrives_early, 4, 2, 64, 0, nullptr, out.data());
  const std::vector<int> got = out.to_host();
  for (int block = 0; block < 4; ++block)
    for (int thread = 0; thread < 64; ++thread)
      CHECK(got[static_cast<size_t>(64 * block + thread)] == thread + (block ^ 1) + 5);
}

#if !defined(__CUDACC__)
namespace {

enum class Wrong { rank, no_shared, own_rank, twice, no_arrival, in_a_launch };
__global__ void misuses(Wrong wrong, int* out) {
  __shared__ int number;
  number = 1;
  if (wrong == Wrong::rank) *out = *map_shared(&number, 2);               // line: rank
  if (wrong == Wrong::no_shared) *out = *map_shared(out, 1);              // line: no shared
  if (wrong == Wrong::own_rank) *out = *map_shared(out, cluster_rank());  // line: own rank
  if (wrong == Wrong::in_a_launch) *out = *map_shared(&number, 1);        // line: launch
  if (wrong == Wrong::no_arrival) cluster_wait();                         // line: wait
  cluster_arrive();
  if (wrong == Wrong::twice) cluster_arrive();  // line: twice
  cluster_wait();
}

}  // namespace

TEST_CASE("clusters: misuse is named") {
  DeviceArray<int> out(1);
  const auto run = [&](Wrong wrong) {
    return error_of([&] {
      if (wrong == Wrong::in_a_launch)
        launch(misuses, 2, 1, 0, nullptr, wrong, out.data());
      else
        launch_cluster(misuses, 2, 2, 1, 0, nullptr, wrong, out.data());
    });
  };
  check_says(run(Wrong::rank), {line_at("rank"), "rank 2: the cluster has 2 blocks"});
  check_says(run(Wrong::no_shared), {line_at("no shared"), "not in this block's shared memory"});
  check_says(run(Wrong::own_rank), {line_at("own rank"), "not in this block's shared memory"});
  check_says(run(Wrong::twice), {line_at("twice"), "for the second time"});
  check_says(run(Wrong::no_arrival), {line_at("wait"), "without a cluster_arrive() before it"});
  check_says(run(Wrong::in_a_launch),
             {line_at("launch"), "the cluster has 1 blocks", "launch_cluster()"});
}

TEST_CASE("clusters: sizes that no GPU runs are refused") {
  DeviceArray<uint32_t> ranks(64);
  const auto run = [&](dim3 grid, dim3 cluster) {
    return error_of(
        [&] { launch_cluster(tells_ranks, grid, cluster, 32, 0, nullptr, ranks.data()); });
  };
  CHECK(run({8, 1}, {8, 1}) == "no error");
  check_says(run({16, 1}, {16, 1}), {"a cluster of (16, 1, 1) has 16 blocks", "1 to 8"});
  check_says(run({8, 3}, {2, 2}), {"a grid of (8, 3, 1) blocks in clusters of (2, 2, 1)"});
}

TEST_CASE("clusters: blocks that do not fit on the chip together are refused") {
  DeviceArray<uint32_t> ranks(2);
  emulator_options().chip.count = 1;
  const std::string error =
      error_of([&] { launch_cluster(tells_ranks, 2, 2, 32, 200 * 1024, nullptr, ranks.data()); });
  emulator_options() = {};
  check_says(error, {"a cluster has 2 blocks, which must be there together", "1 blocks fit on",
                     "Use smaller clusters, or less shared memory a block"});
}
#endif
