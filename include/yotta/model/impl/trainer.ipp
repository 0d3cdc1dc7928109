// The bodies of model/trainer.hpp.
#pragma once

#include "yotta/model/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "yotta/core/options.hpp"
#include "yotta/model/diagnose.hpp"
#include "yotta/nn/cpu/zero_gradients.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/load_balance.hpp"

namespace yotta {

YOTTA_INLINE double evaluate(Layers layers, std::span<const Microbatch> batches,
                             const LossOf& loss) {
  const PhaseScope phase(Phase::forward);
  double sum = 0;
  int64_t tokens = 0;
  for (const Microbatch& each : batches) tokens += counted_targets(each.targets);
  for (const Microbatch& each : batches) {
    Saved saved(BatchPosition{.positions = each.positions});
    sum += loss(forward(layers, each.inputs, saved), each.targets,
                1.0 / static_cast<double>(tokens), nullptr);
  }
  return sum;
}

YOTTA_INLINE Trainer::Trainer(Layers layers, Optimizer& optimizer, TrainOptions options,
                              TrainHooks hooks, Where where)
    : layers_(layers),
      parameters_(yotta::parameters(layers)),
      optimizer_(optimizer),
      options_(options),
      hooks_(std::move(hooks)) {
  check_option(where, "TrainOptions::clip", options, &TrainOptions::clip, zero_or_endless);
  check_option(where, "TrainOptions::spike_factor", options, &TrainOptions::spike_factor,
               zero_or_endless);
  const Schedule& schedule = options.schedule;
  check_option(where, "Schedule::peak", schedule, &Schedule::peak, zero_or_more);
  check_option(where, "Schedule::floor", schedule, &Schedule::floor, zero_or_more);
  check_option(where, "Schedule::warmup", schedule, &Schedule::warmup, zero_or_more);
  check_option(where, "Schedule::steps", schedule, &Schedule::steps, zero_or_more);
}

YOTTA_INLINE StepReport Trainer::step(int64_t step, std::span<const Microbatch> batches,
                                      int64_t tokens, Where where) {
  const StepScope number(step);
  const RangeScope range("step", std::to_string(step).c_str());
  if (steps_on_device()) return step_on_device(step, batches, tokens, where);
  if (options_.graph)
    fail(where, "a step is a graph only on one GPU that computes alone, with AdamW");
  StepReport report;
  report.learning_rate = options_.schedule(step);
  report.loss = forward_backward(step, batches, tokens);
  report.gradient_norm = norm();
  check(step, report, batches, tokens, where);
  if (hooks_.before_step) hooks_.before_step();
  const RangeScope stepped("all", name(Phase::optimizer));
  optimizer_.step(report.learning_rate, clip_scale(report.gradient_norm, options_.clip));
  if (hooks_.after_step) hooks_.after_step();
  return report;
}

YOTTA_INLINE bool Trainer::steps_on_device() const {
  const TrainHooks& h = hooks_;
  const bool hooked = h.before_microbatch || h.balance_over_batch || h.run_microbatches ||
                      h.after_backward || h.sum_over_ranks || h.sum_of_squares || h.before_step ||
                      h.after_step || axis_size(h.world) != 1;
  const auto is_here = [](const ParameterPtr& each) {
    return each->value.device() == Device::cuda && each->copies == 1;
  };
  return !hooked && is_loss_of(h.loss) && optimizer_.steps_on_device() && !parameters_.empty() &&
         std::all_of(parameters_.begin(), parameters_.end(), is_here) &&
         optimizer_.slots().size() == parameters_.size();
}

YOTTA_INLINE StepReport Trainer::step_on_device(int64_t step, std::span<const Microbatch> batches,
                                                int64_t tokens, Where where) {
  StepReport report;
  report.learning_rate = options_.schedule(step);
  Accelerator& device = accelerator_or_fail(where);
  if (numbers_ == nullptr) {
    numbers_ = std::make_shared<DeviceScratch>(sizeof(StepNumbers), where);
    device.zero(numbers_->as<StepNumbers>(), sizeof(StepNumbers));
  }
  auto* const there = numbers_->as<StepNumbers>();
  StepNumbers now;
  now.limit = spike_limit(tokens);
  now.clip = options_.clip;
  optimizer_.set_factors(now, report.learning_rate);
  device.copy(there, &now, offsetof(StepNumbers, refused), Transfer::to_device);
  if (options_.graph)
    launch_recorded(step, batches, tokens, where);
  else
    launch_step(step, batches, tokens, where);
  now = ask_for_numbers(device);
  report.loss = now.loss;
  report.gradient_norm = now.norm;
  check(step, report, batches, tokens, where);
  return report;
}

// Steps that were not taken are not the optimizer's. A late check that throws here has been heard:
// the second look does not throw it again.
YOTTA_INLINE StepNumbers Trainer::ask_for_numbers(Accelerator& device) {
  auto* const there = numbers_->as<StepNumbers>();
  const auto look = [&] {
    StepNumbers now;
    device.copy(&now, there, sizeof now, Transfer::to_host);
    optimizer_.set_steps(optimizer_.steps() - static_cast<int64_t>(now.refused));
    device.zero(&there->refused, sizeof there->refused);
    return now;
  };
  try {
    return look();
  } catch (const Error&) {
    look();
    throw;
  }
}

YOTTA_INLINE void Trainer::launch_step(int64_t step, std::span<const Microbatch> batches,
                                       int64_t tokens, Where where) {
  auto* const there = numbers_->as<StepNumbers>();
  zero_gradients(parameters_);
  BatchPosition position = position_of_step(step);
  position.tokens = tokens;
  run_microbatches(position, batches, tokens, &there->loss);
  {
    const PhaseScope phase(Phase::optimizer);
    gate_step(parameters_, there, where);
  }
  const RangeScope range("all", name(Phase::optimizer));
  optimizer_.step_on_device(there);
}

namespace detail {

// Whether a graph of one serves the other, with other tokens.
inline bool are_alike(std::span<const Microbatch> a, std::span<const Microbatch> b) {
  const auto alike = [](const Microbatch& x, const Microbatch& y) {
    return x.inputs.shape() == y.inputs.shape() && x.targets.shape() == y.targets.shape() &&
           x.positions.first == y.positions.first && x.positions.second == y.positions.second;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), alike);
}

}  // namespace detail

YOTTA_INLINE void Trainer::bring(std::span<const Microbatch> batches, int64_t tokens) {
  if (tokens == alike_.tokens && detail::are_alike(batches, alike_.batches)) {
    for (size_t i = 0; i < batches.size(); ++i) {
      alike_.batches[i].inputs.copy_from(batches[i].inputs);
      alike_.batches[i].targets.copy_from(batches[i].targets);
    }
    return;
  }
  alike_ = {{batches.begin(), batches.end()}, tokens, 0, nullptr};
  for (Microbatch& each : alike_.batches) {
    each.inputs = each.inputs.to(Device::cuda).clone();
    each.targets = each.targets.to(Device::cuda).clone();
  }
}

YOTTA_INLINE void Trainer::launch_recorded(int64_t step, std::span<const Microbatch> batches,
                                           int64_t tokens, Where where) {
  for (const Microbatch& each : batches)
    if (each.packing != nullptr)
      fail(where, "a step with packed sequences is no graph: documents end elsewhere in each step");
  bring(batches, tokens);
  const auto launch = [&] { launch_step(step, alike_.batches, tokens, where); };
  // The first step makes the gradients, the second leaves the memory of all that follow.
  if (alike_.steps++ < 2) return launch();
  if (alike_.graph == nullptr)
    alike_.graph = accelerator_or_fail(where).record(launch, where);
  else
    optimizer_.set_steps(optimizer_.steps() + 1);
  alike_.graph->launch(where);
}

YOTTA_INLINE double Trainer::spike_limit(int64_t tokens) const {
  const bool known = options_.spike_factor > 0 && losses_ >= 10;
  if (!known) return std::numeric_limits<double>::infinity();
  return options_.spike_factor * average_ + 1 + 64 / std::sqrt(static_cast<double>(tokens));
}

YOTTA_INLINE double Trainer::forward_backward(int64_t step, std::span<const Microbatch> batches,
                                              int64_t tokens) {
  zero_gradients(parameters_);
  BatchPosition position = position_of_step(step);
  position.tokens = tokens;
  BatchLoads loads;
  if (hooks_.balance_over_batch) position.loads = &loads;
  const double loss = hooks_.run_microbatches ? hooks_.run_microbatches(position, batches, tokens)
                                              : run_microbatches(position, batches, tokens);
  if (hooks_.after_backward) hooks_.after_backward();
  return hooks_.sum_over_ranks ? hooks_.sum_over_ranks(loss) : loss;
}

YOTTA_INLINE double Trainer::run_microbatches(const BatchPosition& position,
                                              std::span<const Microbatch> batches, int64_t tokens,
                                              double* onto) {
  struct Passed {
    Saved saved;
    Tensor dlogits;
  };
  std::deque<Passed> passed;  // one, or all of the batch
  double loss = 0;
  const auto begin = [&](size_t i) {
    if (hooks_.before_microbatch) hooks_.before_microbatch(i + 1 == batches.size());
  };
  const auto go_back = [&] {
    backward(layers_, std::move(passed.front().dlogits), passed.front().saved);
    passed.pop_front();
  };
  for (size_t i = 0; i < batches.size(); ++i) {
    if (!hooks_.balance_over_batch) begin(i);
    passed.push_back({Saved(position_of(batches[i], position)), {}});
    Passed& now = passed.back();
    {
      const PhaseScope phase(Phase::forward);
      Tensor logits = forward(layers_, batches[i].inputs, now.saved);
      if (onto != nullptr)
        loss_onto(onto, std::move(logits), batches[i].targets, scale(tokens), &now.dlogits);
      else
        loss += hooks_.loss(std::move(logits), batches[i].targets, scale(tokens), &now.dlogits);
    }
    if (!hooks_.balance_over_batch) go_back();
  }
  for (size_t i = 0; !passed.empty(); ++i) begin(i), go_back();
  return loss;
}

YOTTA_INLINE double Trainer::norm() const {
  const PhaseScope phase(Phase::optimizer);
  const double squares = sum_of_squares(parameters_);
  return std::sqrt(hooks_.sum_of_squares ? hooks_.sum_of_squares(squares) : squares);
}

YOTTA_INLINE std::vector<ParameterPtr> Trainer::stepped() const {
  std::vector<ParameterPtr> all;
  for (const Optimizer::Slot& slot : optimizer_.slots()) all.push_back(slot.parameter);
  return all;
}

YOTTA_INLINE std::string Trainer::largest() const {
  return (hooks_.sum_of_squares ? "on this rank " : "") + largest_gradient(stepped());
}

YOTTA_INLINE std::string Trainer::not_finite(int64_t step, std::span<const Microbatch> batches,
                                             int64_t tokens) {
  Finding finding = check_gradients(stepped());
  if (!hooks_.run_microbatches) {
    const Finding first =
        diagnose(layers_, batches, scale(tokens), position_of_step(step), hooks_.loss);
    if (hooks_.after_backward) hooks_.after_backward();  // FSDP: nothing is under way any more
    if (!first.what.empty()) finding = first;
  }
  const std::string cause = earliest(finding, hooks_.world);
  return cause.empty() ? "every layer is finite on its own: the numbers overflow in a sum" : cause;
}

YOTTA_INLINE void Trainer::check(int64_t step, const StepReport& report,
                                 std::span<const Microbatch> batches, int64_t tokens, Where where) {
  const bool finite = std::isfinite(report.loss) && std::isfinite(report.gradient_norm);
  const bool spike = report.loss > spike_limit(tokens);
  if (!finite || spike) {
    const std::string cause = finite ? largest() : not_finite(step, batches, tokens);
    if (hooks_.after_step) hooks_.after_step();  // ZeRO: gradients start from zero
    fail_as<TrainingDiverged>(
        where,
        "step {}: {} (loss {:.4g}, recent average {:.4g}, gradient norm {:.3g}, the step before "
        "{:.3g}): {}. Look at: the learning rate ({:.3g}) and its warm-up; clipping ({}); these "
        "sequences; f16 or bf16 sums. The weights are as before this step",
        step, finite ? "the loss jumped" : "a number is not finite", report.loss, average_,
        report.gradient_norm, last_norm_, cause, report.learning_rate, options_.clip);
  }
  average_ = losses_ == 0 ? report.loss : 0.9 * average_ + 0.1 * report.loss;
  last_norm_ = report.gradient_norm;
  ++losses_;
}

}  // namespace yotta
