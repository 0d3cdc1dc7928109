// Stage walk: what a slice of the stack costs a rank, from the figures of its layers.
//
//     a stage of 8 blocks, 2 of them checkpointed     embedding, 2 checkpointed, 6 kept, head
//
// Layers of one kind are alike, so a stage is a few runs of them, and its time a sum. Its peak is
// found at the ends of the runs: forward the last layer has all others' saved bytes beside it,
// backward the last layer is the first.
// Contract: figures outlive the stages that refer to them.
#pragma once

#include <vector>

#include "yotta/plan/layer_walk.hpp"

namespace yotta {

struct LayerRun {
  const LayerFigures* layer;
  int64_t count;
};

struct StageFigures {
  std::vector<LayerRun> runs = {};  // in the order of the stack
  PartTime forward, input, weight;  // F, I, W; B is I and W
  double saved = 0, kept = 0;       // bytes of a microbatch: from F to I; from I to W
  double in = 0, out = 0;           // what flows in and out, forward
  // Bytes above what was there before, of F, B, I and W.
  double forward_peak = 0, backward_peak = 0, input_peak = 0, weight_peak = 0;
  double first_backward_peak = 0, first_weight_peak = 0;  // while gradients are made
  int64_t parameters = 0;

  PartTime backward() const {
    PartTime both = input;
    return both += weight;
  }
};

// What a stage holds beside activations while it runs, in bytes of a parameter.
struct StageExtras {
  double grows = 0;      // gradients that are made in W and stay
  double borrowed = 0;   // by the largest parameter of a layer in W
  double gathered = 0;   // FSDP: by this layer and the next
  double unreduced = 0;  // FSDP: by the layer whose gradients are being summed
  double gradient = 0;   // of a number
  double scratch = 0;    // bytes, once `scratch_after` bytes of gradients have been made
  double scratch_after = 0;
};

YOTTA_API StageFigures stage_figures(std::vector<LayerRun> runs, const StageExtras& extras = {});

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)

namespace yotta {

namespace detail {

// Goes through the layers of a stage one by one, with what is live beside them.
class StageClimb {
 public:
  StageClimb(const std::vector<LayerRun>& runs, const StageExtras& extras) : extras_(extras) {
    for (const LayerRun& run : runs)
      for (int64_t i = 0; i < run.count; ++i) layers_.push_back(run.layer);
  }

  double forward() const {
    double live = 0, peak = 0;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerFigures& layer = *layers_[i];
      peak = std::max(peak, live + layer.forward_peak + gathered(i, i + 1));
      live += layer.saved - layer.in + layer.out;
    }
    return peak;
  }
  // B, or one of its halves. `first`: gradients are made, and stay.
  double backward(bool input, bool weight, bool first = false) const {
    double live = 0, peak = 0, made = 0;
    const double grows = first ? extras_.grows : 0;
    for (size_t i = layers_.size(); i-- > 0;) {
      const LayerFigures& layer = *layers_[i];
      if (input) {
        const double units = gathered(i, i - 1) + reducing(i + 1);
        peak = std::max(peak, live + made + layer.input_peak + units);
        if (layer.again_peak > 0) {  // with weights' gradients of its own
          const double own = extras_.unreduced > 0 ? extras_.gradient * numbers(i)
                                                   : extras_.borrowed * largest(layer);
          peak = std::max(peak, live + made + grown(layer, grows) + layer.again_peak + units + own);
        }
        live += layer.kept + layer.in - layer.saved - layer.out;
      }
      if (weight) {
        made += grown(layer, grows);
        const double again = layer.again_peak > 0 && extras_.unreduced > 0 ? 1 : 0;
        const double own = extras_.borrowed * largest(layer) + reducing(i + 1) +
                           (extras_.unreduced > 0 ? 1 + again : 0) * extras_.gradient * numbers(i);
        const double next = input && i > 0 ? extras_.gathered * numbers(i - 1) : 0;
        peak = std::max(peak, live + made + layer.weight_peak + own + next + scratch(i));
        live -= layer.kept;
      }
    }
    return peak;
  }

 private:
  double numbers(size_t i) const {
    return i < layers_.size() ? static_cast<double>(layers_[i]->parameters()) : 0;
  }
  double gathered(size_t i, size_t next) const {
    return extras_.gathered * (numbers(i) + numbers(next));
  }
  double reducing(size_t i) const { return extras_.unreduced * numbers(i); }
  static double grown(const LayerFigures& layer, double bytes) {
    return bytes * static_cast<double>(layer.parameters() + layer.table);
  }
  double scratch(size_t i) const {
    double done = 0;
    for (size_t above = i + 1; above < layers_.size(); ++above) done += 4 * numbers(above);
    return done > extras_.scratch_after ? extras_.scratch : 0;
  }
  static double largest(const LayerFigures& layer) {
    int64_t most = 0;
    for (const WeightReady& each : layer.weights) most = std::max(most, each.numbers);
    return static_cast<double>(most);
  }

  StageExtras extras_;
  std::vector<const LayerFigures*> layers_;
};

}  // namespace detail

StageFigures stage_figures(std::vector<LayerRun> runs, const StageExtras& extras) {
  StageFigures stage;
  for (const LayerRun& run : runs) {
    const LayerFigures& layer = *run.layer;
    const auto count = static_cast<double>(run.count);
    stage.forward += count * layer.forward;
    stage.input += count * layer.input;
    stage.weight += count * layer.weight;
    stage.saved += count * layer.saved, stage.kept += count * layer.kept;
    stage.parameters += run.count * layer.parameters();
  }
  const detail::StageClimb climb(runs, extras);
  stage.forward_peak = climb.forward(), stage.backward_peak = climb.backward(true, true);
  stage.first_backward_peak = climb.backward(true, true, true);
  stage.first_weight_peak = climb.backward(false, true, true);
  stage.input_peak = climb.backward(true, false), stage.weight_peak = climb.backward(false, true);
  if (!runs.empty()) stage.in = runs.front().layer->in, stage.out = runs.back().layer->out;
  stage.runs = std::move(runs);
  return stage;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
