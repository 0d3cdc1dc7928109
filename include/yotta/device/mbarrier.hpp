// mbarrier: a barrier in shared memory that counts two things, arrivals of threads and bytes of
// copies. So a thread can wait for data, and whoever brings data for its place to be free.
//
//     __shared__ uint64_t full;
//     mbarrier_init(&full, 1);                    one thread: a phase needs one arrival
//     fence_mbarrier_init();                      copies know of it, too
//     __syncthreads();
//     ...
//     mbarrier_arrive_expect_tx(&full, 4096);     one arrival, and 4096 bytes will come
//     cp_async_bulk(tile, x, 4096, &full);        they come: cp_async_bulk.hpp
//     ...
//     while (!mbarrier_try_wait_parity(&full, parity)) {}      until that phase is complete
//
// Phases are numbered 0, 1, 2, ...; a phase is complete when all its arrivals have been made and
// all the bytes that it expects have come, and the next one begins. A waiter names the phase by its
// last bit, the parity: it goes on if the current phase has the other parity. So for a new
// mbarrier, parity 1 means "the phase before the first", which is complete: whoever fills a
// pipeline first waits for parity 1 and need not wait.
//
//     phase          0          1          2          3
//     parity         0          1          0          1
//                    └ wait(0) ─┘└ wait(1) ┘└ wait(0) ┘
//
// arrive releases and a wait acquires: what threads did before they arrived is seen by those that
// have waited. test_wait asks once; try_wait may let the thread sleep meanwhile, and may return
// false all the same: both belong into a loop.
//
// Contract: the 64 bits lie in shared memory, and nothing else writes there until mbarrier_inval.
// At most 2^20 - 1 arrivals, and as many bytes on their way. One thread initialises, and the others
// learn of it by a __syncthreads(). From compute capability 9.0; on older chips these functions
// trap. References: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
#pragma once

#include <cstdint>

#include "yotta/device/kernel.hpp"
#if !defined(__CUDACC__)
#include "yotta/device/emulator/cuda_builtins.hpp"
#endif

// Instructions of Hopper, in functions that older chips can compile too, but not run.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define YOTTA_SM90(...) __trap()
#else
#define YOTTA_SM90(...) asm volatile(__VA_ARGS__)
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

#if defined(__CUDACC__)

// The address of something in shared memory, as PTX wants it.
__device__ __forceinline__ uint32_t shared_word(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, uint32_t count) {
  YOTTA_SM90("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_word(barrier)), "r"(count)
             : "memory");
}

__device__ __forceinline__ void mbarrier_inval(uint64_t* barrier) {
  YOTTA_SM90("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_word(barrier)) : "memory");
}

__device__ __forceinline__ uint64_t mbarrier_arrive(uint64_t* barrier, uint32_t count = 1) {
  uint64_t state = 0;
  YOTTA_SM90("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;"
             : "=l"(state)
             : "r"(shared_word(barrier)), "r"(count)
             : "memory");
  return state;
}

__device__ __forceinline__ uint64_t mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes) {
  uint64_t state = 0;
  YOTTA_SM90("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;"
             : "=l"(state)
             : "r"(shared_word(barrier)), "r"(bytes)
             : "memory");
  return state;
}

__device__ __forceinline__ void mbarrier_expect_tx(uint64_t* barrier, uint32_t bytes) {
  YOTTA_SM90("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_word(barrier)),
             "r"(bytes)
             : "memory");
}

// Four instructions that differ in their names and in what they ask for: a phase's state, as arrive
// returns it, or a parity.
#define YOTTA_MBARRIER_WAIT(function, instruction, Asked, constraint)                 \
  __device__ __forceinline__ bool function(uint64_t* barrier, Asked asked) {          \
    uint32_t complete = 0;                                                            \
    YOTTA_SM90("{ .reg .pred p; " instruction " p, [%1], %2; selp.b32 %0, 1, 0, p; }" \
               : "=r"(complete)                                                       \
               : "r"(shared_word(barrier)), constraint(asked)                         \
               : "memory");                                                           \
    return complete != 0;                                                             \
  }
YOTTA_MBARRIER_WAIT(mbarrier_test_wait, "mbarrier.test_wait.shared::cta.b64", uint64_t, "l")
YOTTA_MBARRIER_WAIT(mbarrier_try_wait, "mbarrier.try_wait.shared::cta.b64", uint64_t, "l")
YOTTA_MBARRIER_WAIT(mbarrier_test_wait_parity, "mbarrier.test_wait.parity.shared::cta.b64",
                    uint32_t, "r")
YOTTA_MBARRIER_WAIT(mbarrier_try_wait_parity, "mbarrier.try_wait.parity.shared::cta.b64", uint32_t,
                    "r")
#undef YOTTA_MBARRIER_WAIT

// Copies that complete on mbarriers know those that this thread has initialised.
__device__ __forceinline__ void fence_mbarrier_init() {
  YOTTA_SM90("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Bulk copies and tensor cores, which reach shared memory by a way of their own (the async proxy),
// see what this thread has written there.
__device__ __forceinline__ void fence_proxy_async() {
  YOTTA_SM90("fence.proxy.async.shared::cta;" ::: "memory");
}

#else

void mbarrier_init(uint64_t* barrier, uint32_t count, Where where = Where::current());
void mbarrier_inval(uint64_t* barrier, Where where = Where::current());
// Returns the state of the phase in which it arrives.
uint64_t mbarrier_arrive(uint64_t* barrier, uint32_t count = 1, Where where = Where::current());
uint64_t mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes,
                                   Where where = Where::current());
void mbarrier_expect_tx(uint64_t* barrier, uint32_t bytes, Where where = Where::current());
bool mbarrier_test_wait(uint64_t* barrier, uint64_t state, Where where = Where::current());
bool mbarrier_try_wait(uint64_t* barrier, uint64_t state, Where where = Where::current());
bool mbarrier_test_wait_parity(uint64_t* barrier, uint32_t parity, Where where = Where::current());
bool mbarrier_try_wait_parity(uint64_t* barrier, uint32_t parity, Where where = Where::current());
void fence_mbarrier_init(Where where = Where::current());
void fence_proxy_async(Where where = Where::current());

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/mbarrier.ipp"
#endif
