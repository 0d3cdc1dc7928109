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

#define YOTTA_LDMATRIX(count)                                                    \
  YOTTA_API void ldmatrix_x##count(uint32_t(&r)[count], const void* row,         \
                                   Where where = Where::current());              \
  YOTTA_API void ldmatrix_x##count##_trans(uint32_t(&r)[count], const void* row, \
                                           Where where = Where::current());
YOTTA_LDMATRIX(1)
YOTTA_LDMATRIX(2)
YOTTA_LDMATRIX(4)
#undef YOTTA_LDMATRIX

#if YOTTA_DEVICE_BODIES

// What a lane brings: the address of a row of 16 bytes, and the registers to fill.
struct MatrixRow {
  const void* address = nullptr;
  uint32_t* registers = nullptr;
};

// One phase per block: 8 lanes name a row each, and every lane gets a register of it.
template <int count, bool trans>
YOTTA_UNSEEN void load_blocks(const MatrixRow (&lanes)[32], Where where) {
  for (int block = 0; block < count; ++block) {
    const void* addresses[8];
    int givers[8];
    for (int r = 0; r < 8; ++r) addresses[r] = lanes[givers[r] = 8 * block + r].address;
    emulator::note_read_group(addresses, givers, 8, 16, where);
    uint16_t rows[8][8];
    for (int r = 0; r < 8; ++r) std::memcpy(rows[r], addresses[r], 16);
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      const uint32_t first = trans ? rows[2 * t][g] : rows[g][2 * t];
      const uint32_t second = trans ? rows[2 * t + 1][g] : rows[g][2 * t + 1];
      lanes[lane].registers[block] = first | second << 16;
    }
  }
}

#define YOTTA_LDMATRIX(count)                                                                  \
  void ldmatrix_x##count(uint32_t(&r)[count], const void* row, Where where) {                  \
    whole_warp("ldmatrix_x" #count "()", MatrixRow{row, r}, load_blocks<count, false>, where); \
  }                                                                                            \
  void ldmatrix_x##count##_trans(uint32_t(&r)[count], const void* row, Where where) {          \
    whole_warp("ldmatrix_x" #count "_trans()", MatrixRow{row, r}, load_blocks<count, true>,    \
               where);                                                                         \
  }
YOTTA_LDMATRIX(1)
YOTTA_LDMATRIX(2)
YOTTA_LDMATRIX(4)
#undef YOTTA_LDMATRIX

#endif  // YOTTA_DEVICE_BODIES

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
