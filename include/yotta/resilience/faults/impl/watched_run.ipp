// The bodies of resilience/faults/watched_run.hpp.
#pragma once

#include "yotta/resilience/faults/watched_run.hpp"

#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/resilience/faults/faults.hpp"

namespace yotta {

namespace detail {
// One rank of a watched run.
class WatchedRank {
 public:
  WatchedRank(const WatchedPlan& plan, std::optional<Flip> flip, const Communicator& world)
      : plan_(plan), flip_(flip), world_(world), model_(plan.model) {
    const auto maybe_flipped = [this](const Tensor& x) { return flips_ ? flipped(x) : x; };
    stack_ = with_calls_midway(model_.stack(), maybe_flipped, [] {});
    for (int i = 0; i < 40; ++i) text_ += "one bit is wrong, and nothing stops. ";
    for (char& c : text_) c = static_cast<char>(c & 63);  // the model's vocabulary
    parameters_ = parameters(stack_);
    optimizer_.emplace(parameters_);
    trainer_.emplace(stack_, *optimizer_, TrainOptions{});
  }

  void step(int64_t step) {
    step_ = step;
    ParameterPtr& hit = parameters_[parameters_.size() / 2];
    if (hits(FlipPlace::weight)) flip_bit(hit->value, flip_->bit);
    flips_ = hits(FlipPlace::activation);
    const double loss = gradient_of(world_.rank());
    flips_ = false;
    if (hits(FlipPlace::own_gradient)) flip_bit(hit->grad, flip_->bit);
    replay();
    add_up(loss);
    if (hits(FlipPlace::summed_gradient)) flip_bit(hit->grad, flip_->bit);
    const double norm = gradient_norm(parameters_);
    see(Detector::norm, watch_.is_odd(norm));
    if (hits(FlipPlace::moment))
      flip_bit(optimizer_->slots()[parameters_.size() / 2].state[0], flip_->bit);
    optimizer_->step(1e-2, clip_scale(norm, 1));
    const std::vector<int> odd = odd_ranks(world_, checksum_of(*optimizer_));
    if (run_.odd.empty()) run_.odd = odd;
    see(Detector::checksum, !odd.empty());
  }

  WatchedRun run(const Ledger& ledger) {
    run_.checksum_bytes = ledger.traffic("checksum").bytes_sent;
    run_.replay_bytes = ledger.traffic("replay").bytes_sent;
    for (const auto& each : memory_of(*optimizer_)) run_.bytes_read += std::ssize(each);
    return run_;
  }

 private:
  bool hits(FlipPlace place) const {
    return flip_ && flip_->place == place && flip_->rank == world_.rank() && flip_->step == step_;
  }
  Tensor flipped(const Tensor& activation) const {
    Tensor y = activation.clone();
    flip_bit(y, flip_->bit);
    return y;
  }
  void see(Detector detector, bool alarm) {
    std::vector<double> any = {alarm ? 1.0 : 0.0};
    world_.all_reduce(any, ReduceOp::max, {.label = "alarm"});
    int64_t& first = run_.alarms[static_cast<size_t>(detector)];
    if (any[0] > 0 && first < 0) first = step_;
  }
  // The part of the step's gradient that belongs to a rank's sequences.
  double gradient_of(int rank) {
    const Batches batches(text_, plan_.model.context, 1);
    const int64_t n = plan_.sequences;
    const Batch batch = batches.draw(step_, rank * n, n);
    ++run_.gradients;
    return trainer_->forward_backward(step_, microbatches(batch.inputs, batch.targets, 1, rank * n),
                                      plan_.ranks * n * plan_.model.context);
  }
  // Computes the next rank's gradient, and compares it with what that rank says.
  void replay() {
    std::vector<Tensor> own;
    for (const ParameterPtr& each : parameters_) own.push_back(each->grad.clone());
    const int p = world_.size(), rank = world_.rank();
    const auto said = static_cast<int64_t>(checksum_of_gradients(parameters_));
    gradient_of((rank + 1) % p);
    const auto again = static_cast<int64_t>(checksum_of_gradients(parameters_));
    for (size_t i = 0; i < own.size(); ++i) parameters_[i]->grad.copy_from(own[i]);
    const std::vector<int64_t> all = said_by_all(world_, {said, again}, "replay");
    const auto next = static_cast<size_t>((rank + 1) % p);
    see(Detector::replay, all[2 * next] != again);
  }
  void add_up(double loss) {
    std::vector<double> sum = {loss};
    world_.all_reduce(sum, ReduceOp::sum, {.label = "loss"});
    run_.losses.push_back(sum[0]);
    for (const ParameterPtr& each : parameters_) world_.all_reduce(each->grad);
  }

  WatchedPlan plan_;
  std::optional<Flip> flip_;
  bool flips_ = false;  // an activation, on the way forward
  Communicator world_;
  Transformer model_;
  std::string text_;
  std::vector<LayerPtr> stack_;
  std::vector<ParameterPtr> parameters_;
  std::optional<AdamW> optimizer_;
  std::optional<Trainer> trainer_;
  NormWatch watch_;
  WatchedRun run_;
  int64_t step_ = 0;
};
}  // namespace detail

YOTTA_INLINE WatchedRun train_watched(const WatchedPlan& plan, std::optional<Flip> flip) {
  WatchedRun run;
  run_ranks(plan.ranks, [&](Communicator& world) {
    detail::WatchedRank rank(plan, flip, world);
    for (int64_t step = 0; step < plan.steps; ++step) rank.step(step);
    if (world.rank() == 0) run = rank.run(context().ledger);
  });
  return run;
}

YOTTA_INLINE std::string in_words(const WatchedRun& run, Detector detector, const Flip& flip) {
  const int64_t alarm = run.alarm(detector);
  if (alarm < 0) return "missed";
  if (alarm < flip.step) return "false alarm";
  if (alarm == flip.step) return "in the step";
  return fmt::format("{} step{} later", alarm - flip.step, alarm - flip.step == 1 ? "" : "s");
}

}  // namespace yotta
