// Accesses and arithmetic of wrapped instructions: what a function that stands for an instruction (mma.sync,
// ldmatrix, cp.async, an atomic) tells the emulator about itself.
//
// A plain kernel's loads and stores are seen by themselves (simt_build.hpp). A wrapped instruction moves memory
// in the emulator's own code, which is not looked at, so it says what it does:
//
//     ldmatrix     read_group(8 addresses of 16 bytes) x 4, by the lanes that gave the addresses
//     cp.async     begin_copy(to, from), and later end_copy(to, from)
//     mma.sync     count_instruction("mma.sync ..."), count_flops(2 m n k)
//
// In the unchecked build all of these do nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "yotta/device/simt_block.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

#if !defined(YOTTA_CHECKED)

// The lane that runs reads or writes `bytes` of shared or global memory in one access.
inline void note_read(const void*, size_t, Where) {}
inline void note_write(void*, size_t, Where) {}
// One phase of an instruction of the whole warp: lane lanes[i] reads `bytes` at addresses[i].
inline void note_read_group(const void* const*, const int*, int, size_t, Where) {}
// Shared memory that a cp.async will fill: nobody may read or write it before.
inline void note_copy_begins(void*, size_t, Where) {}
inline void note_copy_ends(void*, size_t, Where) {}
// One instruction of the warp, by name; floating-point operations.
inline void count_instruction(const char*, Where) {}
inline void count_flops(int64_t, Where) {}

#endif

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
