// The bodies of device/mma.hpp.
#pragma once

#include "yotta/device/mma.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

template <class Shape, class Input>
YOTTA_UNSEEN void run_and_count(const MmaLane<Input> (&lanes)[32], Where where) {
  run_mma<Shape>(lanes);
  emulator::count_flops(mma_flops<Shape>(), where);
}

#define YOTTA_MMA(function, Shape, Input, a_registers, b_registers)                             \
  YOTTA_INLINE void function(MmaSum<Input>(&d)[Shape::c_elements],                              \
                             const MmaRegister<Input>(&a)[a_registers],                         \
                             const MmaRegister<Input>(&b)[b_registers],                         \
                             const MmaSum<Input>(&c)[Shape::c_elements], Where where) {         \
    whole_warp(#function "()", MmaLane<Input>{a, b, c, d}, run_and_count<Shape, Input>, where); \
  }
YOTTA_FOR_EACH_MMA(YOTTA_MMA)
#undef YOTTA_MMA
#undef YOTTA_FOR_EACH_MMA

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
