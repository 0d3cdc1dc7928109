// cp.async.bulk: one thread starts a copy of many bytes, and a separate engine makes it: no
// register and no other thread takes part.
//
//     cp_async_bulk(tile, x, bytes, &full)      global to shared; the mbarrier counts its bytes
//     cp_async_bulk(y, tile, bytes)             shared to global; a group of this thread's
//     cp_async_bulk_commit_group();             what it has started since the last one is a group
//     cp_async_bulk_wait_group_read<0>();       all groups have read: the tile may be overwritten
//     cp_async_bulk_wait_group<0>();            and all bytes have been written
//
// Loads.   thread 0   arrive_expect_tx(&full, bytes), cp_async_bulk(tile, x, bytes, &full)
//          all        while (!mbarrier_try_wait_parity(&full, parity)) {}     the tile is there
//
// Stores.  all        write the tile, fence_proxy_async(), __syncthreads()
//          thread 0   cp_async_bulk(y, tile, bytes), commit_group, wait_group_read<0>()
//
// The engine sees shared memory by a way of its own, the async proxy: what threads have written
// must pass a fence_proxy_async() before a store reads it, and an mbarrier's initialisation a
// fence_mbarrier_init() (or that one) before a load completes on it.
//
// Contract: both addresses and the number of bytes are multiples of 16. A thread waits for its
// stores to have read, and some thread for each load, before the block ends. From compute
// capability 9.0; on older chips these functions trap. References: PTX ISA, "Data Movement and
// Conversion Instructions: cp.async.bulk", "cp.async.bulk.wait_group", "Async proxy".
#pragma once

#include <cstdint>

#include "yotta/device/mbarrier.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

#if defined(__CUDACC__)

__device__ __forceinline__ void cp_async_bulk(void* to, const void* from, uint32_t bytes,
                                              uint64_t* barrier) {
  YOTTA_SM90(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_word(to)),
      "l"(from), "r"(bytes), "r"(shared_word(barrier))
      : "memory");
}

__device__ __forceinline__ void cp_async_bulk(void* to, const void* from, uint32_t bytes) {
  YOTTA_SM90("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
             "r"(shared_word(from)), "r"(bytes)
             : "memory");
}

__device__ __forceinline__ void cp_async_bulk_commit_group() {
  YOTTA_SM90("cp.async.bulk.commit_group;" ::: "memory");
}

template <int pending>
__device__ __forceinline__ void cp_async_bulk_wait_group() {
  YOTTA_SM90("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

template <int pending>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
  YOTTA_SM90("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

#else

void cp_async_bulk(void* to, const void* from, uint32_t bytes, uint64_t* barrier,
                   Where where = Where::current());
void cp_async_bulk(void* to, const void* from, uint32_t bytes, Where where = Where::current());
void cp_async_bulk_commit_group(Where where = Where::current());

namespace emulator {

// Waits for all stores of this thread but those of its last `pending` groups: until they have read,
// or have also written.
void wait_for_bulk_stores(int pending, bool written, Where where);

}  // namespace emulator

template <int pending>
void cp_async_bulk_wait_group(Where where = Where::current()) {
  static_assert(pending >= 0);
  emulator::wait_for_bulk_stores(pending, true, where);
}

template <int pending>
void cp_async_bulk_wait_group_read(Where where = Where::current()) {
  static_assert(pending >= 0);
  emulator::wait_for_bulk_stores(pending, false, where);
}

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/cp_async_bulk.ipp"
#endif
