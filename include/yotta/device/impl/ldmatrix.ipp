// The bodies of device/ldmatrix.hpp.
#pragma once

#include "yotta/device/ldmatrix.hpp"

#include <cstring>

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

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

#define YOTTA_LDMATRIX(count)                                                                      \
  YOTTA_INLINE void ldmatrix_x##count(uint32_t(&r)[count], const void* row, Where where) {         \
    whole_warp("ldmatrix_x" #count "()", MatrixRow{row, r}, load_blocks<count, false>, where);     \
  }                                                                                                \
  YOTTA_INLINE void ldmatrix_x##count##_trans(uint32_t(&r)[count], const void* row, Where where) { \
    whole_warp("ldmatrix_x" #count "_trans()", MatrixRow{row, r}, load_blocks<count, true>,        \
               where);                                                                             \
  }
YOTTA_LDMATRIX(1)
YOTTA_LDMATRIX(2)
YOTTA_LDMATRIX(4)
#undef YOTTA_LDMATRIX

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
