// ldmatrix: one instruction of a whole warp that reads one, two or four 8 x 8 blocks of 16-bit
// numbers from shared memory and leaves them in the lanes' registers as mma wants them.
//
//        addresses that lanes give         numbers that lanes get
//        lane 0  -> row 0 of block 0       register k of lane 4g + t: row g of block k,
//        lane 1  -> row 1                      columns 2t and 2t + 1
//          ...                             .trans: column g, rows 2t and 2t + 1: the block
//        lane 7  -> row 7                      transposed, so a row-major B needs no other layout
//        lane 8  -> row 0 of block 1  ...
//
// So a lane gives the address of one row of 16 bytes and gets numbers from others. x1 uses the
// addresses of lanes 0 to 7, x2 of 0 to 15, x4 of all. Each must be a multiple of 16 and lie in
// shared memory.
//
// For a 16 x 16 tile of A, and with .trans for a 16 x 16 tile of B (two fragments of m16n8k16 side
// by side), the same rule gives every lane its row: row lane % 16, columns from 8 (lane / 16).
//
// Cost: a block is 128 bytes, one pass over the 32 banks, if its eight rows lie in different banks;
// see swizzle in tensor_cores_tile.hpp. Four loads of 32 bits, or eight of 16 for B, become a
// quarter of one instruction.
// References: PTX ISA, "Warp-level matrix load instruction: ldmatrix".
#pragma once

#include <cstdint>

#include "yotta/device/kernel.hpp"
#if !defined(__CUDACC__)
#include "yotta/device/emulator/cuda_builtins.hpp"
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

#if defined(__CUDACC__)

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// One function for each number of blocks, plain and .trans; "memory" keeps stores to shared memory
// before it.
#define YOTTA_LDMATRIX(count, targets, address, ...)                                               \
  __device__ __forceinline__ void ldmatrix_x##count(uint32_t(&r)[count], const void* row) {        \
    asm volatile("ldmatrix.sync.aligned.m8n8.x" #count ".shared.b16 {" targets "}, [" address "];" \
                 : __VA_ARGS__                                                                     \
                 : "r"(shared_address(row))                                                        \
                 : "memory");                                                                      \
  }                                                                                                \
  __device__ __forceinline__ void ldmatrix_x##count##_trans(uint32_t(&r)[count],                   \
                                                            const void* row) {                     \
    asm volatile("ldmatrix.sync.aligned.m8n8.x" #count ".trans.shared.b16 {" targets               \
                 "}, [" address "];"                                                               \
                 : __VA_ARGS__                                                                     \
                 : "r"(shared_address(row))                                                        \
                 : "memory");                                                                      \
  }
YOTTA_LDMATRIX(1, "%0", "%1", "=r"(r[0]))
YOTTA_LDMATRIX(2, "%0,%1", "%2", "=r"(r[0]), "=r"(r[1]))
YOTTA_LDMATRIX(4, "%0,%1,%2,%3", "%4", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]))
#undef YOTTA_LDMATRIX

#else

#define YOTTA_LDMATRIX(count)                                                                   \
  void ldmatrix_x##count(uint32_t(&r)[count], const void* row, Where where = Where::current()); \
  void ldmatrix_x##count##_trans(uint32_t(&r)[count], const void* row,                          \
                                 Where where = Where::current());
YOTTA_LDMATRIX(1)
YOTTA_LDMATRIX(2)
YOTTA_LDMATRIX(4)
#undef YOTTA_LDMATRIX

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/ldmatrix.ipp"
#endif
