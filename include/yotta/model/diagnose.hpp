// When training breaks: which layer was first, and what to look at.
//
// A NaN that reaches the loss has passed through every layer above the one that made it, and by the time
// anybody looks all weights are NaN. So the step stops *before* the optimizer, and the same microbatches
// are run once more, layer by layer (the forward pass is a pure function of the weights and the BatchPosition):
//
//     forward    embedding ok │ layers.0 ok │ layers.1 inf <── first output that is not finite
//     backward   head ok │ layers.1 ok │ layers.0 nan      <── or, if the loss was fine, first gradient
//
// Costs nothing while all is well, and one more step when it is not.
#pragma once

#include <cmath>
#include <limits>
#include <string>

#include "yotta/model/named_tensor.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

namespace yotta {

// Some of a step's sequences, of which a rank computes forward and backward at once.
struct Microbatch {
  Tensor inputs;               // (B, T) i32 token ids
  Tensor targets;              // (B, T) i32, the token after each
  int64_t first_sequence = 0;  // of these rows, in the whole batch of the step
  Positions positions = {};    // of these columns, in the whole sequence
};

// Where a microbatch's rows and columns stand in a step that is at `step`: its seed, number, and whether it trains.
inline BatchPosition place_of(const Microbatch& batch, BatchPosition step) {
  step.first_sequence = batch.first_sequence;
  step.positions = batch.positions;
  return step;
}

// The loss of a microbatch, and dlogits if asked for. scale = 1 / tokens of the whole batch. With a vocabulary
// that is cut over tp the logits are this rank's, (B, T, V/tp), and the loss is the same on all of its ranks.
inline double loss_of(Tensor logits, const Microbatch& batch, double scale, Tensor* dlogits,
                      const Communicator& tp = {}) {
  Tensor rows = as_rows(logits);  // (N, V/tp)
  const Tensor targets = batch.targets.reshape({batch.targets.numel()});
  const CrossEntropy loss = vocab_parallel_cross_entropy(rows, targets, scale, tp);
  if (dlogits == nullptr) return loss.loss;
  vocab_parallel_cross_entropy_backward_in_place(rows, targets, loss.log_sum_exp, scale, tp);
  *dlogits = std::move(logits);
  return loss.loss;
}

// The first layer, in the order of computation, that turns finite numbers into others; in words. Uses up
// the gradients.
inline std::string first_not_finite(Layers layers, const Microbatch& batch, double scale,
                                    const BatchPosition& place, const Communicator& tp = {}) {
  Saved saved(place);
  Tensor x = batch.inputs;
  for (const LayerPtr& layer : layers) {
    x = layer->forward(x, saved.child(layer->name()));
    if (!all_finite(x))
      return fmt::format("the output of {} is the first that is not finite", layer->name());
  }
  Tensor dy;
  if (!std::isfinite(loss_of(x, batch, scale, &dy, tp))) return "the loss itself is not finite";
  zero_gradients(layers);
  for (size_t i = layers.size(); i-- > 0;) {
    Saved& own = saved.child(layers[i]->name());
    dy = layers[i]->backward_input(dy, own);
    layers[i]->backward_weight(own);
    if (!all_finite(dy))
      return fmt::format("the gradient of {}'s input is the first that is not finite",
                         layers[i]->name());
    for (const ParameterPtr& each : parameters(layers.subspan(i, 1)))
      if (!all_finite(each->grad))
        return fmt::format("the gradient of {} is the first that is not finite", each->name);
  }
  return "";
}

// What broke, over all microbatches of a step on this rank; empty if every layer is finite on its own here.
inline std::string diagnose(Layers layers, std::span<const Microbatch> batches, double scale,
                            const BatchPosition& place, const Communicator& tp = {}) {
  for (const ParameterPtr& each : parameters(layers)) {
    each->on_grad_ready = nullptr;  // nobody may reduce what is computed here
    if (!all_finite(each->value))
      return fmt::format("the weight {} was not finite before this step: look at the step before",
                         each->name);
  }
  for (const Microbatch& batch : batches) {
    const std::string found = first_not_finite(layers, batch, scale, place_of(batch, place), tp);
    if (!found.empty())
      return fmt::format("{}, on sequences {} to {} of the batch", found, batch.first_sequence,
                         batch.first_sequence + batch.inputs.dim(0) - 1);
  }
  return "";
}

// What can be said without running a step again, which a pipeline stage alone cannot; empty if nothing.
inline std::string gradient_not_finite(const std::vector<ParameterPtr>& parameters) {
  for (const ParameterPtr& each : parameters)
    if (!all_finite(each->grad))
      return fmt::format("on this rank the gradient of {} is not finite", each->name);
  return "";
}

// The parameter with the largest gradient, in words.
inline std::string largest_gradient(const std::vector<ParameterPtr>& parameters) {
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
