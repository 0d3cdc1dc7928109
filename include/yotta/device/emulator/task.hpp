// What a launch is: the sizes of its grid, clusters and block, the kernel and its arguments.
//
//     grid (4, 2)      block (4, 2)              thread index = x + 4 y, warp = index / 32
//     ┌──┬──┐┌──┬──┐   threads (0,0) .. (3,1)
//     └──┴──┘└──┴──┘   of each block             clusters (2, 1): blocks (2, 1) and (3, 1) are
//     ┌──┬──┐┌──┬──┐                             those of rank 0 and 1 in cluster (1, 1), whose
//     └──┴──┘└──┴──┘                             number is 3
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/device/emulator/device_build.hpp"

struct uint3 {
  unsigned x, y, z;
};

// Sizes of a grid and of a block.
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;

namespace yotta {

struct Footprint;  // what a kernel touches: stream_order.hpp

inline namespace YOTTA_DEVICE_BUILD {

// A kernel did something that a GPU forbids. The message begins with the line of the launch.
class KernelError : public Error {
  using Error::Error;
};

namespace emulator {

// Throws: the host has come to a word that only kernels may use.
[[noreturn]] void refuse_on_host(const char* word, Where where);

inline constexpr int most_threads = 1024;  // per block

// What can be done with the arguments of a call without knowing their types.
struct Arguments {
  const void* (*copy)(const void* call) = nullptr;
  void (*drop)(const void* copy) = nullptr;
  // Appends those that may be pointers, also those within structs.
  void (*pointers)(const void* call, std::vector<const void*>& out) = nullptr;
};

// A launch, apart from its blocks.
struct Task {
  dim3 grid, size;
  dim3 cluster = {};  // blocks that are there together
  size_t shared_bytes = 0;
  uint64_t seed = 0;
  const void* kernel = nullptr;  // the address of its code
  void (*call)(const void* arguments) = nullptr;
  const void* arguments = nullptr;
  size_t argument_bytes = 0;
  Arguments keep;               // for launches that run later
  double patience = 10;         // seconds that a thread may run without reaching a barrier
  bool cooperative = false;     // all blocks are there at once, and may meet
  bool blocks_at_once = false;  // as many as fit
  bool names_cluster = true;    // otherwise the kernel may say which (OwnCluster)
  Where where;
  Footprint* footprint = nullptr;  // to be filled by a checked launch
};

// Thrown before any block does anything: the kernel says its cluster, which the launch does not.
struct OwnCluster {
  dim3 size;
};

// Where number `index` lies in a grid or block.
constexpr uint3 coordinates(uint64_t index, dim3 in) {
  return {static_cast<unsigned>(index % in.x), static_cast<unsigned>(index / in.x % in.y),
          static_cast<unsigned>(index / in.x / in.y)};
}
constexpr uint64_t count_of(dim3 size) { return uint64_t{size.x} * size.y * size.z; }

// The number of a block in the grid, by its cluster's number and its rank there.
constexpr uint64_t block_in_cluster(const Task& task, uint64_t cluster, uint64_t rank) {
  const dim3 grid = task.grid, size = task.cluster;
  const uint3 first = coordinates(cluster, dim3(grid.x / size.x, grid.y / size.y, grid.z / size.z));
  const uint3 in = coordinates(rank, size);
  const uint64_t x = uint64_t{first.x} * size.x + in.x, y = uint64_t{first.y} * size.y + in.y,
                 z = uint64_t{first.z} * size.z + in.z;
  return x + grid.x * (y + grid.y * z);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
