// The bodies of model/trainer.hpp.
#pragma once

#include "yotta/model/trainer.hpp"

#include <cmath>

#include "yotta/model/diagnose.hpp"
#include "yotta/nn/grad_clip.hpp"

namespace yotta {

YOTTA_INLINE double evaluate(Layers layers, std::span<const Microbatch> batches,
                             const LossOf& loss) {
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

YOTTA_INLINE StepReport Trainer::step(int64_t step, std::span<const Microbatch> batches,
                                      int64_t tokens, Where where) {
  StepReport report;
  report.learning_rate = options_.schedule(step);
  report.loss = forward_backward(step, batches, tokens);
  report.gradient_norm = norm();
  check(step, report, batches, tokens, where);
  if (hooks_.before_step) hooks_.before_step();
  optimizer_.step(report.learning_rate, clip_scale(report.gradient_norm, options_.clip));
  if (hooks_.after_step) hooks_.after_step();
  return report;
}

YOTTA_INLINE double Trainer::forward_backward(int64_t step, std::span<const Microbatch> batches,
                                              int64_t tokens) {
  for (const ParameterPtr& each : parameters_) each->zero_grad();
  BatchPosition position = position_of_step(step);
  position.tokens = tokens;
  const double loss = hooks_.run_microbatches ? hooks_.run_microbatches(position, batches, tokens)
                                              : run_microbatches(position, batches, tokens);
  if (hooks_.after_backward) hooks_.after_backward();
  return hooks_.sum_over_ranks ? hooks_.sum_over_ranks(loss) : loss;
}

YOTTA_INLINE double Trainer::run_microbatches(const BatchPosition& position,
                                              std::span<const Microbatch> batches, int64_t tokens) {
  double loss = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    if (hooks_.before_microbatch) hooks_.before_microbatch(i + 1 == batches.size());
    Saved saved(position_of(batches[i], position));
    Tensor dlogits;
    loss += hooks_.loss(forward(layers_, batches[i].inputs, saved), batches[i].targets,
                        scale(tokens), &dlogits);
    backward(layers_, std::move(dlogits), saved);
  }
  return loss;
}

YOTTA_INLINE double Trainer::norm() const {
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
  const bool spike = options_.spike_factor > 0 && losses_ >= 10 &&
                     report.loss > options_.spike_factor * average_ + 1;
  if (!finite || spike) {
    const std::string cause = finite ? largest() : not_finite(step, batches, tokens);
    if (hooks_.after_step) hooks_.after_step();  // ZeRO: gradients start from zero
    fail_as<TrainingDiverged>(
        where,
        "step {}: {} (loss {:.4g}, recent average {:.4g}, gradient norm {:.3g}, the step before "
        "{:.3g}). {}. Look at: the learning rate ({:.3g}) and its warm-up; clipping ({}); these "
        "sequences; f16 or bf16 sums. The weights are as before this step",
        step, finite ? "the loss jumped" : "a number is not finite", report.loss, average_,
        report.gradient_norm, last_norm_, cause, report.learning_rate, options_.clip);
  }
  average_ = losses_ == 0 ? report.loss : 0.9 * average_ + 0.1 * report.loss;
  last_norm_ = report.gradient_norm;
  ++losses_;
}

}  // namespace yotta
