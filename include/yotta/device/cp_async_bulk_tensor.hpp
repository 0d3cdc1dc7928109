// cp.async.bulk.tensor: the Tensor Memory Accelerator (TMA). One thread starts the copy of a box of
// a tensor; where the box begins are its only arguments, everything else is in the tensor map
// (tensor_map.hpp).
//
//     cp_async_bulk_tensor(tile, &map, {column, row}, &full)    global to shared; &full counts it
//     cp_async_bulk_tensor(&map, {column, row}, tile)           shared to global; a group, as in
//                                                               cp_async_bulk.hpp
//     cp_reduce_async_bulk_tensor_add(&map, {column, row}, tile)     adds to the tensor's numbers
//     cp_async_bulk_tensor_multicast(tile, &map, {column, row}, &full, blocks)     to the blocks of
//                                                               the cluster whose ranks are bits of
//                                                               `blocks`: block_cluster.hpp
//
//     tensor  ┌───────────────┐        shared memory: the box, row after row, swizzled
//             │     ┌─────┐   │        what lies outside of the tensor: zeros, or not written
//             │     │ box │   │
//             └─────┴─────┴───┘
//
// Coordinates are in elements, the innermost dimension first, and may be negative. A box counts all
// its bytes on the mbarrier, those outside of the tensor too.
//
// Contract: the map is a parameter `const __grid_constant__ CUtensorMap`; as many coordinates as it
// has dimensions; the address in shared memory is a multiple of 128. With a swizzle, let tiles
// begin at multiples of 1024, so that the pattern begins with the tile. Fences and waits are those
// of cp_async_bulk.hpp. From compute capability 9.0; on older chips these functions trap.
// References: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor".
#pragma once

#include <cstdint>

#include "yotta/device/cp_async_bulk.hpp"
#include "yotta/device/tensor_map.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

#if defined(__CUDACC__)

// One branch for each number of dimensions: `names` are the coordinates' places in the instruction.
#define YOTTA_TENSOR_LOAD(count, names, ...)                                                 \
  if constexpr (dims == count)                                                               \
  YOTTA_SM90("cp.async.bulk.tensor." #count                                                  \
             "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" names \
             "}], [%2];" ::"r"(shared_word(to)),                                             \
             "l"(map), "r"(shared_word(barrier)), __VA_ARGS__                                \
             : "memory")
template <int dims>
__device__ __forceinline__ void cp_async_bulk_tensor(void* to, const CUtensorMap* map,
                                                     const int32_t (&at)[dims], uint64_t* barrier) {
  static_assert(dims >= 1 && dims <= 5);
  YOTTA_TENSOR_LOAD(1, "%3", "r"(at[0]));
  YOTTA_TENSOR_LOAD(2, "%3, %4", "r"(at[0]), "r"(at[1]));
  YOTTA_TENSOR_LOAD(3, "%3, %4, %5", "r"(at[0]), "r"(at[1]), "r"(at[2]));
  YOTTA_TENSOR_LOAD(4, "%3, %4, %5, %6", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
  YOTTA_TENSOR_LOAD(5, "%3, %4, %5, %6, %7", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                    "r"(at[4]));
}
#undef YOTTA_TENSOR_LOAD

#define YOTTA_TENSOR_MULTICAST(count, names, ...)                                                 \
  if constexpr (dims == count)                                                                    \
  YOTTA_SM90("cp.async.bulk.tensor." #count                                                       \
             "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "     \
             "[%0], [%1, {" names "}], [%2], %3;" ::"r"(shared_word(to)),                         \
             "l"(map), "r"(shared_word(barrier)), "h"(static_cast<uint16_t>(blocks)), __VA_ARGS__ \
             : "memory")
template <int dims>
__device__ __forceinline__ void cp_async_bulk_tensor_multicast(void* to, const CUtensorMap* map,
                                                               const int32_t (&at)[dims],
                                                               uint64_t* barrier, uint32_t blocks) {
  static_assert(dims >= 1 && dims <= 5);
  YOTTA_TENSOR_MULTICAST(1, "%4", "r"(at[0]));
  YOTTA_TENSOR_MULTICAST(2, "%4, %5", "r"(at[0]), "r"(at[1]));
  YOTTA_TENSOR_MULTICAST(3, "%4, %5, %6", "r"(at[0]), "r"(at[1]), "r"(at[2]));
  YOTTA_TENSOR_MULTICAST(4, "%4, %5, %6, %7", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
  YOTTA_TENSOR_MULTICAST(5, "%4, %5, %6, %7, %8", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                         "r"(at[4]));
}
#undef YOTTA_TENSOR_MULTICAST

// The box goes to the tensor, or is added to it.
#define YOTTA_TENSOR_STORE(word, op, count, names, ...)                   \
  if constexpr (dims == count)                                            \
  YOTTA_SM90(word ".async.bulk.tensor." #count "d.global.shared::cta" op  \
                  ".tile.bulk_group [%0, {" names "}], [%1];" ::"l"(map), \
             "r"(shared_word(from)), __VA_ARGS__                          \
             : "memory")
#define YOTTA_TENSOR_STORES(function, word, op)                                               \
  template <int dims>                                                                         \
  __device__ __forceinline__ void function(const CUtensorMap* map, const int32_t(&at)[dims],  \
                                           const void* from) {                                \
    static_assert(dims >= 1 && dims <= 5);                                                    \
    YOTTA_TENSOR_STORE(word, op, 1, "%2", "r"(at[0]));                                        \
    YOTTA_TENSOR_STORE(word, op, 2, "%2, %3", "r"(at[0]), "r"(at[1]));                        \
    YOTTA_TENSOR_STORE(word, op, 3, "%2, %3, %4", "r"(at[0]), "r"(at[1]), "r"(at[2]));        \
    YOTTA_TENSOR_STORE(word, op, 4, "%2, %3, %4, %5", "r"(at[0]), "r"(at[1]), "r"(at[2]),     \
                       "r"(at[3]));                                                           \
    YOTTA_TENSOR_STORE(word, op, 5, "%2, %3, %4, %5, %6", "r"(at[0]), "r"(at[1]), "r"(at[2]), \
                       "r"(at[3]), "r"(at[4]));                                               \
  }
YOTTA_TENSOR_STORES(cp_async_bulk_tensor, "cp", "")
YOTTA_TENSOR_STORES(cp_reduce_async_bulk_tensor_add, "cp.reduce", ".add")
#undef YOTTA_TENSOR_STORES
#undef YOTTA_TENSOR_STORE

// Brings the map near, so that the first copy finds it there.
__device__ __forceinline__ void prefetch_tensormap(const CUtensorMap* map) {
  YOTTA_SM90("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

#else

namespace emulator {

// `blocks`: ranks in the cluster, as bits; 0: this block.
void start_tensor_load(void* to, const CUtensorMap* map, const int32_t* at, int dims,
                       uint64_t* barrier, uint32_t blocks, Where where);
void start_tensor_multicast(void* to, const CUtensorMap* map, const int32_t* at, int dims,
                            uint64_t* barrier, uint32_t blocks, Where where);
void start_tensor_store(const CUtensorMap* map, const int32_t* at, int dims, const void* from,
                        bool adds, Where where);

}  // namespace emulator

template <int dims>
void cp_async_bulk_tensor(void* to, const CUtensorMap* map, const int32_t (&at)[dims],
                          uint64_t* barrier, Where where = Where::current()) {
  static_assert(dims >= 1 && dims <= 5);
  emulator::start_tensor_load(to, map, at, dims, barrier, 0, where);
}

template <int dims>
void cp_async_bulk_tensor_multicast(void* to, const CUtensorMap* map, const int32_t (&at)[dims],
                                    uint64_t* barrier, uint32_t blocks,
                                    Where where = Where::current()) {
  static_assert(dims >= 1 && dims <= 5);
  emulator::start_tensor_multicast(to, map, at, dims, barrier, blocks, where);
}

template <int dims>
void cp_async_bulk_tensor(const CUtensorMap* map, const int32_t (&at)[dims], const void* from,
                          Where where = Where::current()) {
  static_assert(dims >= 1 && dims <= 5);
  emulator::start_tensor_store(map, at, dims, from, false, where);
}

template <int dims>
void cp_reduce_async_bulk_tensor_add(const CUtensorMap* map, const int32_t (&at)[dims],
                                     const void* from, Where where = Where::current()) {
  static_assert(dims >= 1 && dims <= 5);
  emulator::start_tensor_store(map, at, dims, from, true, where);
}

inline void prefetch_tensormap(const CUtensorMap*) {}

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/cp_async_bulk_tensor.ipp"
#endif
