// How fast each pair of rope turns with the position: theta^(-2i/d) for pair i; and how a model
// that was trained on T0 tokens is made to see longer texts. The fast pairs tell near tokens apart.
// The slow ones would reach angles that the model never saw, so Llama 3.1 slows them down.
//
//     wavelength 2 pi / f, in tokens      frequency
//     below T0 / high_freq_factor         f
//     between                             s f + (1 - s) f / factor, s falls from 1 to 0
//     above T0 / low_freq_factor          f / factor
//
// Letters: f frequency, in radians per token; T0 original context; s share that is kept.
// References: Llama 3.1's release (2024), apply_scaling; "llama3" in transformers' config.json.
#pragma once

#include <cstdint>
#include <numbers>

#include "yotta/core/system/accelerator.hpp"

namespace yotta {

// Factor 1 changes nothing.
struct RopeScaling {
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_context = 8192;  // T0
  constexpr bool operator==(const RopeScaling&) const = default;

  YOTTA_HOST_DEVICE double scaled(double frequency) const {
    if (factor == 1) return frequency;
    const double turns =  // in the original context
        static_cast<double>(original_context) * frequency / (2 * std::numbers::pi);
    const double share = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
    const double kept = share < 0 ? 0 : share > 1 ? 1 : share;
    return kept * frequency + (1 - kept) * (frequency / factor);
  }
};

struct RopeFrequencies {
  double theta;
  RopeScaling scaling;
  constexpr RopeFrequencies(double base = 10000, const RopeScaling& change = {})
      : theta(base), scaling(change) {}
};

}  // namespace yotta
