// Pipeline: runs a schedule on the ranks of a communicator, each with its stages of the model.
//
//     rank 0   embedding, layers.0 to 2     ─── y (B, T, C) ──>    F: receive x, forward, send y
//     rank 1   layers.3 to 5                <── dx (B, T, C) ──    B: receive dy, backward, send dx
//     rank 2   layers.6 to 8, head, loss                           I, W: the halves of B
//
// A schedule is data: for each rank a list of actions, "1F0 1F1 1B0 1B1" (stage 1: F and B are the
// forward and backward passes of microbatches 0 and 1), which pipeline_schedule.hpp makes. The
// executor knows nothing of GPipe or 1F1B. It plays its rank's list, and what to receive and to
// send follows from the action. Each microbatch in flight has a Saved of its own; how many there
// are at once depends on the schedule.
//
// Sends are asynchronous (PipelineMessages): with 1F1B neighbours send to each other at the same
// moment, and if both waited for their receiver both would wait forever. So a sent tensor must stay
// alive until it has arrived. We learn that without asking: a rank plays its list in order, so a
// message that comes from one of its actions proves that it has received for all actions before it.
//
// Cost: each boundary between two ranks moves one (B, T, C) tensor per microbatch in each
// direction, in a bf16 model 2 bytes per number: 2 (p v - 1) messages per microbatch in all.
// Memory: most_in_flight(actions) times a stage's Saved, and the tensors that were sent and may not
// have arrived: a y for each microbatch in flight (p - r with 1F1B, m with GPipe), and the dx that
// no later message has confirmed.
//
// F&B, two actions that run together, take both their inputs first and send both results last.
// Between the two nothing waits, so a device may mix their kernels. Ours runs F, then B.
//
// Contract: chunk c of rank r is stage_on(placement, r, c, p). All ranks run the same schedule with
// the same microbatches. x is read on stage 0 only; `between` says what flows between stages. The
// gradients of microbatches add up, in the schedule's order, so `loss` divides by the tokens of the
// whole batch, and the caller sets gradients to zero before run(). Weights that two stages share
// (tied ends, DualPipe's two copies) are summed by TiedParameters (tied_parameters.hpp). With one
// rank, or an empty communicator, all stages are here: the serial case.
// References: see pipeline_schedule.hpp.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/parallel/pipeline_schedule.hpp"

namespace yotta {

// ---- what a step takes ----

// The layers [first, last) of n that stage `stage` of `stages` gets, when they are shared out
// evenly.
struct StageLayers {
  int64_t first = 0, last = 0;
};
constexpr StageLayers layers_of_stage(int64_t n, int stages, int stage) {
  return {chunk_begin(n, stages, stage), chunk_begin(n, stages, stage + 1)};
}

struct PipelineMicrobatch {
  Tensor x;                  // what stage 0 takes: (B, T) ids; undefined elsewhere is fine
  Shape between;             // what flows from stage to stage: (B, T, C)
  DType dtype = DType::f32;  // of it: bf16 in a bf16 model
  BatchPosition place;       // where it is in the whole batch, for dropout and positions
};

// On the last stage: returns the loss of microbatch i and fills dy. y, dy: (B, T, V) if the stage
// ends in the head.
using PipelineLoss = std::function<double(size_t i, const Tensor& y, Tensor& dy)>;

struct PipelineReport {
  double loss = 0;         // of the microbatches whose last stage is here; 0 if none
  int64_t most_saved = 0;  // microbatches in flight at once, over this rank's chunks
};

// ---- messages ----

// What a rank receives from other stages and sends to them in a step. A message has a tag of its
// own, for its direction, stage and microbatch. Stages of one rank hand tensors over without one.
class PipelineMessages {
 public:
  PipelineMessages(const Communicator& comm, const PipelineSchedule& schedule)
      : comm_(comm), schedule_(&schedule) {}

  // The stages that action `a` receives from and sends to; -1: none.
  struct Route {
    int from = -1, to = -1;
  };
  Route route(const PipelineAction& a) const {
    Route route;
    const int before = a.stage - 1, after = a.stage + 1 < schedule_->stages ? a.stage + 1 : -1;
    if (a.op == PipelineOp::F) route = {before, after};
    if (a.op == PipelineOp::B || a.op == PipelineOp::I) route = {after, before};
    return route;
  }

  // Waits for what `a` needs from another stage; undefined if it needs nothing.
  Tensor receive(const PipelineAction& a, const Shape& shape, DType dtype) {
    Tensor data;
    const int from = route(a).from;
    if (from < 0) return data;
    const int rank = schedule_->rank_of(from, a.microbatch);
    if (rank == axis_rank(comm_)) return handed_over(a);
    data = Tensor::empty(shape, dtype);
    comm_.recv(data, rank, tag(a));
    release(rank, {from, a.op, a.microbatch});
    return data;
  }

  // Sends what `a` made to the stage that waits for it, and goes on.
  void send(const PipelineAction& a, Tensor made) {
    const int to = route(a).to;
    if (to < 0) return;
    const int rank = schedule_->rank_of(to, a.microbatch);
    const PipelineAction receiver{to, a.op, a.microbatch};
    if (rank == axis_rank(comm_)) return hand_over(receiver, std::move(made));
    Work work = comm_.send_async(made, rank, tag(receiver));
    sent_.push_back({std::move(made), std::move(work), rank, receiver});
  }

  // Waits until all that was sent has been received.
  void finish() {
    for (Sent& each : sent_) each.work.wait();
    sent_.clear();
  }

 private:
  // A message that may not have been received yet: its data must stay.
  struct Sent {
    Tensor data;
    Work work;
    int to;                      // rank
    PipelineAction received_by;  // the receiver's action that takes it
  };

  // A number for each message of a step, by the action that receives it.
  int tag(const PipelineAction& receiver) const {
    const int64_t forward = receiver.op == PipelineOp::F ? 1 : 0;
    return static_cast<int>((2 * receiver.stage + forward) * schedule_->microbatches +
                            receiver.microbatch);
  }
  void hand_over(const PipelineAction& receiver, Tensor data) {
    handed_.emplace(tag(receiver), std::move(data));
  }
  Tensor handed_over(const PipelineAction& receiver) {
    auto handed = handed_.extract(tag(receiver));
    if (handed.empty()) fail(Where::current(), "{} comes before what it needs", str(receiver));
    return std::move(handed.mapped());
  }

  // Rank `rank` has come to its action `done`: what was sent to the actions before it has arrived,
  // and can be freed.
  void release(int rank, const PipelineAction& done) {
    const PipelineActions& all = schedule_->by_rank[static_cast<size_t>(rank)];
    const auto find = [&](PipelineActions::const_iterator end, const PipelineAction& wanted) {
      return std::find_if(all.begin(), end, [&](const auto& each) {
        return same_message(each, wanted);  // B and I take the same
      });
    };
    const auto until = find(all.end(), done);
    for (size_t i = sent_.size(); i-- > 0;) {
      if (sent_[i].to != rank || find(until, sent_[i].received_by) == until) continue;
      sent_[i].work.wait();
      sent_.erase(sent_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  Communicator comm_;
  const PipelineSchedule* schedule_;
  std::map<int, Tensor> handed_;  // by tag
  std::deque<Sent> sent_;
};

// ---- the executor ----

class Pipeline {
 public:
  // chunks[c] is this rank's c-th stage. before_backward(last), if given, is called before each B,
  // I or W; `last` is true for the last microbatch of the chunk to go backward, which completes the
  // chunk's gradients (DDP: no_sync for the others).
  Pipeline(const Communicator& comm, const std::vector<Layers>& chunks,
           std::function<void(bool last)> before_backward = nullptr)
      : comm_(comm), before_backward_(std::move(before_backward)) {
    for (const Layers& chunk : chunks) chunks_.push_back(std::make_unique<Sequential>(chunk));
  }

  // One step: every microbatch forward and backward. Gradients accumulate in the chunks'
  // parameters.
  PipelineReport run(const PipelineSchedule& schedule,
                     std::span<const PipelineMicrobatch> microbatches, const PipelineLoss& loss,
                     Where where = Where::current()) {
    check(schedule, std::ssize(microbatches), where);
    schedule_ = &schedule;
    microbatches_ = microbatches;
    loss_ = &loss;
    report_ = {};
    saved_now_ = 0;
    in_flight_.clear();
    in_flight_.resize(chunks_.size() * microbatches.size());
    messages_.emplace(comm_, schedule);
    const PipelineActions& mine = actions(axis_rank(comm_));
    for (size_t i = 0; i < mine.size(); ++i) {
      if (mine[i].with_next && i + 1 < mine.size()) {
        play_together(mine[i], mine[i + 1]);
        ++i;
      } else {
        play(mine[i]);
      }
    }
    messages_->finish();
    return report_;
  }

 private:
  // A microbatch in a chunk, from its F to its B or W.
  struct InFlight {
    std::optional<Saved> saved;
    Tensor dy;  // of the last stage: made by the loss, used by B
  };

  void play(const PipelineAction& a) {
    if (a.op == PipelineOp::F) return give(forward(a, take(a)), a);
    begin_backward(a);
    if (a.op != PipelineOp::W) return give(backward(a, take(a)), a);
    chunk(a).backward_weight(*in_flight(a).saved);
    forget(a);
  }
  void play_together(const PipelineAction& f, const PipelineAction& b) {
    const Tensor x = take(f);
    Tensor dy = take(b);
    Tensor y = forward(f, x);
    begin_backward(b);
    Tensor dx = backward(b, std::move(dy));
    give(std::move(y), f);
    give(std::move(dx), b);
  }
  void begin_backward(const PipelineAction& a) {
    if (before_backward_) before_backward_(goes_last(a));
    if (!in_flight(a).saved)
      fail(Where::current(), "{} comes before its F, or after its Saved was used up", str(a));
  }

  // x, y, dy and dx are as PipelineMicrobatch::between, but for the model's ends. y is undefined on
  // the last stage, where the loss takes it.
  Tensor forward(const PipelineAction& a, const Tensor& x) {
    const PhaseScope phase(Phase::forward);
    const PipelineMicrobatch& microbatch = microbatches_[static_cast<size_t>(a.microbatch)];
    InFlight& here = in_flight(a);
    here.saved.emplace(microbatch.place);
    report_.most_saved = std::max(report_.most_saved, ++saved_now_);
    Tensor y = chunk(a).forward(x, *here.saved);
    if (!is_last(a.stage)) return y;
    report_.loss += (*loss_)(static_cast<size_t>(a.microbatch), y, here.dy);
    return {};
  }
  // I: the chunk's dgrads. B: layer by layer, each its dgrad and then its wgrad, so that what a
  // layer has kept is gone before the next one's turn.
  Tensor backward(const PipelineAction& a, Tensor dy) {
    InFlight& here = in_flight(a);
    Tensor dx = a.op == PipelineOp::I
                    ? chunk(a).backward_input(dy, *here.saved)
                    : yotta::backward(chunk(a).layers(), std::move(dy), *here.saved);
    if (a.op == PipelineOp::B) forget(a);
    return dx;
  }
  void forget(const PipelineAction& a) {
    in_flight(a).saved.reset();
    --saved_now_;
  }

  // What action `a` works on: from another stage, or what the model and the loss begin with.
  Tensor take(const PipelineAction& a) {
    const PipelineMicrobatch& microbatch = microbatches_[static_cast<size_t>(a.microbatch)];
    if (a.op == PipelineOp::F && a.stage == 0) return microbatch.x;
    if (a.op != PipelineOp::F && is_last(a.stage)) return std::exchange(in_flight(a).dy, {});
    return messages_->receive(a, microbatch.between, microbatch.dtype);
  }

  // Sends the result of action `a` to the stage that waits for it, if there is one.
  void give(Tensor data, const PipelineAction& a) {
    if (messages_->route(a).to < 0) return;
    const PipelineMicrobatch& microbatch = microbatches_[static_cast<size_t>(a.microbatch)];
    if (!data.defined() || data.shape() != microbatch.between || data.dtype() != microbatch.dtype)
      fail(Where::current(),
           "{} made {}, but {} {} flows between stages: does stage {} have its first layer? (with "
           "more stages than layers some have none)",
           str(a), data.describe(), yotta::str(microbatch.between), name(microbatch.dtype),
           a.stage);
    messages_->send(a, std::move(data));
  }

  // Does no other microbatch of this chunk go backward after this one?
  bool goes_last(const PipelineAction& a) const {
    const PipelineActions& all = actions(axis_rank(comm_));
    return std::none_of(std::find(all.begin(), all.end(), a), all.end(),
                        [&](const PipelineAction& later) {
                          return later.stage == a.stage && later.op != PipelineOp::F &&
                                 later.microbatch != a.microbatch;
                        });
  }
  void check(const PipelineSchedule& schedule, int64_t microbatches, Where where) const {
    if (schedule.ranks != axis_size(comm_))
      fail(where, "a schedule for {} ranks on a communicator of {}: make one for {} ranks",
           schedule.ranks, axis_size(comm_), axis_size(comm_));
    if (schedule.chunks() != static_cast<int>(chunks_.size()))
      fail(where,
           "a schedule of {} stages on {} ranks needs {} chunks of the model per rank, not {}",
           schedule.stages, schedule.ranks, schedule.chunks(), chunks_.size());
    if (schedule.microbatches != microbatches)
      fail(where, "a schedule for {} microbatches was given {}", schedule.microbatches,
           microbatches);
  }
  const PipelineActions& actions(int rank) const {
    return schedule_->by_rank[static_cast<size_t>(rank)];
  }
  bool is_last(int stage) const { return stage + 1 == schedule_->stages; }
  int chunk_of(const PipelineAction& a) const { return schedule_->chunk_of(a.stage, a.microbatch); }
  Sequential& chunk(const PipelineAction& a) const {
    return *chunks_[static_cast<size_t>(chunk_of(a))];
  }
  InFlight& in_flight(const PipelineAction& a) {
    return in_flight_[static_cast<size_t>(chunk_of(a) * schedule_->microbatches + a.microbatch)];
  }

  Communicator comm_;
  std::vector<std::unique_ptr<Sequential>> chunks_;
  std::function<void(bool)> before_backward_;

  // Of the step that runs.
  const PipelineSchedule* schedule_ = nullptr;
  std::span<const PipelineMicrobatch> microbatches_;
  const PipelineLoss* loss_ = nullptr;
  std::vector<InFlight> in_flight_;  // by chunk and microbatch
  std::optional<PipelineMessages> messages_;
  int64_t saved_now_ = 0;
  PipelineReport report_;
};

}  // namespace yotta
