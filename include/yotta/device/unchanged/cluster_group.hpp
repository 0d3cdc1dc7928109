// Cooperative groups on the CPU: the blocks of a cluster, by NVIDIA's names.
//
//     cg::cluster_group cluster = cg::this_cluster();
//     int* there = cluster.map_shared_rank(x, rank);    map_shared(x, rank)
//     cluster.sync();                                   cluster_sync()
//
// Contract: that of block_cluster.hpp. Reference: CUDA C++ Programming Guide, "Cooperative Groups",
// "Cluster Group".
#pragma once

#if !defined(__CUDACC__)

#include "yotta/device/block_cluster.hpp"
#include "yotta/device/unchanged/groups.hpp"

namespace cooperative_groups {
inline namespace YOTTA_DEVICE_BUILD {

class cluster_group {
 public:
  struct arrival_token {};

  static void sync(yotta::Where where = yotta::Where::current()) { yotta::cluster_sync(where); }
  static arrival_token barrier_arrive(yotta::Where where = yotta::Where::current()) {
    yotta::cluster_arrive(where);
    return {};
  }
  static void barrier_wait(yotta::Where where = yotta::Where::current()) {
    yotta::cluster_wait(where);
  }
  static void barrier_wait(arrival_token&&, yotta::Where where = yotta::Where::current()) {
    yotta::cluster_wait(where);
  }

  static unsigned block_rank(yotta::Where where = yotta::Where::current()) {
    return yotta::cluster_rank(where);
  }
  static unsigned num_blocks(yotta::Where where = yotta::Where::current()) {
    return yotta::cluster_size(where);
  }
  static unsigned thread_rank(yotta::Where where = yotta::Where::current()) {
    return block_rank(where) * block_threads(where) + rank_in_block(where);
  }
  static unsigned num_threads(yotta::Where where = yotta::Where::current()) {
    return num_blocks(where) * block_threads(where);
  }
  static unsigned size(yotta::Where where = yotta::Where::current()) { return num_threads(where); }
  // In blocks, and of this block among them.
  static dim3 dim_blocks(yotta::Where where = yotta::Where::current()) {
    return yotta::emulator::cluster_shape(where);
  }
  static dim3 block_index(yotta::Where where = yotta::Where::current()) {
    const dim3 shape = dim_blocks(where);
    const unsigned rank = block_rank(where);
    return {rank % shape.x, rank / shape.x % shape.y, rank / (shape.x * shape.y)};
  }

  template <class T>
  static T* map_shared_rank(T* pointer, int rank, yotta::Where where = yotta::Where::current()) {
    return yotta::map_shared(pointer, static_cast<uint32_t>(rank), where);
  }
  static unsigned query_shared_rank(const void* pointer,
                                    yotta::Where where = yotta::Where::current()) {
    return yotta::emulator::owner_of_shared("query_shared_rank()", pointer, where).rank;
  }
};
inline cluster_group this_cluster() { return {}; }

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace cooperative_groups

#endif
