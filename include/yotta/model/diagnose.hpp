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

#include "yotta/comm/communicator.hpp"
#include "yotta/model/microbatch.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/nn/loss.hpp"

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
  explicit DetachedListeners(std::vector<ParameterPtr> parameters);
  ~DetachedListeners();
  DetachedListeners(const DetachedListeners&) = delete;
  DetachedListeners& operator=(const DetachedListeners&) = delete;

 private:
  std::vector<ParameterPtr> parameters_;
  std::vector<std::function<void(Parameter&)>> listeners_;
};

// Forward and backward of one microbatch, each layer checked. Uses up the gradients.
void check_layers(Finding& finding, Layers layers, const Microbatch& batch, double scale,
                  const BatchPosition& position, const LossOf& loss = loss_of);

// What broke, over all microbatches of a step on this rank. Leaves the gradients unusable.
Finding diagnose(Layers layers, std::span<const Microbatch> batches, double scale,
                 const BatchPosition& position, const LossOf& loss = loss_of);

// The earliest of all ranks' findings, in words, the same on all of them; empty if there is none.
// All ranks of `world` call; an empty communicator is this rank alone.
std::string earliest(const Finding& mine, Communicator world);

// What can be said without running a step again, which a pipeline stage cannot do alone.
Finding check_gradients(const std::vector<ParameterPtr>& parameters);

// The parameter with the largest gradient, in words.
std::string largest_gradient(const std::vector<ParameterPtr>& parameters);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/diagnose.ipp"
#endif
