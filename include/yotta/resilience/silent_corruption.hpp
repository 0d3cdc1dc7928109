// Silent corruption: a chip computes or keeps a wrong number, and nothing stops. Three detectors
// look for it; watched_run.hpp flips bits in a run that trains for real, to see which finds what.
//
//     rank 0   weights ─ F ─ activations ─ B ─ gradient ┐             ┌ sum ─ AdamW ─ weights
//     rank 1   weights ─ F ─ activations ─ B ─ gradient ┼ all_reduce ─┼ sum ─ AdamW ─ weights
//     rank 2   weights ─ F ─ activations ─ B ─ gradient ┘             └ sum ─ AdamW ─ weights
//                                               │                        │             │
//     replay     rank r + 1 computes rank r's gradient too: the same bits?             │
//     norm       is the norm of the summed gradient far from the last ones?            │
//     checksum   after the step, weights and moments of all replicas: the same bits? ──┘
//
// A checksum over replicas finds what has become different between them. A wrong gradient that goes
// into the all_reduce makes all of them wrong in the same way: they agree, and the checksum sees
// nothing. Only a rank that computes the same thing again sees that. The norm sees what is large:
// the top bit of the exponent, and not the last of the mantissa.
//
// Cost per step, p ranks:
//     norm       nothing: clipping needs it anyway
//     checksum   all weights and moments read once; 8 bytes to each rank
//     replay     a second forward and backward pass; 16 bytes to each rank. Every n-th step alone:
//                an n-th of that. A wrong gradient in between is missed; a wrong weight stays, and
//                is found at the next replay
//
// Contract: f32, on the CPU; ranks compute the same bits from the same numbers. A flip
// happens once.
// References: Dixit et al. (2021), "Silent data corruptions at scale"; Llama Team (2024), table 5;
// Gemini Team (2023), section 3 (replaying a step, and hot standby machines to find the chip).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/resilience/regroup.hpp"

namespace yotta {

// Where a bit is flipped; in the order of a step.
enum class FlipPlace : uint8_t { weight, activation, own_gradient, summed_gradient, moment };
inline constexpr int flip_places = 5;
constexpr const char* name(FlipPlace place) {
  constexpr const char* names[] = {"weight", "activation", "gradient before all_reduce",
                                   "gradient after all_reduce", "moment of AdamW"};
  return names[static_cast<int>(place)];
}

struct Flip {
  FlipPlace place = FlipPlace::weight;
  int bit = 0;  // of a float: 0 to 22 mantissa, 23 to 30 exponent, 31 sign
  int rank = 0;
  int64_t step = 0;
};

enum class Detector : uint8_t { checksum, norm, replay };
inline constexpr int detectors = 3;
constexpr const char* name(Detector detector) {
  constexpr const char* names[] = {"checksum", "norm", "replay"};
  return names[static_cast<int>(detector)];
}

// Flips a bit of the largest number of x, by magnitude.
inline void flip_bit(Tensor& x, int bit, Where where = Where::current()) {
  if (x.dtype() != DType::f32 || x.device() != Device::cpu || bit < 0 || bit > 31)
    fail(where, "bit {} of {} on {}: flips are of bits 0 to 31 of f32 on the CPU", bit,
         name(x.dtype()), name(x.device()));
  float* const number =
      std::max_element(x.data<float>(), x.data<float>() + x.numel(),
                       [](float a, float b) { return std::abs(a) < std::abs(b); });
  uint32_t bits = 0;
  std::memcpy(&bits, number, sizeof bits);
  bits ^= uint32_t{1} << bit;
  std::memcpy(number, &bits, sizeof bits);
}

// ---- detectors ----

// Differs for sure if one bit differs, or several within 8 bytes; beyond that, most probably.
inline uint64_t checksum(std::string_view bytes) {
  uint64_t sum = bytes.size();
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;  // odd: another word gives another product
    sum ^= sum >> 32;
  }
  return sum;
}

namespace detail {

inline uint64_t checksum_of_memory(std::span<const std::span<std::byte>> memory) {
  std::string sums;
  for (const auto& each : memory) {
    const uint64_t sum = checksum({reinterpret_cast<const char*>(each.data()), each.size()});
    sums.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  }
  return checksum(sums);
}

}  // namespace detail

// Of all that an optimizer holds; of all gradients.
inline uint64_t checksum_of(Optimizer& optimizer) {
  return detail::checksum_of_memory(memory_of(optimizer));
}
inline uint64_t checksum_of_gradients(const std::vector<ParameterPtr>& parameters) {
  std::vector<std::span<std::byte>> memory;
  for (const ParameterPtr& each : parameters)
    memory.push_back(
        {static_cast<std::byte*>(each->grad.raw()), static_cast<size_t>(each->grad.nbytes())});
  return detail::checksum_of_memory(memory);
}

// The ranks whose number is not that of most ranks; empty: all agree. Of two ranks it cannot be
// known which is right, so both are named.
inline std::vector<int> odd_ranks(const Communicator& world, uint64_t own) {
  const std::vector<int64_t> all = said_by_all(world, {static_cast<int64_t>(own)}, "checksum");
  const auto votes = [&](int64_t sum) { return std::count(all.begin(), all.end(), sum); };
  std::vector<int> odd;
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (2 * votes(all[rank]) <= std::ssize(all)) odd.push_back(static_cast<int>(rank));
  return odd;
}

// Is a gradient's norm far from the recent ones? In the first two steps it cannot know.
class NormWatch {
 public:
  explicit NormWatch(double factor = 4) : factor_(factor) {}
  bool is_odd(double norm) {
    const bool knows = seen_ >= 2;
    const bool odd =
        !std::isfinite(norm) || (knows && (norm > factor_ * average_ || norm < average_ / factor_));
    if (odd) return true;
    average_ = seen_++ == 0 ? norm : 0.8 * average_ + 0.2 * norm;
    return false;
  }

 private:
  double factor_, average_ = 0;
  int64_t seen_ = 0;
};

}  // namespace yotta
