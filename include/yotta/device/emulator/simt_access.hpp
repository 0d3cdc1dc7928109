// Accesses and arithmetic of wrapped instructions: what a function that stands for an instruction (mma.sync,
// ldmatrix, cp.async, an atomic) tells the emulator about itself.
//
// A plain kernel's loads and stores are seen by themselves (simt_build.hpp). A wrapped instruction moves memory
// in the emulator's own code, which is not looked at, so it says what it does:
//
//     ldmatrix     note_read_group(8 addresses of 16 bytes) x 4, by the lanes that gave the addresses
//     cp.async     note_read(from), note_copy_begins(to), and when it is waited for note_copy_ends(to)
//     mma.sync     count_instruction("mma.sync ..."), count_flops(2 m n k)
//
// In the unchecked build all of these do nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "yotta/device/emulator/simt_block.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

#if defined(YOTTA_CHECKED)

// The lane that runs reads or writes `bytes` of shared or global memory in one access.
inline void note_access(const void* address, size_t bytes, Access access, Where where) {
  const UncheckedScope aside;
  AccessChecker& watch = this_lane->block->watch();
  watch.access(address, bytes, access, watch.site(where));
}
inline void note_read(const void* from, size_t bytes, Where where) {
  note_access(from, bytes, Access::read, where);
}
inline void note_write(const void* to, size_t bytes, Where where) {
  note_access(to, bytes, Access::write, where);
}
// One phase of an instruction of the whole warp, from its run(): lane lanes[i] reads `bytes` at addresses[i]
// of shared memory. Counted as one request.
inline void note_read_group(const void* const* addresses, const int* lanes, int count, size_t bytes,
                            Where where) {
  Block& block = *this_lane->block;
  AccessChecker& watch = block.watch();
  const uint32_t site = watch.site(where);
  const int first = this_lane->index / 32 * 32;
  Request request;
  for (int i = 0; i < count; ++i) {
    watch.check(block.lane(first + lanes[i]), addresses[i], bytes, Access::read, site, 0);
    request.addresses[request.lanes++] = reinterpret_cast<uintptr_t>(addresses[i]);
  }
  watch.counters().count({0, site, static_cast<uint8_t>(bytes), Access::read, true}, request);
}
// Shared memory that a cp.async of this lane will fill: nobody may read or write it before the copy ends.
inline void note_copy_begins(void* to, size_t bytes, Where where) {
  const UncheckedScope aside;
  AccessChecker& watch = this_lane->block->watch();
  watch.check(*this_lane, to, bytes, Access::write, watch.site(where), in_flight_mark);
}
inline void note_copy_ends(void* to, size_t bytes, Where where) {
  const UncheckedScope aside;
  AccessChecker& watch = this_lane->block->watch();
  watch.settle(*this_lane, to, bytes, watch.site(where));
}
// One instruction of the warp, by name; floating-point operations of a line.
inline void count_instruction(const char* name, Where) {
  this_lane->block->watch().counters().count_instruction(name);
}
inline void count_flops(int64_t flops, Where where) {
  AccessChecker& watch = this_lane->block->watch();
  watch.counters().count_flops(watch.site(where), flops);
}

#else

inline void note_read(const void*, size_t, Where) {}
inline void note_write(const void*, size_t, Where) {}
inline void note_read_group(const void* const*, const int*, int, size_t, Where) {}
inline void note_copy_begins(void*, size_t, Where) {}
inline void note_copy_ends(void*, size_t, Where) {}
inline void count_instruction(const char*, Where) {}
inline void count_flops(int64_t, Where) {}

#endif

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
