// What the emulator counts of x = x * 2, done k times in one kernel (counts_checked.cpp, compiled
// with all checks).
#pragma once

#include <cstdint>

namespace yotta {

struct MultiplyCounts {
  double bytes = 0, flops = 0;  // for each number
};

MultiplyCounts count_multiplies(int times);

}  // namespace yotta
