#include "yotta/device/unchanged/cluster_group.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/message_of.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;
using namespace yotta_test;
namespace cg = cooperative_groups;

namespace {

// The last thread of each block tells where it is; out: 8 numbers a block.
__global__ void tells(unsigned* out) {
  const cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x + 1 < blockDim.x) return;
  const dim3 at = cluster.block_index(), shape = cluster.dim_blocks();
  const unsigned all[] = {at.x,
                          at.y,
                          shape.x,
                          shape.y,
                          cluster.block_rank(),
                          cluster.num_blocks(),
                          cluster.thread_rank(),
                          cluster.num_threads()};
  unsigned* const mine = out + 8 * (blockIdx.x + gridDim.x * blockIdx.y);
  for (int i = 0; i < 8; ++i) mine[i] = all[i];
}

// Each block hands its number to the next one, between two phases of the barrier.
__global__ void hands_on(bool outside, unsigned* out) {
  __shared__ unsigned given;
  cg::cluster_group cluster = cg::this_cluster();
  cluster.sync();
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  unsigned* const there = cluster.map_shared_rank(&given, static_cast<int>(next));
  *there =
      10 * cluster.query_shared_rank(outside ? out : there) + cluster.query_shared_rank(&given);
  cluster.barrier_wait(cluster.barrier_arrive());
  out[blockIdx.x] = given;
}

}  // namespace

TEST_CASE("blocks know their places in a cluster of two directions") {
  DeviceArray<unsigned> out(8 * 8);
  launch_cluster(tells, {4, 2}, {2, 2}, 64, 0, nullptr, out.data());
  const std::vector<unsigned> got = out.to_host();
  for (unsigned y = 0; y < 2; ++y)
    for (unsigned x = 0; x < 4; ++x) {
      const auto first = got.begin() + 8 * (x + 4 * y);
      const unsigned rank = x % 2 + 2 * y;
      CHECK(std::vector<unsigned>(first, first + 8) ==
            std::vector<unsigned>{x % 2, y, 2, 2, rank, 4, 64 * rank + 63, 256});
    }
}

TEST_CASE("shared memory of another block, and whose it is") {
  DeviceArray<unsigned> out(4);
  launch_cluster(hands_on, 4, 4, 1, 0, nullptr, false, out.data());
  CHECK(out.to_host() == std::vector<unsigned>{3, 10 + 0, 20 + 1, 30 + 2});
  CHECK(
      contains(message_of([&] { launch_cluster(hands_on, 4, 4, 1, 0, nullptr, true, out.data()); }),
               "query_shared_rank() of an address that is in no shared memory of the cluster"));
}
