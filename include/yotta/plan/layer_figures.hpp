// Layer figures: what a layer costs a rank in one microbatch, in seconds and bytes.
//
//     F    forward                  computed, waited for; bytes kept until I
//     I    gradient of its input    the same; bytes kept until W
//     W    gradients of weights     the same; which gradients are ready, in order
//
// recorded_layers.hpp finds them. From here on a layer is these figures: a stage adds them up.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace yotta {

// For whom a rank waits: the axes of the mesh, ep apart; data: all that sum gradients.
enum class Exposed : uint8_t { tp, cp, ep, data };
inline constexpr int exposed_kinds = 4;
constexpr const char* name(Exposed kind) {
  constexpr const char* names[] = {"tp", "cp", "ep", "data"};
  return names[static_cast<int>(kind)];
}

// Seconds of a part of a step, by what the compute lane did. `sent`: for how long its messages had
// a port. If others use the port at the same time, each gets half, and the part takes longer by
// `slowed`, if that lasts for all of it.
struct PartTime {
  double computed = 0;
  std::array<double, exposed_kinds> exposed = {}, sent = {}, slowed = {};

  constexpr double& operator[](Exposed kind) { return exposed[static_cast<std::size_t>(kind)]; }
  constexpr double seconds() const {
    double sum = computed;
    for (const double each : exposed) sum += each;
    return sum;
  }
  constexpr PartTime& operator+=(const PartTime& more) {
    computed += more.computed;
    for (std::size_t i = 0; i < exposed.size(); ++i) {
      exposed[i] += more.exposed[i];
      sent[i] += more.sent[i], slowed[i] += more.slowed[i];
    }
    return *this;
  }
};
constexpr PartTime operator*(double times, PartTime part) {
  part.computed *= times;
  for (auto* seconds : {&part.exposed, &part.sent, &part.slowed})
    for (double& each : *seconds) each *= times;
  return part;
}

// A parameter whose gradient is ready.
struct WeightReady {
  int64_t numbers;
  bool expert = false;  // of a mixture
  bool table = false;   // of tokens, as embedding or as output matrix
  int64_t order = 0;    // of those that W gives out, from 0 on
  int64_t waiting = 0;  // numbers of gradients that W has made by then, and gives out later
  double passing = 0;   // bytes of W since the one before, at most, without gradients given out
};
inline int64_t numbers_in(const std::vector<WeightReady>& weights) {
  int64_t sum = 0;
  for (const WeightReady& each : weights) sum += each.numbers;
  return sum;
}

struct LayerFigures {
  PartTime forward, input, weight;  // F, I, W
  double saved = 0, kept = 0;       // bytes from F to I; from I to W
  double in = 0, out = 0;           // bytes of what flows in and out, forward
  double forward_peak = 0, input_peak = 0, weight_peak = 0;  // above what was there before
  // The same of W if gradients are made in it, and stay; or if each one lasts for a moment.
  double growing_peak = 0, passing_peak = 0;
  bool again = false;          // checkpointed: W is a part of I, and has these peaks there
  double again_kept = 0;       // and begins with these bytes
  PartTime again_weight = {};  // and takes so long
  PartTime operators = {};     // of F: what recomputation by operators runs again
  double operators_kept = 0;   // and bytes that it keeps
  int64_t table = 0;  // numbers of a tied table: their gradient begins here, and ends elsewhere
  std::vector<WeightReady> weights = {};  // in the order of buckets, the last one first

  int64_t parameters() const { return numbers_in(weights); }
  int64_t experts() const {  // of these, the experts' of a mixture
    int64_t sum = 0;
    for (const WeightReady& each : weights) sum += each.expert ? each.numbers : 0;
    return sum;
  }
};

// A block whose forward pass is run again in I, which does W too.
inline LayerFigures checkpointed_figures(const LayerFigures& block) {
  LayerFigures once = block;
  once.saved = once.in;
  once.kept = 0;
  once.input += block.forward;
  once.input += block.weight;
  once.again_weight = std::exchange(once.weight, {});
  const double kept = block.saved - block.in;  // beside x, while it runs again
  once.input_peak = std::max(block.forward_peak, kept + block.input_peak);
  const double again = block.kept - block.in;
  once.again = true, once.again_kept = again;
  once.input_peak = std::max(once.input_peak, again + block.weight_peak);
  once.growing_peak += again, once.passing_peak += again;
  once.weight_peak = 0;
  return once;
}

// A block of which backward makes all again but attention's output and that of every second
// product, as TorchTitan's selective recomputation by operators.
inline LayerFigures operators_again(const LayerFigures& block) {
  LayerFigures once = block;
  once.input += block.operators;
  const double freed = std::max(0.0, block.saved - block.operators_kept);
  once.saved -= freed;
  once.input_peak += freed;
  return once;
}

}  // namespace yotta
