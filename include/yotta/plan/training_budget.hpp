// From a model's FLOPs to years, megawatts and euros; and why more chips stop helping.
//
//     FLOPs = 6 N D       seconds = FLOPs / (chips x dense peak x MFU)       (run_needs())
//                         energy  = chips x watts x seconds                  power = chips x watts
//
// Three limits of p chips:
//
//     strong scaling      the batch stays, each chip gets 1/p of it. What all chips exchange does
//                         not shrink, so a step never takes less than that
//     weak scaling        each chip keeps its part, the batch grows with p. A step keeps its time;
//                         but beyond the critical batch it takes no fewer steps
//     pipeline of p       m microbatches take m + p - 1 turns in place of m p: a speedup of
//                         m p / (m + p - 1), which is Amdahl's law with a serial share of 1 / m
//
// Amdahl's law: of one chip's time the share s cannot be divided. p chips are 1 / (s + (1 - s) / p)
// times as fast, and never more than 1 / s.
//
// Letters: N weights, D tokens, p chips, m microbatches, s serial share.
// References: Brown et al. 2020 (GPT-3), table 2.2 and section 2.2; Llama team 2024, section 3.2;
// Amdahl 1967; McCandlish et al. 2018, equation 2.7.
#pragma once

#include <array>
#include <cmath>

#include "yotta/machine/chip.hpp"
#include "yotta/plan/scaling_laws.hpp"

namespace yotta {

// ---- what was trained ----

struct TrainedModel {
  const char* name;
  double parameters, tokens;
  constexpr double flops() const { return 6 * parameters * tokens; }
};
// GPT-3's data set had 499e9 tokens, and a slide multiplies with them: 5.24e23. Training read 300e9
// of them: 3.15e23.
constexpr TrainedModel gpt3_trained() { return {"GPT-3 175B", 175e9, 300e9}; }
inline constexpr double gpt3_data_set = 499e9;
// Gopher's FLOPs, which Chinchilla was planned for: Hoffmann et al. 2022, section 1.
inline constexpr double gopher_flops = 5.76e23;
constexpr TrainedModel gopher_trained() { return {"Gopher 280B", 280e9, 300e9}; }
constexpr TrainedModel chinchilla_trained() { return {"Chinchilla 70B", 70e9, 1.4e12}; }
constexpr TrainedModel llama3_trained() { return {"Llama 3 405B", 405e9, 15.6e12}; }

inline constexpr double seconds_a_year = 365 * seconds_a_day;
inline constexpr double joules_a_kwh = 3.6e6;

// ---- what it is trained on ----

// f32 FLOP/s of a processor whose cores have two units of fused multiply-adds.
constexpr double processor_peak(double cores, double hertz, double lanes) {
  return cores * hertz * 2 * 2 * lanes;
}
struct Computer {
  const char* name;
  double peak;  // dense FLOP/s in what it trains in
};
// Round numbers for what stands on a desk; chips from their datasheets.
inline std::array<Computer, 5> known_computers() {
  return {{{"a laptop", processor_peak(8, 3e9, 8)},
           {"a workstation", processor_peak(64, 3e9, 16)},
           {"a TPU v5p", chip_named("v5p").bf16},
           {"a TPU v6e", chip_named("v6e").bf16},
           {"an H100", chip_named("h100").bf16}}};
}
inline constexpr double h100_watts = 700;  // of the SXM module, by its datasheet

// ---- euros ----

struct Prices {
  double kwh = 0.2;        // euros
  double chip_hour = 2;    // euros, of a rented chip with its share of host and network
  double overhead = 1.25;  // power of the building over that of the chips
};
struct RunPrice {
  double energy = 0, rent = 0;  // euros
};
// Errors: a price below 0.
inline RunPrice price_of(const RunNeeds& needs, const Fleet& fleet, const Prices& prices = {},
                         Where where = Where::current()) {
  if (!(prices.kwh >= 0 && prices.chip_hour >= 0 && prices.overhead >= 1))
    fail(where,
         "prices of {} euros per kWh and {} per chip-hour, and an overhead of {}: expected "
         "0 or more, and 1 or more",
         prices.kwh, prices.chip_hour, prices.overhead);
  return {needs.joules / joules_a_kwh * prices.overhead * prices.kwh,
          fleet.chips * needs.seconds / 3600 * prices.chip_hour};
}

// ---- more chips ----

constexpr double amdahl(double serial, double p) { return 1 / (serial + (1 - serial) / p); }

// p stages over one, with m microbatches: m p / (m + p - 1).
constexpr double pipeline_speedup(double p, double m) { return amdahl(1 / m, p); }

// A step: seconds of computing on one chip, and of what chips exchange, however many they are.
struct SharedStep {
  double compute = 1, exchange = 0;
};
constexpr double strong_seconds(const SharedStep& step, double p) {
  return p > 1 ? step.compute / p + step.exchange : step.compute;
}
constexpr double strong_speedup(const SharedStep& step, double p) {
  return step.compute / strong_seconds(step, p);
}

// How much faster p chips reach a loss if each brings a batch of its own: steps fall as
// 1 + critical / batch, and each takes the exchange besides.
constexpr double weak_speedup(const SharedStep& step, double p, double chip_batch,
                              double critical_batch) {
  const double steps = (1 + critical_batch / (p * chip_batch)) / (1 + critical_batch / chip_batch);
  return step.compute / (steps * (step.compute + (p > 1 ? step.exchange : 0)));
}

}  // namespace yotta
