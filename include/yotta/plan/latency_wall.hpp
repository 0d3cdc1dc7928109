// The latency wall: training is a row of steps, each step waits for the one before, and no number
// of chips makes a step shorter than the latencies in it.
//
//     step     │ layer 1 │ layer 2 │ ... │ back │ all_reduce │    waits for messages: l seconds
//     run      │ step 1 │ step 2 │ ... │ step S │                 S l seconds at least
//
//     S = D / B           D tokens of the run, B tokens of a batch
//     S l <= T            T seconds that the run may take
//     D <= B T / l        and with 20 tokens for each parameter: C = 6 (D / 20) D FLOPs at most
//
// So the largest run does not depend on the machine's FLOP/s. Three things move the wall:
//
//     a shorter l         faster links and switches
//     a larger B          larger runs can use larger batches: B grows as D^b, b about 0.5
//     fewer messages      DiLoCo: of a step that waits for x inside and y between cities, y comes
//                         once in H steps: l = x + y / H
//
// Letters: S steps, D tokens, B tokens of a batch, T seconds, l seconds of latency, C FLOPs.
// References: Erdil and Schneider-Joseph (2024), "Data movement limits to frontier model training";
// Hoffmann et al. (2022): 20 tokens for each parameter; McCandlish et al. (2018): critical batches.
#pragma once

#include <cmath>
#include <cstdint>

namespace yotta {

// What a step waits for.
struct StepLatency {
  double inside = 0;   // seconds, of messages that each step needs
  double between = 0;  // of messages between workers
  double inner = 1;    // steps between two of those (H)

  constexpr double seconds() const { return inside + between / inner; }
};

// How large a batch may be for D tokens: `tokens` of it at `at` tokens, and as D^growth beyond.
struct BatchGrowth {
  double tokens = 16e6, at = 15.6e12;  // Llama 3 405B (its section 3.4.1: 16M at last)
  double growth = 0;                   // 0: one size for all runs

  double batch(double run) const { return tokens * std::pow(run / at, growth); }
};

// Steps of a run.
inline double sequential_steps(double tokens, const BatchGrowth& batches) {
  return tokens / batches.batch(tokens);
}

// The most tokens that `seconds` allow: D^(1 - b) = B0 T / (l D0^b).
inline double largest_tokens(double seconds, const StepLatency& latency,
                             const BatchGrowth& batches) {
  const double steps = seconds / latency.seconds();
  return std::pow(steps * batches.tokens / std::pow(batches.at, batches.growth),
                  1 / (1 - batches.growth));
}

// FLOPs of a run of so many tokens with 20 for each parameter.
constexpr double run_flops(double tokens) { return 6 * (tokens / 20) * tokens; }

// Seconds of a ring all_reduce of nothing over k cities that are `alpha` seconds apart.
constexpr double ring_latency(int k, double alpha) { return 2 * (k - 1) * alpha; }

}  // namespace yotta
