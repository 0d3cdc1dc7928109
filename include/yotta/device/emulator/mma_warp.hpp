// Instructions of a whole warp on the CPU, mma.sync and ldmatrix: all 32 lanes bring their operands (pointers to
// registers, addresses), and the instruction is carried out once, over all of them.
//
//     lane 0   operands --+
//     lane 1   operands --+--> run(operands of 32 lanes) writes every lane's registers --> all go on
//     ...                 |
//     lane 31  operands --+
//
// This is the .aligned of mma.sync.aligned: a warp of which a lane has returned, or a block that is no multiple of
// 32 threads, is refused.
#pragma once

#include "yotta/device/emulator/simt_access.hpp"
#include "yotta/device/emulator/simt_warp.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

template <class Operands>
YOTTA_UNSEEN void whole_warp(const char* name, const Operands& operands,
                             void (*run)(const Operands (&lanes)[32], Where where), Where where) {
  const emulator::UncheckedScope aside;  // what follows is the emulator's, not the kernel's
  struct Call {
    const Operands& operands;
    void (*run)(const Operands (&lanes)[32], Where where);
    const char* name;
    Where where;
  } mine{operands, run, name, where};
  emulator::warp_rendezvous(
      name, 0xffffffffu, &mine,
      [](emulator::Lanes lanes) YOTTA_UNSEEN {
        Operands all[32];
        const Call* call = nullptr;
        int present = 0;
        for (int i = 0; i < 32; ++i) {
          if (lanes[i] == nullptr) continue;
          call = static_cast<const Call*>(lanes[i]);
          all[i] = call->operands;
          ++present;
        }
        if (present < 32)
          emulator::refuse(
              call->where,
              "{} needs all 32 lanes of the warp, and {} have returned or do not exist. "
              "Let all lanes call it, those outside of the matrix with zeros; launch "
              "blocks of 32 threads or multiples",
              call->name, 32 - present);
        emulator::count_instruction(call->name, call->where);
        call->run(all, call->where);
      },
      where);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
