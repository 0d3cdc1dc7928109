// Thread-block clusters: up to 8 blocks that run side by side on neighbouring multiprocessors, meet
// in a barrier of all their threads, and reach each other's shared memory.
//
//     launch_cluster(kernel, grid, 2, block, shared_bytes, nullptr, ...)      kernel.hpp
//
//     block of rank 0             block of rank 1
//     __shared__ int x[32];       __shared__ int x[32];
//     x[i] = ...;                 x[i] = ...;
//     cluster_sync();             cluster_sync();                 both have written
//     y = *map_shared(x + i, 1);  y = *map_shared(x + i, 0);      what the other block has there
//     cluster_sync();             cluster_sync();                 no block ends before it is read
//
// map_shared(pointer, rank) is where the block of that rank has what this one has at `pointer`. It
// may be read and written like any memory, by atomic operations too; it is slower than own shared
// memory and faster than global.
//
// Barrier. cluster_arrive() releases and goes on, cluster_wait() waits for the arrivals of all
// threads and acquires; cluster_sync() is both. Between two blocks an mbarrier is often enough:
// mbarrier_arrive_at(&empty, rank) arrives at the mbarrier that the other block has there. Who
// waits for such an arrival and then reads what that thread wrote uses
// mbarrier_try_wait_parity_cluster(), which acquires from the whole cluster.
//
// One TMA copy can bring the same tile to several blocks: cp_async_bulk_tensor_multicast().
//
// Contract: mbarriers are initialised, and fence_mbarrier_init() called, before a cluster_sync()
// that lets other blocks use them. A block ends after all that others do in its shared memory. All
// threads of all blocks come to the cluster's barrier, in turn arrive and wait. A launch without
// clusters has clusters of one block. From compute capability 9.0; on older chips these functions
// trap. References: CUDA C++ Programming Guide, "Thread Block Clusters"; PTX ISA,
// "barrier.cluster", "mapa", "mbarrier.arrive".
#pragma once

#include <cstdint>

#include "yotta/device/mbarrier.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

#if defined(__CUDACC__)

// Of this block in its cluster, from 0.
__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank = 0;
  YOTTA_SM90("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Blocks in it.
__device__ __forceinline__ uint32_t cluster_size() {
  uint32_t size = 0;
  YOTTA_SM90("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}

__device__ __forceinline__ void cluster_arrive() {
  YOTTA_SM90("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  YOTTA_SM90("barrier.cluster.wait.acquire;" ::: "memory");
}

template <class T>
__device__ __forceinline__ T* map_shared(T* pointer, uint32_t rank) {
  uint64_t there = 0;
  YOTTA_SM90("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(pointer), "r"(rank));
  return reinterpret_cast<T*>(there);
}

__device__ __forceinline__ void mbarrier_arrive_at(uint64_t* barrier, uint32_t rank,
                                                   uint32_t count = 1) {
  YOTTA_SM90(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there], %2; }" ::"r"(
          shared_word(barrier)),
      "r"(rank), "r"(count)
      : "memory");
}

__device__ __forceinline__ bool mbarrier_try_wait_parity_cluster(uint64_t* barrier,
                                                                 uint32_t parity) {
  uint32_t complete = 0;
  YOTTA_SM90(
      "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; "
      "selp.b32 %0, 1, 0, p; }"
      : "=r"(complete)
      : "r"(shared_word(barrier)), "r"(parity)
      : "memory");
  return complete != 0;
}

__device__ __forceinline__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

#else

uint32_t cluster_rank(Where where = Where::current());
uint32_t cluster_size(Where where = Where::current());
void cluster_arrive(Where where = Where::current());
void cluster_wait(Where where = Where::current());

namespace emulator {

void* map_shared(void* pointer, uint32_t rank, Where where);
// The block that has this address in its shared memory, and where this block has the same.
struct SharedOwner {
  uint32_t rank = 0;
  void* mine = nullptr;
};
SharedOwner owner_of_shared(const char* word, const void* pointer, Where where);
// How many blocks a cluster has in each direction.
dim3 cluster_shape(Where where = Where::current());

}  // namespace emulator

template <class T>
T* map_shared(T* pointer, uint32_t rank, Where where = Where::current()) {
  return static_cast<T*>(
      emulator::map_shared(const_cast<void*>(static_cast<const void*>(pointer)), rank, where));
}

void mbarrier_arrive_at(uint64_t* barrier, uint32_t rank, uint32_t count = 1,
                        Where where = Where::current());

inline bool mbarrier_try_wait_parity_cluster(uint64_t* barrier, uint32_t parity,
                                             Where where = Where::current()) {
  return mbarrier_try_wait_parity(barrier, parity, where);
}

inline void cluster_sync(Where where = Where::current()) {
  cluster_arrive(where);
  cluster_wait(where);
}

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/block_cluster.ipp"
#endif
