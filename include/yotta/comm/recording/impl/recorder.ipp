// The bodies of comm/recording/recorder.hpp.
#pragma once

#include "yotta/comm/recording/recorder.hpp"

namespace yotta {

YOTTA_INLINE void WallClock::op(const OpCost& cost) {
  const double begin = end_op();
  last_ = record(op_event(cost, kept(cost.name), begin, begin, last_));
  is_computing_ = true;
}

YOTTA_INLINE EventStamp WallClock::send(const MessageCost& m) {
  const double begin = end_op();
  lane_names_[m.lane].insert(m.communicator);
  const EventId id = record(message_event(EventKind::send, m, kept(m.label), begin, begin, last_));
  return {begin, begin, id.rank, id.index};
}

YOTTA_INLINE void WallClock::receive(const MessageCost& m, const EventStamp& travel) {
  const double end = end_op();
  lane_names_[m.lane].insert(m.communicator);
  const EventId sent{travel.rank, travel.event};
  arrived_ = record(message_event(EventKind::recv, m, kept(m.label), travel.begin, end, sent));
}

YOTTA_INLINE EventStamp WallClock::now(int lane) {
  const double time = end_op();
  const EventId by = lane == compute_lane ? last_ : arrived_;
  return {time, time, by.rank, by.index};
}

// The rank's own code goes on after a wait: it has been idle since its last op or wait.
YOTTA_INLINE void WallClock::wait(int lane, const EventStamp& done) {
  const double end = end_op();
  if (lane != compute_lane || end <= idle_since_) return;
  const EventId cause = done.rank >= 0 ? EventId{done.rank, done.event} : last_;
  last_ = record({EventKind::wait, compute_lane, idle_since_, end, "wait", cause});
  idle_since_ = end;
}

YOTTA_INLINE std::vector<TraceEvent> WallClock::take_events() {
  end_op();
  return std::move(events_);
}

// The op that was being computed, if any, ends now.
YOTTA_INLINE double WallClock::end_op() {
  const double now =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (!is_computing_) return now;
  events_[static_cast<size_t>(last_.index)].end = now;
  is_computing_ = false;
  idle_since_ = now;
  return now;
}

YOTTA_INLINE EventId WallClock::record(const TraceEvent& event) {
  events_.push_back(event);
  return {rank_, static_cast<int>(events_.size()) - 1};
}

YOTTA_INLINE Recorder::Recorder(std::optional<Cluster> cluster) : cluster_(std::move(cluster)) {
  run_observer() = this;
}
YOTTA_INLINE Recorder::~Recorder() { run_observer() = nullptr; }

YOTTA_INLINE CostSink* Recorder::clock(int rank) {
  if (rank == 0) {
    virtual_.clear();
    wall_.clear();
    start_ = std::chrono::steady_clock::now();
  }
  if (!cluster_) return wall_.emplace_back(std::make_unique<WallClock>(rank, start_)).get();
  if (rank >= cluster_->size())
    fail(Where::current(),
         "{} has {} chips, too few for a rank {}; take a larger machine or fewer ranks",
         cluster_->name, cluster_->size(), rank);
  return virtual_
      .emplace_back(std::make_unique<VirtualClock>(*cluster_, rank, recording_options({})))
      .get();
}

YOTTA_INLINE void Recorder::ended() {
  Trace recorded;
  const auto add = [&](auto& clock) {
    recorded.ranks.push_back(clock->take_events());
    recorded.lanes.push_back(clock->lane_names());
  };
  for (const std::unique_ptr<WallClock>& clock : wall_) add(clock);
  for (const std::unique_ptr<VirtualClock>& clock : virtual_) add(clock);
  if (cluster_) return timed(finished_trace(std::move(recorded), *cluster_, {}), cluster_->name);
  timed(collect_trace(std::move(recorded)), "");
}

namespace detail {
inline size_t event_count(const Trace& trace) {
  size_t count = 0;
  for (const std::vector<TraceEvent>& rank : trace.ranks) count += rank.size();
  return count;
}
}  // namespace detail

YOTTA_INLINE void Recorder::timed(const Trace& trace, const std::string& machine) {
  ++runs_;
  if (detail::event_count(trace) <= detail::event_count(largest_)) return;
  largest_ = trace;
  machine_ = machine;
}

}  // namespace yotta
