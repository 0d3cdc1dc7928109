// The wall clock as a trace: the same timeline as a described machine's, but of what this computer did.
//
//     lane 0   compute   [ matmul      ][ gelu ]·····wait·····[ matmul ...      an op lasts until the rank does
//     lane -1  world                    |send        recv]                      something else
//
// An op is charged once, on entry, so nobody says when it ends: it is taken to last until the next op or message of
// its rank begins. A message is seen when it leaves and when it has been taken; between the two its receiver may
// have been busy. Times depend on what else the computer does, and differ from run to run.
//
// Cost: a look at the clock an event, some 30 ns.
#pragma once

#include <chrono>

#include "yotta/machine/trace.hpp"

namespace yotta {

// The clock of one rank, used by its thread only.
class WallClock : public CostSink {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `start`: the same for all ranks of a run.
  WallClock(int rank, Time start) : rank_(rank), start_(start) {}

  void op(const OpCost& cost) override {
    const double begin = end_op();
    const auto bytes = static_cast<int64_t>(cost.bytes_read + cost.bytes_written);
    last_ = record(
        {EventKind::op, compute_lane, begin, begin, kept(cost.name), last_, -1, bytes, cost.flops});
    is_computing_ = true;
  }

  EventStamp send(const MessageCost& m) override {
    const double begin = end_op();
    lane_names_[m.lane].insert(m.communicator);
    const EventId id =
        record({EventKind::send, m.lane, begin, begin, kept(m.label), last_, m.peer, m.bytes});
    return {begin, begin, id.rank, id.index};
  }

  void receive(const MessageCost& m, const EventStamp& travel) override {
    const double end = end_op();
    lane_names_[m.lane].insert(m.communicator);
    const EventId sent{travel.rank, travel.event};
    arrived_ =
        record({EventKind::recv, m.lane, travel.begin, end, kept(m.label), sent, m.peer, m.bytes});
  }

  EventStamp now(int lane) override {
    const double time = end_op();
    const EventId by = lane == compute_lane ? last_ : arrived_;
    return {time, time, by.rank, by.index};
  }

  // The rank's own code goes on after a wait: it has been idle since its last op or wait.
  void wait(int lane, const EventStamp& done) override {
    const double end = end_op();
    if (lane != compute_lane || end <= idle_since_) return;
    const EventId cause = done.rank >= 0 ? EventId{done.rank, done.event} : last_;
    last_ = record({EventKind::wait, compute_lane, idle_since_, end, "wait", cause});
    idle_since_ = end;
  }

  bool is_virtual() const override { return false; }

  // The rank's code has ended. Its events, in the order in which they began.
  const std::vector<TraceEvent>& events() {
    end_op();
    return events_;
  }
  const LaneNames& lane_names() const { return lane_names_; }

 private:
  // Whatever was computed has ended now.
  double end_op() {
    const double now =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (!is_computing_) return now;
    events_[static_cast<size_t>(last_.index)].end = now;
    is_computing_ = false;
    idle_since_ = now;
    return now;
  }
  EventId record(const TraceEvent& event) {
    events_.push_back(event);
    return {rank_, static_cast<int>(events_.size()) - 1};
  }

  int rank_;
  Time start_;
  std::vector<TraceEvent> events_;
  LaneNames lane_names_;
  EventId last_, arrived_;  // the last event of the compute lane; the last message that came
  double idle_since_ = 0;
  bool is_computing_ = false;  // the last event is an op that goes on
};

}  // namespace yotta
