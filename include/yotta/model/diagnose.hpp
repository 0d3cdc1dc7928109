// When training breaks: which layer was first, and what to look at.
//
// A NaN that reaches the loss has passed through every layer above the one that made it, and after
// one step of the optimizer all weights are NaN. So the step stops *before* the optimizer, and the
// same microbatches are run once more, layer by layer. (The forward pass is a pure function of the
// weights and the BatchPosition.)
//
//     forward    embedding ok │ layers.0 ok │ layers.1 inf <── first output that is not finite
//     backward   head ok │ layers.1 ok │ layers.0 nan      <── first gradient if the loss is finite
//
// Every rank runs the whole diagnosis, even after it has found something, because layers that are
// split over ranks communicate. Then the ranks agree on the earliest finding, and all of them
// report that one. Cost: nothing while all is well; one more step when it is not.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "yotta/model/microbatch.hpp"
#include "yotta/nn/layer.hpp"

namespace yotta {

// The first number on this rank that was not finite.
struct Finding {
  int64_t passed = 0;  // checks before it, in the order of computation
  std::string what;    // in words; empty: every check has passed

  // One more check. The first that fails is kept; `describe` says what it was.
  template <class Describe>
  void check(bool passes, const Describe& describe) {
    if (!what.empty()) return;
    if (passes)
      ++passed;
    else
      what = describe();
  }
};

// While one of these lives, no listener is told that a gradient is ready: what a diagnosis computes
// must not be reduced. Its destructor puts the listeners back.
class DetachedListeners {
 public:
  YOTTA_API explicit DetachedListeners(std::vector<ParameterPtr> parameters);
  YOTTA_API ~DetachedListeners();
  DetachedListeners(const DetachedListeners&) = delete;
  DetachedListeners& operator=(const DetachedListeners&) = delete;

 private:
  std::vector<ParameterPtr> parameters_;
  std::vector<std::function<void(Parameter&)>> listeners_;
};

// Forward and backward of one microbatch, each layer checked. Uses up the gradients.
YOTTA_API void check_layers(Finding& finding, Layers layers, const Microbatch& batch, double scale,
                            const BatchPosition& position, const Communicator& tp = {});

// What broke, over all microbatches of a step on this rank. Leaves the gradients unusable.
YOTTA_API Finding diagnose(Layers layers, std::span<const Microbatch> batches, double scale,
                           const BatchPosition& position, const Communicator& tp = {});

// The earliest of all ranks' findings, in words, the same on all of them; empty if there is none.
// All ranks of `world` call; an empty communicator is this rank alone.
YOTTA_API std::string earliest(const Finding& mine, Communicator world);

// What can be said without running a step again, which a pipeline stage cannot do alone.
YOTTA_API Finding check_gradients(const std::vector<ParameterPtr>& parameters);

// The parameter with the largest gradient, in words.
YOTTA_API std::string largest_gradient(const std::vector<ParameterPtr>& parameters);

}  // namespace yotta

#if YOTTA_BODIES_OF(model)
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "yotta/comm/communicator.hpp"
#include "yotta/model/named_tensor.hpp"
#include "yotta/nn/grad_clip.hpp"

namespace yotta {

DetachedListeners::DetachedListeners(std::vector<ParameterPtr> parameters)
    : parameters_(std::move(parameters)) {
  for (const ParameterPtr& each : parameters_)
    listeners_.push_back(std::exchange(each->on_grad_ready, nullptr));
}

DetachedListeners::~DetachedListeners() {
  for (size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i]->on_grad_ready = std::move(listeners_[i]);
}

void check_layers(Finding& finding, Layers layers, const Microbatch& batch, double scale,
                  const BatchPosition& position, const Communicator& tp) {
  Saved saved(position);
  Tensor x = batch.inputs;
  for (const LayerPtr& layer : layers) {
    x = layer->forward(x, saved.child(layer->name()));
    finding.check(all_finite(x), [&] {
      return fmt::format("the output of {} is the first that is not finite", layer->name());
    });
  }
  Tensor dy;
  const bool finite_loss = std::isfinite(loss_of(x, batch, scale, &dy, tp));
  finding.check(finite_loss, [] { return "the loss itself is not finite"; });
  zero_gradients(layers);
  for (size_t i = layers.size(); i-- > 0;) {
    Saved& own = saved.child(layers[i]->name());
    dy = layers[i]->backward_input(dy, own);
    layers[i]->backward_weight(own);
    finding.check(all_finite(dy), [&] {
      return fmt::format("the gradient of {}'s input is the first that is not finite",
                         layers[i]->name());
    });
    for (const ParameterPtr& each : parameters(layers.subspan(i, 1)))
      finding.check(all_finite(each->grad), [&] {
        return fmt::format("the gradient of {} is the first that is not finite", each->name);
      });
  }
}

Finding diagnose(Layers layers, std::span<const Microbatch> batches, double scale,
                 const BatchPosition& position, const Communicator& tp) {
  const std::vector<ParameterPtr> all = parameters(layers);
  const DetachedListeners detached(all);
  Finding finding;
  for (const ParameterPtr& each : all)
    finding.check(all_finite(each->value), [&] {
      return fmt::format("the weight {} was not finite before this step: look at the step before",
                         each->name);
    });
  for (const Microbatch& batch : batches) {
    const bool is_new = finding.what.empty();
    check_layers(finding, layers, batch, scale, position_of(batch, position), tp);
    if (is_new && !finding.what.empty())
      finding.what += fmt::format(", on sequences {} to {} of the batch", batch.first_sequence,
                                  batch.first_sequence + batch.inputs.dim(0) - 1);
  }
  return finding;
}

std::string earliest(const Finding& mine, Communicator world) {
  if (axis_size(world) == 1) return mine.what;
  constexpr int64_t never = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> passed(static_cast<size_t>(world.size()));
  world.all_gather(passed, std::vector{mine.what.empty() ? never : mine.passed},
                   {.label = "diagnose"});
  const auto first = std::min_element(passed.begin(), passed.end());
  if (*first == never) return "";
  const int rank = static_cast<int>(first - passed.begin());
  std::vector<int64_t> size = {std::ssize(mine.what)};
  world.broadcast(size, rank, {.label = "diagnose"});
  std::vector<uint8_t> text(mine.what.begin(), mine.what.end());
  text.resize(static_cast<size_t>(size[0]));
  world.broadcast(text, rank, {.label = "diagnose"});
  return fmt::format("on rank {}, {}", rank, std::string(text.begin(), text.end()));
}

Finding check_gradients(const std::vector<ParameterPtr>& parameters) {
  Finding finding;
  for (const ParameterPtr& each : parameters)
    finding.check(all_finite(each->grad),
                  [&] { return fmt::format("the gradient of {} is not finite", each->name); });
  return finding;
}

std::string largest_gradient(const std::vector<ParameterPtr>& parameters) {
  std::string name = "none";
  double most = 0, all = 0;
  for (const ParameterPtr& each : parameters) {
    if (!each->grad.defined()) continue;
    const double squares = sum_of_squares(each->grad);
    all += squares;
    if (squares > most) most = squares, name = each->name;
  }
  return fmt::format("the largest gradient is that of {}, norm {:.3g} of {:.3g}", name,
                     std::sqrt(most), std::sqrt(all));
}

}  // namespace yotta
#endif  // YOTTA_BODIES
