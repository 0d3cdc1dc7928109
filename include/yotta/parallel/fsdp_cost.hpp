// What FSDP costs, in numbers: elements sent, memory held and borrowed, and the time of a step.
//
//     forward, with prefetch       compute   │ F0 │ F1 │ F2 │           g + (L-1) max(F, g) + F
//                                  network │ g0 │ g1 │ g2 │
//
//     backward, with prefetch      compute   │ B2    │ B1    │ B0    │
//                                  network │ g2 │ g1 │ r2 g0 │ r1    │ r0 │
//
// While unit i runs backward, the network reduces unit i + 1 and gathers unit i - 1. If B >= g + r
// and F >= g the step takes L (F + B) and three trips that nothing hides: the first gather of
// forward, the first of backward (none if the last unit stays whole), and the last reduction.
// Without prefetch every trip shows: L (F + B + 2 g + r).
//
// Letters: N parameters (with padding), p ranks, L units of equal size, F, B, g, r seconds of one
// unit.
#pragma once

#include <algorithm>
#include <cstdint>

namespace yotta {

// Elements that a rank sends in one forward and backward pass: each unit is gathered twice and
// reduced once; what stays whole is gathered once.
constexpr int64_t fsdp_elements_sent(int64_t ranks, int64_t parameters, int64_t staying) {
  return (3 * parameters - staying) / ranks * (ranks - 1);
}

// Elements borrowed at the peak, with prefetch and three units or more of `unit` elements each: two
// of weights; the gradients of the unit before, and this rank's part of their sum.
constexpr int64_t fsdp_peak_elements(int64_t ranks, int64_t unit) {
  return 3 * unit + unit / ranks;
}

// Seconds for one unit.
struct FsdpTimes {
  double forward = 0, backward = 0;
  double gather = 0, reduce = 0;
  double add = 0;  // the sum to the gradients of this rank
};

// Seconds of one forward and backward pass of `units` >= 2 equal units, without the loss.
constexpr double fsdp_seconds(int64_t units, const FsdpTimes& t, bool prefetch, bool keep_last) {
  const auto L = static_cast<double>(units);
  const double first_back = keep_last ? 0 : t.gather;
  if (!prefetch)
    return L * (t.forward + t.backward + t.gather + t.reduce + t.add) + (L - 1) * t.gather +
           first_back;
  const double forward = t.gather + (L - 1) * std::max(t.forward, t.gather) + t.forward;
  // A unit waits for the reduction of the unit before it, so it takes at least that long.
  const double one = std::max(t.backward, t.reduce) + t.add;
  const double steady = std::max(one, t.reduce + t.gather);
  return forward + first_back + std::max(t.backward, t.gather) + (L - 2) * steady + one + t.reduce +
         t.add;
}

}  // namespace yotta
