#include "yotta/device/unchanged/groups.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/message_of.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;
using namespace yotta_test;
namespace cg = cooperative_groups;

namespace {

__global__ void tiles(int* y) {
  const cg::thread_block block = cg::this_thread_block();
  const cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
  const int mine = static_cast<int>(block.thread_rank());
  int* const out = y + 10 * mine;
  out[0] = static_cast<int>(tile.thread_rank());
  out[1] = static_cast<int>(tile.meta_group_rank());
  out[2] = tile.shfl(mine, 3);
  out[3] = tile.shfl_down(mine, 2);
  out[4] = tile.shfl_up(mine, 2);
  out[5] = tile.shfl_xor(mine, 5);
  out[6] = static_cast<int>(tile.ballot(mine % 2));
  out[7] = cg::reduce(tile, mine, cg::plus<int>());
  out[8] = cg::inclusive_scan(tile, mine);
  out[9] = cg::exclusive_scan(tile, mine, cg::greater<int>());
}

// Every third thread counts those before it.
__global__ void together(int* y, int* leaders) {
  if (threadIdx.x % 3 != 0) return;
  const cg::coalesced_group group = cg::coalesced_threads();
  y[threadIdx.x] = static_cast<int>(100 * group.size() + group.thread_rank());
  leaders[threadIdx.x] = group.shfl(static_cast<int>(threadIdx.x), 1);
}

__device__ void sum_of_group(const cg::thread_group& group, int* part) {
  for (unsigned half = group.size() / 2; half > 0; half /= 2) {
    if (group.thread_rank() < half) part[group.thread_rank()] += part[group.thread_rank() + half];
    group.sync();
  }
}

__global__ void any_group(int* sums) {
  __shared__ int part[64];
  part[threadIdx.x] = static_cast<int>(threadIdx.x);
  const cg::thread_block block = cg::this_thread_block();
  const cg::thread_group tile = cg::tiled_partition(block, 16);
  block.sync();
  sum_of_group(tile, part + threadIdx.x / 16 * 16);
  if (tile.thread_rank() == 0) sums[threadIdx.x / 16] = part[threadIdx.x];
  block.sync();
  sum_of_group(block, part);
}

__global__ void tiles_of_tiles(int* y) {
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const auto tile = cg::tiled_partition<8>(warp);
  const cg::thread_block_tile<8> plain = tile;
  const int mine = static_cast<int>(threadIdx.x);
  int* const out = y + 5 * mine;
  out[0] = static_cast<int>(tile.meta_group_rank());
  out[1] = static_cast<int>(tile.meta_group_size());
  out[2] = static_cast<int>(plain.meta_group_rank());
  out[3] = tile.shfl(mine, 11);
  out[4] = static_cast<int>(warp.meta_group_rank());
}

// Every third thread; four of them make a part, the last has three.
__global__ void parts_of_those_together(int* y) {
  if (threadIdx.x % 3 != 0) return;
  const cg::coalesced_group part = cg::tiled_partition(cg::coalesced_threads(), 4);
  const cg::thread_group any = cg::coalesced_threads();
  int* const out = y + 5 * threadIdx.x;
  out[0] = static_cast<int>(part.thread_rank());
  out[1] = static_cast<int>(part.size());
  out[2] = static_cast<int>(part.meta_group_rank());
  out[3] = static_cast<int>(part.meta_group_size());
  out[4] = static_cast<int>(cg::tiled_partition(any, 2).size());
}

}  // namespace

TEST_CASE("a tile of a tile counts within that one, and ranks beyond it begin anew") {
  DeviceArray<int> y(320);
  launch(tiles_of_tiles, 1, 64, 0, nullptr, y.data());
  const std::vector<int> got = y.to_host();
  for (int i = 0; i < 64; ++i) {
    const int expected[] = {i % 32 / 8, 4, i % 32 / 8, i / 8 * 8 + 3, i / 32};
    for (int k = 0; k < 5; ++k) {
      CAPTURE(i);
      CAPTURE(k);
      CHECK(got[static_cast<size_t>(5 * i + k)] == expected[k]);
    }
  }
}

TEST_CASE("lanes that are together are cut by their ranks") {
  DeviceArray<int> y(std::vector<int>(160, -1));
  launch(parts_of_those_together, 1, 32, 0, nullptr, y.data());
  const std::vector<int> got = y.to_host();
  for (int rank = 0; rank < 11; ++rank) {
    const int expected[] = {rank % 4, rank < 8 ? 4 : 3, rank / 4, 3, rank < 10 ? 2 : 1};
    for (int k = 0; k < 5; ++k) {
      CAPTURE(rank);
      CAPTURE(k);
      CHECK(got[static_cast<size_t>(15 * rank + k)] == expected[k]);
    }
  }
}

TEST_CASE("a tile's lanes have ranks of their own, and exchange values by rank") {
  DeviceArray<int> y(640);
  launch(tiles, 1, 64, 0, nullptr, y.data());
  const std::vector<int> got = y.to_host();
  for (int i = 0; i < 64; ++i) {
    const int rank = i % 8, first = i - rank;
    int sum = 0, before = 0;
    for (int k = 0; k < 8; ++k) sum += first + k;
    for (int k = 0; k <= rank; ++k) before += first + k;
    const int expected[] = {
        rank, i / 8, first + 3, rank < 6 ? i + 2 : i, rank < 2 ? i : i - 2, first + (rank ^ 5),
        0xaa, sum,   before,    rank == 0 ? 0 : i - 1};
    for (int k = 0; k < 10; ++k) {
      CAPTURE(i);
      CAPTURE(k);
      CHECK(got[static_cast<size_t>(10 * i + k)] == expected[k]);
    }
  }
}

TEST_CASE("lanes that are together count themselves") {
  DeviceArray<int> y(std::vector<int>(32, -1)), leaders(32);
  launch(together, 1, 32, 0, nullptr, y.data(), leaders.data());
  for (int i = 0; i < 32; i += 3) {
    CHECK(y.to_host()[static_cast<size_t>(i)] == 1100 + i / 3);
    CHECK(leaders.to_host()[static_cast<size_t>(i)] == 3);
  }
}

TEST_CASE("on the host, words of kernels say that they are for kernels") {
  int x = 0;
  const auto check = [](const std::string& word, auto use) {
    const std::string message = message_of(use);
    INFO(message);
    CHECK(contains(message, word + " is used on the host, outside of any kernel"));
    CHECK(contains(message, "groups_test.cpp:"));
  };
  check("threadIdx", [] { static_cast<void>(threadIdx.x); });
  check("blockIdx", [] { static_cast<void>(blockIdx.y); });
  check("blockDim", [] { static_cast<void>(blockDim.x); });
  check("gridDim", [] { static_cast<void>(gridDim.z); });
  check("__syncthreads()", [] { cg::this_thread_block().sync(); });
  check("threadIdx", [] { cg::this_thread_block().thread_rank(); });
  check("threadIdx", [] { cg::this_thread_block().thread_index(); });
  check("blockIdx", [] { cg::this_thread_block().group_index(); });
  check("blockDim", [] { cg::this_thread_block().num_threads(); });
  check("blockDim", [] { cg::this_thread_block().size(); });
  check("blockDim", [] { cg::this_thread_block().group_dim(); });
  check("blockDim", [] { cg::this_thread_block().dim_threads(); });
  check("blockDim", [] { cg::thread_group(cg::this_thread_block()).size(); });
  check("threadIdx", [] { cg::thread_group(cg::this_thread_block()).thread_rank(); });
  check("__syncthreads_count()", [] { __syncthreads_count(1); });
  check("__syncthreads_and()", [] { __syncthreads_and(1); });
  check("__syncwarp()", [] { __syncwarp(); });
  check("the number of a lane", [] { __shfl_sync(0xffffffffu, 1, 0); });
  check("the number of a lane", [] { __shfl_xor_sync(0xffffffffu, 1, 1); });
  check("__ballot_sync()", [] { __ballot_sync(0xffffffffu, 1); });
  check("__activemask()", [] { cg::coalesced_threads(); });
  check("__threadfence()", [] { __threadfence(); });
  check("__threadfence_block()", [] { __threadfence_block(); });
  check("this_grid().sync()", [] { cg::this_grid().sync(); });
  check("dynamic shared memory", [] { dynamic_shared<float>(); });
  check("an atomic operation", [&] { atomicCAS(&x, 0, 1); });
}

TEST_CASE("a function takes a group of any kind") {
  DeviceArray<int> sums(4);
  launch(any_group, 1, 64, 0, nullptr, sums.data());
  CHECK(sums.to_host() == std::vector<int>{120, 376, 632, 888});
}
