// The training step: forward and backward of each microbatch, then one step of the optimizer.
//
//     gradients = 0
//     for each microbatch:   logits = F(ids);  loss += ...;  B(dlogits)     gradients add up
//     sum over ranks         gradients and loss                             hooks: DDP and its like
//     norm, clip             one factor for all gradients
//     optimizer              weights change
//
// The loss is a sum over local tokens divided by the tokens of the *whole* batch, on every rank and
// in every microbatch. So sums of losses and of gradients are exact for any split: into
// microbatches, over ranks, even or uneven.
//
//     one batch of 8   sum of 8 / 8   three of 3, 3, 2   sum of 3 / 8 + sum of 3 / 8 + sum of 2 / 8
//
// On a GPU that computes alone, the host launches the whole step and waits for none of it: whether
// the step is taken, and with which factor, is decided there (nn/cpu/step_gate.hpp). It waits once,
// at the end, for the loss and the norm.
//
// Memory: one microbatch's Saved at a time. FLOPs: 6 per weight and token, and attention
// (nn/transformer_config.hpp). A loss or gradient that is not finite, and a loss that jumps, stop
// the run before the weights change.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/model/microbatch.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/nn/loss.hpp"
#include "yotta/nn/optimizer.hpp"

namespace yotta {

class DeviceScratch;  // core/system/accelerator.hpp
class RecordedWork;

// A run that cannot go on: the message names the step, the layer, and what to look at.
class TrainingDiverged : public Error {
 public:
  using Error::Error;
};

struct TrainOptions {
  Schedule schedule = {};
  double clip = 1;    // largest norm of all gradients; 0: no clipping
  uint64_t seed = 0;  // of dropout
  // A loss above this many times the recent average, plus 1 and 64 / sqrt(tokens of the step), is a
  // spike: a few tokens may all be of a rare kind. 0: never.
  double spike_factor = 2;
  // On a GPU that computes alone: two steps of a shape are launched as usual, the third is recorded
  // as a CUDA graph, and from then on a step is one launch. The ledger counts no op of it.
  bool graph = false;
};

// What a parallel technique does around the step. Any may be empty.
struct TrainHooks {
  std::function<void(bool last)> before_microbatch;  // DDP: all but the last under no_sync
  // Routers' losses are of the whole batch: all forward passes come before the first backward pass.
  bool balance_over_batch = false;
  // A pipeline: forward and backward of all microbatches of the step, in place of the trainer's
  // loop. Returns this rank's part of the loss.
  std::function<double(const BatchPosition&, std::span<const Microbatch>, int64_t tokens)>
      run_microbatches;
  std::function<void()> after_backward;          // DDP: finish()
  std::function<double(double)> sum_over_ranks;  // of the loss
  std::function<double(double)> sum_of_squares;  // over the parts of a split model; empty: whole
  std::function<void()> before_step;             // biases of routers: the step is taken
  std::function<void()> after_step;              // ZeRO: gather the new weights
  LossOf loss = loss_of;                         // tp: of a part of the logits
  Communicator world;  // all ranks of the run: they agree on what broke; empty: this one alone
};

struct StepReport {
  double loss = 0;           // of the whole batch, before the step
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
};

// The mean loss of some microbatches: forward only, nothing dropped.
double evaluate(Layers layers, std::span<const Microbatch> batches, const LossOf& loss = loss_of);

class Trainer {
 public:
  // `layers` ends in logits. All must outlive the trainer.
  Trainer(Layers layers, Optimizer& optimizer, TrainOptions options, TrainHooks hooks = {},
          Where where = Where::current());

  // One step on this rank's microbatches; `tokens`: of the whole batch, over all ranks.
  StepReport step(int64_t step, std::span<const Microbatch> batches, int64_t tokens,
                  Where where = Where::current());

  // Gradients of all microbatches, summed over ranks; returns the loss.
  double forward_backward(int64_t step, std::span<const Microbatch> batches, int64_t tokens);

 private:
  // Where dropout draws its masks in a step.
  BatchPosition position_of_step(int64_t step) const { return {options_.seed, step, 0, {}, true}; }
  static double scale(int64_t tokens) { return 1.0 / static_cast<double>(tokens); }

  // One microbatch after the other, forward and backward. Returns their loss; or, if `onto` is not
  // null, adds it to the number there, on the device.
  double run_microbatches(const BatchPosition& position, std::span<const Microbatch> batches,
                          int64_t tokens, double* onto = nullptr);

  // Does this rank compute alone, with a rule that a GPU can apply on its own?
  bool steps_on_device() const;
  StepReport step_on_device(int64_t step, std::span<const Microbatch> batches, int64_t tokens,
                            Where where);
  // What the last step came to. Errors: what late checks have found.
  StepNumbers ask_for_numbers(Accelerator& device);
  // All that the device does in a step.
  void launch_step(int64_t step, std::span<const Microbatch> batches, int64_t tokens, Where where);
  // The same by a graph, once there is one.
  void launch_recorded(int64_t step, std::span<const Microbatch> batches, int64_t tokens,
                       Where where);
  // The microbatches come to where the graph reads them, if they are like those before; if not,
  // the steps of another graph begin.
  void bring(std::span<const Microbatch> batches, int64_t tokens);
  // A loss of a step of so many tokens that is above it is a spike; infinity if none is.
  double spike_limit(int64_t tokens) const;

  double norm() const;

  // What the optimizer steps: the layers' parameters, or this rank's shards of them. With ZeRO only
  // the shards have gradients at this point.
  std::vector<ParameterPtr> stepped() const;
  std::string largest() const;
  // Which number broke first, in words; the same words on all ranks.
  std::string not_finite(int64_t step, std::span<const Microbatch> batches, int64_t tokens);

  // Throws TrainingDiverged if this step must not be taken. Code that catches it may go on with the
  // next step.
  void check(int64_t step, const StepReport& report, std::span<const Microbatch> batches,
             int64_t tokens, Where where);

  Layers layers_;
  std::vector<ParameterPtr> parameters_;
  Optimizer& optimizer_;
  TrainOptions options_;
  TrainHooks hooks_;
  int64_t losses_ = 0;
  double average_ = 0, last_norm_ = 0;      // of recent losses; of the last step
  std::shared_ptr<DeviceScratch> numbers_;  // StepNumbers, once a step was taken there

  // Steps of one shape, which may be a graph.
  struct Alike {
    std::vector<Microbatch> batches;  // copies, in the memory that the graph reads
    int64_t tokens = 0, steps = 0;
    std::shared_ptr<RecordedWork> graph;
  };
  Alike alike_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/trainer.ipp"
#endif
