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

  void op(const OpCost& cost) override;
  EventStamp send(const MessageCost& m) override;
  void receive(const MessageCost& m, const EventStamp& travel) override;
  EventStamp now(int lane) override;
  void wait(int lane, const EventStamp& done) override;
  bool is_virtual() const override { return false; }

  // Call it once, when the rank's code has ended: its events, in the order in which they began.
  std::vector<TraceEvent> take_events();
  const LaneNames& lane_names() const { return lane_names_; }

 private:
  double end_op();
  EventId record(const TraceEvent& event);

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
  explicit Recorder(std::optional<Cluster> cluster = {});
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  int runs() const { return runs_; }                       // seen so far
  const Trace& trace() const { return largest_; }          // the run with the most events
  const std::string& machine() const { return machine_; }  // that timed it; empty: this computer

  // RunObserver
  CostSink* clock(int rank) override;
  void ended() override;
  void timed(const Trace& trace, const std::string& machine) override;

 private:
  std::optional<Cluster> cluster_;
  WallClock::Time start_;
  std::vector<std::unique_ptr<VirtualClock>> virtual_;  // of the run in progress, by rank
  std::vector<std::unique_ptr<WallClock>> wall_;
  Trace largest_;
  std::string machine_;
  int runs_ = 0;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/recording/impl/recorder.ipp"
#endif
