// The bodies of plan/stage_walk.hpp.
#pragma once

#include "yotta/plan/stage_walk.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "yotta/plan/plan_buckets.hpp"

namespace yotta {

namespace detail {

// ZeRO-2's buckets of a stage while it goes backward, in bytes. Where experts are summed apart,
// their buckets are open and travel beside the others'. W may give out gradients in another order
// than that of buckets, as that of a mixture, which has one product for all experts: then several
// are open.
class OpenBuckets {
 public:
  OpenBuckets(const std::vector<const LayerFigures*>& layers, const StageExtras& extras)
      : gradient_(extras.gradient),
        apart_(extras.experts_apart),
        before_(layers.size(), 0),
        most_(layers.size(), 0),
        with_gradients_(layers.size(), 0),
        leaves_(layers.size(), 0) {
    if (extras.bucket_bytes == 0) return;
    cut(layers, extras);
    for (size_t i = layers.size(); i-- > 0;) {
      before_[i] = most_[i] = with_gradients_[i] = left();
      for (const Gradient& each : gradients_of(*layers[i])) make(i, each);
    }
  }
  // Beside I of a layer; at most during its W, alone and with what W holds meanwhile; when one
  // leaves; after the last W.
  double before(size_t layer) const { return before_[layer]; }
  double most(size_t layer) const { return most_[layer]; }
  double with_gradients(size_t layer) const { return with_gradients_[layer]; }
  double leaves(size_t layer) const { return leaves_[layer]; }
  double left() const { return sets_[0].held() + sets_[1].held(); }

 private:
  struct Bucket {
    double bytes;
    size_t parameters, missing;  // of its gradients those that are still to come
    bool is_open = false;
  };
  // Of all weights, or of all but experts; and of experts.
  struct Set {
    PlanGroup group = {};
    std::vector<Bucket> buckets = {};
    size_t bucket = 0, parameter = 0;  // of the next weight, in their order
    size_t leaving = 0;                // the next bucket
    double open = 0, travels = 0;      // bytes of those that fill, and of the last that left

    double held() const { return open + travels; }
  };
  struct Gradient {
    const WeightReady* weight;
    size_t set, bucket;
  };

  void cut(const std::vector<const LayerFigures*>& layers, const StageExtras& extras) {
    std::vector<WeightReady> all;
    for (size_t i = layers.size(); i-- > 0;)
      all.insert(all.end(), layers[i]->weights.begin(), layers[i]->weights.end());
    const auto sets = summed_sets(all, apart_);
    for (size_t i = 0; i < sets.size(); ++i)
      for (const PlanBucket& each : plan_buckets(sets[i], extras.bucket_bytes, gradient_))
        sets_[i].buckets.push_back({gradient_ * static_cast<double>(each.numbers()),
                                    each.parameters.size(), each.parameters.size()});
    sets_[0].group = extras.data, sets_[1].group = extras.experts;
  }
  // In the order in which W gives them out.
  std::vector<Gradient> gradients_of(const LayerFigures& layer) {
    std::vector<Gradient> all;
    for (const WeightReady& each : layer.weights) {
      const size_t number = apart_ && each.expert ? 1 : 0;
      Set& set = sets_[number];
      if (set.parameter == set.buckets[set.bucket].parameters) ++set.bucket, set.parameter = 0;
      ++set.parameter;
      all.push_back({&each, number, set.bucket});
    }
    std::sort(all.begin(), all.end(), [](const Gradient& a, const Gradient& b) {
      return std::pair(a.weight->order, a.weight) < std::pair(b.weight->order, b.weight);
    });
    return all;
  }
  // The first gradient of a bucket opens it; with the last it is full, and leaves after those that
  // come before it. Meanwhile other gradients wait.
  void make(size_t layer, const Gradient& gradient) {
    Set& set = sets_[gradient.set];
    Bucket& bucket = set.buckets[gradient.bucket];
    if (!std::exchange(bucket.is_open, true)) set.open += bucket.bytes;
    most_[layer] = std::max(most_[layer], left());
    with_gradients_[layer] = std::max(with_gradients_[layer], left() + gradient.weight->passing);
    --bucket.missing;
    const double others = gradient_ * static_cast<double>(gradient.weight->waiting);
    for (; set.leaving < set.buckets.size() && set.buckets[set.leaving].missing == 0;
         ++set.leaving) {
      const double own = set.buckets[set.leaving].bytes;
      set.open -= own, set.travels = own * (1 + 1.0 / set.group.p);
      leaves_[layer] = std::max(leaves_[layer], left() + others + bucket_scratch(set.group, own));
    }
  }

  double gradient_;
  bool apart_;
  std::array<Set, 2> sets_ = {};
  std::vector<double> before_, most_, with_gradients_, leaves_;
};

// Goes through the layers of a stage one by one, with what is live beside them.
class StageClimb {
 public:
  StageClimb(const std::vector<LayerRun>& runs, const StageExtras& extras) : extras_(extras) {
    for (const LayerRun& run : runs) {
      const auto count = static_cast<size_t>(run.count);
      layers_.insert(layers_.end(), count, run.layer);
      numbers_.insert(numbers_.end(), count, static_cast<double>(run.layer->parameters()));
    }
    numbers_.resize(layers_.size() + 2, 0), above_.resize(layers_.size() + 3, 0);
    experts_above_ = above_;
    for (size_t i = layers_.size(); i-- > 0;) {
      above_[i] = above_[i + 1] + numbers_[i] + static_cast<double>(layers_[i]->table);
      if (extras_.experts_apart)
        experts_above_[i] = experts_above_[i + 1] + static_cast<double>(layers_[i]->experts());
    }
    open_.emplace(layers_, extras_);
    if (extras.root == 0) return;
    numbers_[0] = static_cast<double>(extras.root);
    numbers_[layers_.size() - 1] = 0;
  }

  // ZeRO-2's bucket that travels when the stage has gone backward.
  double left() const { return open_->left(); }

  double forward() const {
    double live = 0, peak = 0;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerFigures& layer = *layers_[i];
      peak = std::max(peak, live + layer.forward_peak + below(i) + gathered(i) + gathered(i + 1));
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
      peak = std::max(peak, live + open_->leaves(i));
      if (extras_.summing > 0) peak = std::max(peak, live + begun_sum(i, input, first));
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
  // What W holds, and ZeRO-2's buckets beside it. `again`: what a checkpoint holds meanwhile.
  double made_beside(size_t i, bool first, double again = 0) const {
    if (extras_.bucket_bytes > 0) return again + open_->with_gradients(i);
    return weight_peak(i, first);
  }
  double input_above(size_t i, bool first) const {
    const LayerFigures& layer = *layers_[i];
    const double units =
        below(i) + gathered(i) + (extras_.keeps ? 0 : gathered(i - 1)) + beside(i, first);
    double peak = layer.input_peak + open_->before(i);
    if (layer.again)
      peak = std::max({peak, made_beside(i, first, layer.again_kept),
                       layer.again_kept + (first ? scratch(i) : 0)});
    return peak + units;
  }
  double weight_above(size_t i, bool input, bool first) const {
    const LayerFigures& layer = *layers_[i];
    const double own = layer.again || extras_.unreduced > 0
                           ? layer.weight_peak + flat(i) + open_->most(i)
                           : made_beside(i, first);
    const bool has_ended = i + 1 == layers_.size() && (i == 0 || is_root(i));  // its unit's sum
    return own +
           (extras_.keeps ? below(i)
            : input       ? gathered(i - 1)
                          : 0) +
           beside(i, first) - (has_ended ? reducing(i + 1, first) : 0) + (first ? scratch(i) : 0);
  }

  double numbers(size_t i) const { return i < layers_.size() ? numbers_[i] : 0; }
  bool is_root(size_t i) const { return extras_.root > 0 && (i == 0 || i + 1 == layers_.size()); }
  double root() const { return extras_.gathered * static_cast<double>(extras_.root); }
  double root_gradients() const { return extras_.gradient * static_cast<double>(extras_.root); }
  double gathered(size_t i) const { return is_root(i) ? 0 : extras_.gathered * numbers(i); }
  // FSDP that keeps its units: those before this one.
  double below(size_t i) const {
    double sum = 0;
    for (size_t each = 0; extras_.keeps && each < i; ++each) sum += gathered(each);
    return sum;
  }
  // FSDP: the unit whose sum is under way; at the top that of the microbatch before.
  double reducing(size_t i, bool first) const {
    return extras_.unreduced * (i < layers_.size() ? numbers(i) : first ? 0 : numbers(0));
  }
  double begun_sum(size_t i, bool input, bool first) const {
    return (extras_.unreduced + extras_.summing) * numbers(i) + (input ? gathered(i - 1) : 0) +
           (first ? made(i) : 0);
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
    const double made[] = {above_[i + 1] - experts_above_[i + 1], experts_above_[i + 1]};
    double sum = 0;
    for (size_t set = 0; set < extras_.sets.size(); ++set) {
      const double done = extras_.sets[set].before + extras_.gradient * made[set];
      if (done > extras_.scratch_after) sum += extras_.sets[set].scratch;
    }
    return sum;
  }

  StageExtras extras_;
  std::vector<const LayerFigures*> layers_;
  std::vector<double> numbers_, above_;  // parameters: of a layer; of it and those above it
  std::vector<double> experts_above_;    // of these, a mixture's that are summed apart
  std::optional<OpenBuckets> open_;
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
        extras.unreduced * static_cast<double>(extras.root > 0 ? extras.root : first.parameters()) +
        climb.left();
  }
  stage.runs = std::move(runs);
  return stage;
}

}  // namespace yotta
