// The latency wall: why a run on distant machines cannot grow without limit, however many machines
// there are.
//
// A step needs the weights that the step before it has made. So steps follow each other, and each
// takes at least the time in which a number gets from every worker to every other:
//
//     step 0              step 1              step 2
//     │ inside │ α log2 k │ inside │ α log2 k │ inside │ ...   until the time is over
//
// More workers shorten the work inside a step, never this exchange. With T seconds for the whole
// run and t for the fastest step there are S = T/t steps. A step trains on b tokens, and b cannot
// grow at will: beyond the critical batch more tokens per step hardly save steps. A model of N
// parameters that is trained on D = 20 N tokens costs
//
//     D = S b        N = D / 20        C = 6 N D = 0.3 D²  FLOPs
//
// so C falls with the square of the latency. Three ways through the wall:
//     a larger batch    the critical batch grows with the tokens of a run, about as their square
//                       root: b = b0 (D/D0)^e, e = 1/2. Then D = (S b0 / D0^e)^(1/(1-e)), and C
//                       falls with the fourth power of t: a wall still, but further away
//     DiLoCo            workers meet once in H steps, so that a step waits for α log2 k / H
//     a longer run      T is months; a machine is not kept for years
//
// Contract: bounds, not forecasts. Bytes take time as well, and chips have a speed: a run can end
// long before this wall. What DiLoCo costs in loss is not in here.
// Letters: k workers, H inner steps, α seconds of latency, t seconds of a step, T of the run, S
// steps, b tokens in a step, D tokens, N parameters, C FLOPs, e how the batch grows.
// References: Erdil and Schneider-Joseph (2024), Data movement limits to frontier model training (a
// latency wall near 1e31 FLOP); Zhang et al. (2024), How Does Critical Batch Size Scale in
// Pre-training? (it grows with the tokens); Hoffmann et al. (2022), 20 tokens per parameter.
#pragma once

#include <cmath>

#include "yotta/core/error.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

struct LatencyWall {
  double run = 90 * 86400.0;  // T, seconds: three months
  double latency = 50e-3;     // α, between two workers
  int workers = 8;            // k
  int inner = 1;              // H; 1: workers meet in every step
  double inside = 1.5e-3;     // seconds that a step takes inside a worker, at least
  double batch = 16e6;        // b0, tokens in a step: Llama 3 405B's,
  double tokens = 15.6e12;    // D0: in a run of so many
  double growth = 0;          // e: 0: the batch stays. 0.5: about as measured
};

struct LatencyBound {
  double step;    // t
  double steps;   // S
  double batch;   // b
  double tokens;  // D
  double flops;   // C
};

namespace detail {

inline void expect_wall(const LatencyWall& w, Where where) {
  for (const double each : {w.run, w.inside, w.batch, w.tokens})
    if (!(each > 0) || std::isinf(each))
      fail(where, "a latency wall of {} s, {} s inside, {} tokens of {}: all are above 0", w.run,
           w.inside, w.batch, w.tokens);
  if (!(w.latency >= 0) || w.workers < 1 || w.inner < 1)
    fail(where, "{} workers, {} inner steps, a latency of {} s: at least 1, 1 and 0", w.workers,
         w.inner, w.latency);
  if (!(w.growth >= 0 && w.growth < 1))
    fail(where, "a batch that grows as tokens to the {}: 0 to below 1", w.growth);
}

}  // namespace detail

// Seconds that a message needs to get from each of k workers to all, if a worker sends to one other
// at a time: in each latency the number of workers who know it doubles. No all_reduce between them
// takes less. (Workers that send to all others at once need one latency.)
inline double meeting_seconds(int workers, double latency) {
  return std::ceil(std::log2(static_cast<double>(workers))) * latency;
}

// The largest run. Errors: a time or a size that is not above 0; e outside 0 to below 1.
inline LatencyBound largest_run(const LatencyWall& w, Where where = Where::current()) {
  detail::expect_wall(w, where);
  LatencyBound bound{};
  bound.step = w.inside + meeting_seconds(w.workers, w.latency) / w.inner;
  bound.steps = w.run / bound.step;
  const double at_once = bound.steps * w.batch / std::pow(w.tokens, w.growth);
  bound.tokens = std::pow(at_once, 1 / (1 - w.growth));
  bound.batch = bound.tokens / bound.steps;
  bound.flops = 6 * (bound.tokens / 20) * bound.tokens;
  return bound;
}

// Seconds of latency inside a worker, in one step of a model of `layers` layers with tensor
// parallelism over `tp` chips: four all_reduces per layer, each a meeting of the chips.
inline double inside_seconds(int layers, int tp, double latency) {
  return 4.0 * layers * meeting_seconds(tp, latency);
}

}  // namespace yotta
