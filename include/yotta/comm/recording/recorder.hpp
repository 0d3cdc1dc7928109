// The recorder: while it lives, every run of this process leaves a trace, and the code that runs
// need not know.
//
//     Recorder recorder(cluster_named("h100x8"));   run_ranks is timed on that machine
//     Recorder recorder;                            run_ranks is timed by the wall clock
//     ... any code that calls run_ranks ...
//     write_timeline("run.html", recorder.trace())
//
// The recorder keeps the run with the most events. A run with a machine of its own (run_on) is
// timed on that machine. There can be one recorder at a time.
//
// The wall clock makes the same timeline as a described machine, but of what this computer did:
//
//     lane 0   compute   [ matmul      ][ gelu ]·····wait·····[ matmul ...   an op lasts until
//     lane -1  world                    |send        recv]                   the next begins
//
// An op is charged once, on entry, so nobody says when it ends: it is taken to last until the
// rank's next op or message begins. A message is seen when it leaves and when it has been taken;
// its receiver may have been busy in between. Times depend on what else the computer does and
// differ from run to run.
//
// Cost: one reading of the clock per event, about 30 ns.
#pragma once

#include <chrono>
#include <optional>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/machine/shared_ports.hpp"

namespace yotta {

// The wall clock of one rank, used only by the rank's thread.
class WallClock : public CostSink {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // start: the same for all ranks of a run.
  WallClock(int rank, Time start) : rank_(rank), start_(start) {}

  YOTTA_API void op(const OpCost& cost) override;
  YOTTA_API EventStamp send(const MessageCost& m) override;
  YOTTA_API void receive(const MessageCost& m, const EventStamp& travel) override;
  YOTTA_API EventStamp now(int lane) override;
  YOTTA_API void wait(int lane, const EventStamp& done) override;
  bool is_virtual() const override { return false; }

  // Call it once, when the rank's code has ended: its events, in the order in which they began.
  YOTTA_API std::vector<TraceEvent> take_events();
  const LaneNames& lane_names() const { return lane_names_; }

 private:
  YOTTA_API double end_op();
  YOTTA_API EventId record(const TraceEvent& event);

  int rank_;
  Time start_;
  std::vector<TraceEvent> events_;
  LaneNames lane_names_;
  EventId last_, arrived_;  // the last event of the compute lane; the last message that arrived
  double idle_since_ = 0;
  bool is_computing_ = false;  // the last event is an op that has not ended
};

class Recorder : public RunObserver {
 public:
  // No cluster: the wall clock.
  YOTTA_API explicit Recorder(std::optional<Cluster> cluster = {});
  YOTTA_API ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  int runs() const { return runs_; }                       // seen so far
  const Trace& trace() const { return largest_; }          // the run with the most events
  const std::string& machine() const { return machine_; }  // that timed it; empty: this computer

  // RunObserver
  YOTTA_API CostSink* clock(int rank) override;
  YOTTA_API void ended() override;
  YOTTA_API void timed(const Trace& trace, const std::string& machine) override;

 private:
  std::optional<Cluster> cluster_;
  WallClock::Time start_;
  std::vector<std::unique_ptr<VirtualClock>> virtual_;  // of the run in progress, by rank
  std::vector<std::unique_ptr<WallClock>> wall_;
  Trace largest_;
  std::string machine_;
  int runs_ = 0;
};

#if YOTTA_BODIES_OF(comm_timed)
void WallClock::op(const OpCost& cost) {
  const double begin = end_op();
  last_ = record(op_event(cost, kept(cost.name), begin, begin, last_));
  is_computing_ = true;
}

EventStamp WallClock::send(const MessageCost& m) {
  const double begin = end_op();
  lane_names_[m.lane].insert(m.communicator);
  const EventId id =
      record({EventKind::send, m.lane, begin, begin, kept(m.label), last_, m.peer, m.bytes});
  return {begin, begin, id.rank, id.index};
}

void WallClock::receive(const MessageCost& m, const EventStamp& travel) {
  const double end = end_op();
  lane_names_[m.lane].insert(m.communicator);
  const EventId sent{travel.rank, travel.event};
  arrived_ =
      record({EventKind::recv, m.lane, travel.begin, end, kept(m.label), sent, m.peer, m.bytes});
}

EventStamp WallClock::now(int lane) {
  const double time = end_op();
  const EventId by = lane == compute_lane ? last_ : arrived_;
  return {time, time, by.rank, by.index};
}

// The rank's own code goes on after a wait: it has been idle since its last op or wait.
void WallClock::wait(int lane, const EventStamp& done) {
  const double end = end_op();
  if (lane != compute_lane || end <= idle_since_) return;
  const EventId cause = done.rank >= 0 ? EventId{done.rank, done.event} : last_;
  last_ = record({EventKind::wait, compute_lane, idle_since_, end, "wait", cause});
  idle_since_ = end;
}

std::vector<TraceEvent> WallClock::take_events() {
  end_op();
  return std::move(events_);
}

// The op that was being computed, if any, ends now.
double WallClock::end_op() {
  const double now =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (!is_computing_) return now;
  events_[static_cast<size_t>(last_.index)].end = now;
  is_computing_ = false;
  idle_since_ = now;
  return now;
}

EventId WallClock::record(const TraceEvent& event) {
  events_.push_back(event);
  return {rank_, static_cast<int>(events_.size()) - 1};
}

Recorder::Recorder(std::optional<Cluster> cluster) : cluster_(std::move(cluster)) {
  run_observer() = this;
}
Recorder::~Recorder() { run_observer() = nullptr; }

CostSink* Recorder::clock(int rank) {
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

void Recorder::ended() {
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

void Recorder::timed(const Trace& trace, const std::string& machine) {
  ++runs_;
  if (detail::event_count(trace) <= detail::event_count(largest_)) return;
  largest_ = trace;
  machine_ = machine;
}
#endif  // YOTTA_BODIES

}  // namespace yotta
