// The learning rate over a run: a warm-up, then half a cosine down to a floor.
//
//     peak ─ ─ ─  __..
//               /     ''.
//              /         '.
//             /            ''..__
//     floor  /─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ''──────
//           0   warmup            steps
//
// Adam's running means know nothing in the first steps, so those are kept small; the slow end lets the
// weights settle. Reference: Loshchilov and Hutter, "SGDR" (2017), equation 5, without restarts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace yotta {

struct Schedule {
  double peak = 1e-3;
  double floor = 1e-4;   // a tenth of the peak is usual
  int64_t warmup = 100;  // steps
  int64_t steps = 1000;  // of the whole run

  // The learning rate of step 0, 1, 2, ...; after the last step it stays at the floor.
  double operator()(int64_t step) const {
    if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
    const int64_t length = std::max<int64_t>(steps - warmup, 1);
    const double done = static_cast<double>(step - warmup) / static_cast<double>(length);
    const double cosine = std::cos(std::numbers::pi * std::min(done, 1.0));
    return floor + (peak - floor) * (1 + cosine) / 2;
  }
};

}  // namespace yotta
