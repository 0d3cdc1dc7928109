// The bodies of model/diagnose.hpp.
#pragma once

#include "yotta/model/diagnose.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "yotta/model/named_tensor.hpp"
#include "yotta/nn/grad_clip.hpp"

namespace yotta {

YOTTA_INLINE DetachedListeners::DetachedListeners(std::vector<ParameterPtr> parameters)
    : parameters_(std::move(parameters)) {
  for (const ParameterPtr& each : parameters_)
    listeners_.push_back(std::exchange(each->on_grad_ready, nullptr));
}

YOTTA_INLINE DetachedListeners::~DetachedListeners() {
  for (size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i]->on_grad_ready = std::move(listeners_[i]);
}

YOTTA_INLINE void check_layers(Finding& finding, Layers layers, const Microbatch& batch,
                               double scale, const BatchPosition& position, const LossOf& loss) {
  Saved saved(position);
  Tensor x = batch.inputs;
  for (const LayerPtr& layer : layers) {
    x = layer->forward(x, saved.child(layer->name()));
    finding.check(all_finite(x), [&] {
      return fmt::format("the output of {} is the first that is not finite", layer->name());
    });
  }
  zero_gradients(layers);  // a loss in chunks adds to the head's (nn/chunked_loss.hpp)
  Tensor dy;
  const bool finite_loss = std::isfinite(loss(x, batch.targets, scale, &dy));
  finding.check(finite_loss, [] { return "the loss itself is not finite"; });
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

YOTTA_INLINE Finding diagnose(Layers layers, std::span<const Microbatch> batches, double scale,
                              const BatchPosition& position, const LossOf& loss) {
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
    check_layers(finding, layers, batch, scale, position_of(batch, position), loss);
    if (is_new && !finding.what.empty())
      finding.what += fmt::format(", on sequences {} to {} of the batch", batch.first_sequence,
                                  batch.first_sequence + batch.inputs.dim(0) - 1);
  }
  return finding;
}

YOTTA_INLINE std::string earliest(const Finding& mine, Communicator world) {
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

YOTTA_INLINE Finding check_gradients(const std::vector<ParameterPtr>& parameters) {
  Finding finding;
  for (const ParameterPtr& each : parameters)
    finding.check(all_finite(each->grad),
                  [&] { return fmt::format("the gradient of {} is not finite", each->name); });
  return finding;
}

YOTTA_INLINE std::string largest_gradient(const std::vector<ParameterPtr>& parameters) {
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
