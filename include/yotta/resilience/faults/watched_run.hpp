// Watched run: data-parallel training on thread ranks, one bit of which is flipped, with the
// detectors of silent_corruption.hpp at work in every step.
//
//     a step of rank r
//       weight        ─ flip? ─┐
//       forward                ├─ activation: flip? (between two layers, on the way forward)
//       backward               │
//       own gradient  ─ flip? ─┤
//       replay: rank r + 1's gradient, from its sequences and with this rank's weights
//       all_reduce             │
//       summed gradient ─ flip?┤
//       norm                   │
//       moment of AdamW ─ flip?┘
//       optimizer
//       checksum: weights and moments of all replicas
//
// The flip is of one number of one rank, in one step. What it does to the losses is reported, too.
//
// Cost: that of its detectors; two gradients per step, and a copy of the gradients.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "yotta/nn/transformer_config.hpp"
#include "yotta/resilience/silent_corruption.hpp"

namespace yotta {

// Data-parallel training on thread ranks, with all three detectors at work.
struct WatchedPlan {
  int ranks = 3;
  int64_t steps = 8, sequences = 2;  // sequences: of each rank in a step
  TransformerConfig model = gpt2_config(2, 16, 2, 8, 64);
};
struct WatchedRun {
  // When each detector first said something; -1: never.
  std::array<int64_t, detectors> alarms = {-1, -1, -1};
  std::vector<int> odd;        // the ranks that the checksum names first
  std::vector<double> losses;  // of each step
  // Counted on rank 0.
  int64_t checksum_bytes = 0, replay_bytes = 0, bytes_read = 0, gradients = 0;

  int64_t alarm(Detector detector) const { return alarms[static_cast<size_t>(detector)]; }
};
WatchedRun train_watched(const WatchedPlan& plan, std::optional<Flip> flip = {});

// The bits that tables of flips have: the exponent's first and last, and one of the mantissa.
inline constexpr std::array<int, 3> flip_bits = {30, 23, 14};
constexpr const char* name_of_bit(int bit) {  // of one of these
  return bit == 30 ? "30, exponent" : bit == 23 ? "23, exponent" : "14, mantissa";
}
// "in the step", "1 step later", "missed"
std::string in_words(const WatchedRun& run, Detector detector, const Flip& flip);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/resilience/faults/impl/watched_run.ipp"
#endif
