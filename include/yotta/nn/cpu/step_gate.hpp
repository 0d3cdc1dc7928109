// A step of the optimizer that a device decides on: the host does not wait for the loss or the
// norm.
//
//     host      sets loss = 0, limit, rates ─┐                              asks, when it likes
//     device    backward ... loss, squares ──┴─ StepGate: norm, scale, taken ──► AdamW's kernels
//
// The gate computes what the host computes otherwise: the norm of all gradients, the factor that
// clips them, and whether the step may be taken. It is not taken if the loss or the norm is not
// finite, if the loss is above a limit, or if a late check has found something (a wrong id): then
// all weights and the optimizer's state stay as they are.
#pragma once

#include <cmath>

#include "yotta/nn/cpu/body.hpp"

namespace yotta {

// In the device's memory.
struct StepNumbers {
  // The host sets these before the step. The optimizer's: see AdamWFactors.
  double loss = 0;  // of the batch; kernels add to it
  double limit = 0, clip = 0, learning_rate = 0, rate = 0, correction = 0;
  // The gate sets these.
  double norm = 0, scale = 0, taken = 0;
  double refused = 0;  // steps that were not taken, until the host sets it to 0; last: it stays
};

struct StepGate {
  int64_t pieces;
  const double* squares;  // sums over pieces of the gradients
  const LateFinding* found;
  StepNumbers* now;
  template <class Team>
  YOTTA_BODY void operator()(int64_t, Team team) const {
    const double sum = team.sum(pieces, [&](int64_t i, OneLane) { return squares[i]; });
    team.once([&] {
      const double norm = std::sqrt(sum);
      now->norm = norm;
      now->scale = now->clip > 0 && norm > now->clip ? now->clip / norm : 1;
      now->taken = std::isfinite(now->loss) && std::isfinite(norm) && now->loss <= now->limit &&
                   found->check == 0;
      if (now->taken == 0) now->refused += 1;
    });
  }
};

// A rule's step of one weight, with the factors that lie on the device: body.with(now) is the body.
template <class Step>
struct OnDevice {
  Step step;
  const StepNumbers* now;
  double decay;  // of this weight; 0: none
  YOTTA_BODY void operator()(int64_t i, OneLane lane) const {
    if (now->taken != 0) step.with(*now, decay)(i, lane);
  }
};

}  // namespace yotta
