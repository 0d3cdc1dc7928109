// The bodies of plan/stage_walk.hpp.
#pragma once

#include "yotta/plan/stage_walk.hpp"

namespace yotta {

namespace detail {

// Goes through the layers of a stage one by one, with what is live beside them.
class StageClimb {
 public:
  StageClimb(const std::vector<LayerRun>& runs, const StageExtras& extras) : extras_(extras) {
    for (const LayerRun& run : runs)
      layers_.insert(layers_.end(), static_cast<size_t>(run.count), run.layer);
    numbers_.resize(layers_.size() + 2, 0), above_.resize(layers_.size() + 3, 0);
    for (size_t i = layers_.size(); i-- > 0;) {
      numbers_[i] = static_cast<double>(layers_[i]->parameters());
      above_[i] = above_[i + 1] + numbers_[i] + static_cast<double>(layers_[i]->table);
    }
    if (extras.root == 0) return;
    numbers_[0] = static_cast<double>(extras.root);
    numbers_[layers_.size() - 1] = 0;
  }

  double forward() const {
    double live = 0, peak = 0;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerFigures& layer = *layers_[i];
      peak = std::max(peak, live + layer.forward_peak + gathered(i) + gathered(i + 1));
      live += layer.saved - layer.in + layer.out;
    }
    return peak + root();
  }
  // B, or one of its halves. `first`: gradients are made and stay, and no sum is under way.
  double backward(bool input, bool weight, bool first = false) const {
    double live = 0, peak = 0;
    for (size_t i = layers_.size(); i-- > 0;) {
      const LayerFigures& layer = *layers_[i];
      if (input) {
        peak = std::max(peak, live + input_above(i, first));
        live += layer.kept + layer.in - layer.saved - layer.out;
      }
      if (!weight) continue;
      if (i == 0) live -= root_gradients();  // from here on they are the layer's own
      peak = std::max(peak, live + weight_above(i, input, first));
      live -= layer.kept;
      if (i + 1 == layers_.size()) live += root_gradients();
    }
    return peak + root();
  }

 private:
  // What the layers above have left, and the sums that are under way.
  double beside(size_t i, bool first) const {
    return reducing(i + 1, first) + (first ? made(i) : 0) + extras_.passing * tables_above(i);
  }
  double weight_peak(size_t i, bool first) const {
    const bool grows = (first && extras_.grows > 0) || extras_.unreduced > 0;
    const LayerFigures& layer = *layers_[i];
    return extras_.passing > 0 ? layer.passing_peak
           : grows             ? layer.growing_peak
                               : layer.weight_peak;
  }
  double input_above(size_t i, bool first) const {
    const LayerFigures& layer = *layers_[i];
    const double units = gathered(i) + gathered(i - 1) + beside(i, first);
    double peak = layer.input_peak;
    if (layer.again)
      peak = std::max({peak, weight_peak(i, first), layer.again_kept + (first ? scratch(i) : 0)});
    return peak + units;
  }
  double weight_above(size_t i, bool input, bool first) const {
    const LayerFigures& layer = *layers_[i];
    const double own =
        layer.again || extras_.unreduced > 0 ? layer.weight_peak + flat(i) : weight_peak(i, first);
    const bool has_ended = i + 1 == layers_.size() && (i == 0 || is_root(i));  // its unit's sum
    return own + (input ? gathered(i - 1) : 0) + beside(i, first) -
           (has_ended ? reducing(i + 1, first) : 0) + (first ? scratch(i) : 0);
  }

  double numbers(size_t i) const { return i < layers_.size() ? numbers_[i] : 0; }
  bool is_root(size_t i) const { return extras_.root > 0 && (i == 0 || i + 1 == layers_.size()); }
  double root() const { return extras_.gathered * static_cast<double>(extras_.root); }
  double root_gradients() const { return extras_.gradient * static_cast<double>(extras_.root); }
  double gathered(size_t i) const { return is_root(i) ? 0 : extras_.gathered * numbers(i); }
  // FSDP: the unit whose sum is under way; at the top that of the microbatch before.
  double reducing(size_t i, bool first) const {
    return extras_.unreduced * (i < layers_.size() ? numbers(i) : first ? 0 : numbers(0));
  }
  // FSDP's array of a unit's gradients, and what a checkpoint has made before.
  double flat(size_t i) const {
    if (extras_.unreduced == 0) return 0;
    if (is_root(i)) return root_gradients();
    return (layers_[i]->again ? 2 : 1) * extras_.gradient * numbers(i);
  }
  // Gradients that the layers above have left; FSDP's sums come a layer later.
  double made(size_t i) const {
    return extras_.grows * above_[extras_.unreduced > 0 ? i + 2 : i + 1];
  }
  // Of a tied table, from the first layer that uses it to the last.
  double tables_above(size_t i) const {
    return layers_.back()->table > 0 && i + 1 < layers_.size()
               ? static_cast<double>(layers_.back()->table)
               : 0;
  }
  double scratch(size_t i) const {
    const double done = extras_.before + extras_.gradient * above_[i + 1];
    return done > extras_.scratch_after ? extras_.scratch : 0;
  }

  StageExtras extras_;
  std::vector<const LayerFigures*> layers_;
  std::vector<double> numbers_, above_;  // parameters: of a layer; of it and those above it
};

}  // namespace detail

namespace detail {
inline void add_runs(StageFigures& stage, const std::vector<LayerRun>& runs) {
  for (const LayerRun& run : runs) {
    const LayerFigures& layer = *run.layer;
    const auto count = static_cast<double>(run.count);
    stage.forward += count * layer.forward;
    stage.input += count * layer.input;
    stage.weight += count * layer.weight;
    stage.saved += count * layer.saved, stage.kept += count * layer.kept;
    stage.parameters += run.count * layer.parameters();
    stage.experts += run.count * layer.experts();
  }
}
}  // namespace detail

YOTTA_INLINE StageFigures stage_figures(std::vector<LayerRun> runs, const StageExtras& extras) {
  StageFigures stage;
  detail::add_runs(stage, runs);
  const detail::StageClimb climb(runs, extras);
  stage.forward_peak = climb.forward(), stage.backward_peak = climb.backward(true, true);
  stage.first_backward_peak = climb.backward(true, true, true);
  stage.first_weight_peak = climb.backward(false, true, true);
  stage.input_peak = climb.backward(true, false), stage.weight_peak = climb.backward(false, true);
  if (!runs.empty()) {
    const LayerFigures& first = *runs.front().layer;
    stage.in = first.in, stage.out = runs.back().layer->out;
    stage.carried =
        extras.unreduced * static_cast<double>(extras.root > 0 ? extras.root : first.parameters());
  }
  stage.runs = std::move(runs);
  return stage;
}

}  // namespace yotta
