// Pipeline schedules: the model's layers are cut into stages, one after another on p ranks, and the
// batch into m microbatches. A schedule says in which order each rank works. It is data: lists of
// actions, which can be printed, drawn, timed and checked without any rank; pipeline.hpp runs them.
//
//     p = 4, m = 4, B takes twice as long as F           time ->
//     GPipe     rank 0   F0 F1 F2 F3 .. .. .. .. .. .. .. .. .. B0--- B1--- B2--- B3---
//               rank 1   .. F0 F1 F2 F3 .. .. .. .. .. .. B0--- B1--- B2--- B3--- .. ..
//               rank 2   .. .. F0 F1 F2 F3 .. .. .. B0--- B1--- B2--- B3--- .. .. .. ..
//               rank 3   .. .. .. F0 F1 F2 F3 B0--- B1--- B2--- B3--- .. .. .. .. .. ..
//     1F1B      rank 0   F0 F1 F2 F3 .. .. .. .. .. .. B0--- .. B1--- .. B2--- .. B3---
//               rank 1   .. F0 F1 F2 .. .. .. .. B0--- F3 B1--- .. B2--- .. B3--- .. ..
//               rank 2   .. .. F0 F1 .. .. B0--- F2 B1--- F3 B2--- .. B3--- .. .. .. ..
//               rank 3   .. .. .. F0 B0--- F1 B1--- F2 B2--- F3 B3--- .. .. .. .. .. ..
//
// The idle places are the bubble: filling and draining takes p - 1 stages' time, whatever m is.
// 1F1B has GPipe's bubble; it runs each microbatch backward as soon as it can, so fewer are in
// flight and need memory. Interleaving gives each rank v chunks of the model, p stages apart:
// filling then takes p - 1 *chunks'* time.
//
//                   bubble / total    in flight on rank r                   messages per microbatch
//     naive         (p-1)/p           1                                     2 (p-1)
//     GPipe         (p-1)/(m+p-1)     m                                     2 (p-1)
//     1F1B          (p-1)/(m+p-1)     min(p-r, m)                           2 (p-1)
//     interleaved   (p-1)/(v m+p-1)   2(p-1-r) + (v-1)p + 1 chunks of 1/v   2 (v p-1)
//
// What a rank receives and sends follows from the action: PipelineMessages. Neighbours of 1F1B send
// to each other at the same moment, so a send that waits for its receiver would wait forever.
//
// Letters: p ranks, m microbatches, v chunks per rank; stage s is on rank r = s mod p. F is the
// forward pass of a stage for one microbatch, B the whole backward pass; I and W are B's halves,
// the gradient of the input and that of the weights. "1B0" is stage 1, B, microbatch 0. Other
// schedules, some of which place the stages otherwise: zero_bubble.hpp, dual_pipe.hpp.
// Contract: any p, m >= 1 and v; m < p leaves ranks idle. The formulas take equal stages;
// interleaving's m mod p = 0.
// References: Huang et al. (2019), GPipe; Narayanan et al. (2019), PipeDream (1F1B); Narayanan et
// al. (2021), Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM
// (interleaving; section 2.2).
#pragma once

#include <deque>
#include <map>

#include "yotta/comm/communicator.hpp"
#include "yotta/parallel/pipeline_actions.hpp"

namespace yotta {

// ---- one rank's actions ----

// Naive model parallelism: one microbatch after the other all the way, so one rank works at a time.
inline PipelineActions naive_actions(int rank, int /*p*/, int64_t m) {
  PipelineActions actions;
  for (int64_t i = 0; i < m; ++i) {
    actions.push_back({rank, PipelineOp::F, i});
    actions.push_back({rank, PipelineOp::B, i});
  }
  return actions;
}

// GPipe: all forward, then all backward.
inline PipelineActions gpipe_actions(int rank, int /*p*/, int64_t m) {
  PipelineActions actions;
  for (int64_t i = 0; i < m; ++i) actions.push_back({rank, PipelineOp::F, i});
  for (int64_t i = 0; i < m; ++i) actions.push_back({rank, PipelineOp::B, i});
  return actions;
}

// 1F1B, in three phases:
//     warm-up         p - 1 - rank F (at most m): microbatch 0 has as many stages to go through
//                     before its B can come back
//     steady state    one F, one B in turn until all F are done: p - rank in flight after each F
//     cool-down       the B that are left
inline PipelineActions one_f_one_b_actions(int rank, int p, int64_t m) {
  PipelineActions actions;
  const int64_t warm_up = std::min<int64_t>(p - 1 - rank, m);
  int64_t next_f = 0, next_b = 0;
  while (next_f < warm_up) actions.push_back({rank, PipelineOp::F, next_f++});
  while (next_f < m) {
    actions.push_back({rank, PipelineOp::F, next_f++});
    actions.push_back({rank, PipelineOp::B, next_b++});
  }
  while (next_b < m) actions.push_back({rank, PipelineOp::B, next_b++});
  return actions;
}

// Interleaved 1F1B: the rank's v chunks take turns, p microbatches at a time, forward from the
// first chunk to the last and backward from the last to the first. If p does not divide m, the last
// turn's places stay empty.
inline PipelineActions interleaved_actions(int rank, int p, int64_t m, int v) {
  if (v == 1) return one_f_one_b_actions(rank, p, m);
  PipelineActions actions;
  const int64_t round = int64_t{p} * v;                  // p microbatches through v chunks
  const int64_t all = (m + p - 1) / p * round;           // F, and as many B
  const auto add = [&](PipelineOp op, int64_t number) {  // the rank's number-th F or B
    const int64_t turn = number % round / p, chunk = op == PipelineOp::F ? turn : v - 1 - turn;
    const int64_t microbatch = number / round * p + number % p;
    if (microbatch < m) actions.push_back({static_cast<int>(chunk) * p + rank, op, microbatch});
  };
  const int64_t warm_up = std::min<int64_t>(2 * (p - 1 - rank) + int64_t{v - 1} * p, all);
  for (int64_t i = 0; i < warm_up; ++i) add(PipelineOp::F, i);
  for (int64_t i = warm_up; i < all; ++i) {
    add(PipelineOp::F, i);
    add(PipelineOp::B, i - warm_up);
  }
  for (int64_t i = all - warm_up; i < all; ++i) add(PipelineOp::B, i);
  return actions;
}

// The most microbatches of a rank that are in flight at once: F has run, B (or W) has not. Each
// needs a Saved, the memory of what its backward pass will read (nn/saved.hpp).
inline int64_t most_in_flight(const PipelineActions& actions) {
  int64_t most = 0;
  int64_t live = 0;
  for (const PipelineAction& each : actions) {
    if (each.op == PipelineOp::F) most = std::max(most, ++live);
    if (each.op == PipelineOp::B || each.op == PipelineOp::W) --live;
  }
  return most;
}

// ---- all ranks' ----

// The schedule of p ranks and m microbatches; v chunks per rank if it is interleaved.
inline PipelineSchedule make_schedule(PipelineKind kind, int p, int64_t m, int v = 1,
                                      Where where = Where::current()) {
  if (p < 1 || m < 1 || v < 1)
    fail(where, "a pipeline of {} ranks, {} microbatches, {} chunks per rank: at least 1 each", p,
         m, v);
  if (v > 1 && kind != PipelineKind::interleaved)
    fail(where, "{} has one chunk per rank, not {}; use PipelineKind::interleaved", name(kind), v);
  PipelineSchedule made{name(kind), p, p * v, m, {}};
  for (int rank = 0; rank < p; ++rank) {
    switch (kind) {
      case PipelineKind::naive: made.by_rank.push_back(naive_actions(rank, p, m)); break;
      case PipelineKind::gpipe: made.by_rank.push_back(gpipe_actions(rank, p, m)); break;
      case PipelineKind::one_f_one_b:
        made.by_rank.push_back(one_f_one_b_actions(rank, p, m));
        break;
      case PipelineKind::interleaved:
        made.by_rank.push_back(interleaved_actions(rank, p, m, v));
        break;
      default: fail(where, "{}: pipeline_kinds.hpp makes it", name(kind));
    }
  }
  return made;
}

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
    const int below = a.stage - 1, above = a.stage + 1 < schedule_->stages ? a.stage + 1 : -1;
    if (a.op == PipelineOp::F) route = {below, above};
    if (a.op == PipelineOp::B || a.op == PipelineOp::I) route = {above, below};
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

  // A rank has run its actions up to `done`: what was sent to those has arrived, and can be freed.
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

}  // namespace yotta
