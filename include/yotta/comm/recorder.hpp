// The recorder: while it lives, every run of this process leaves a trace, and the code that runs need not know.
//
//     Recorder recorder(cluster_named("h100x8"));   run_ranks is timed on that machine
//     Recorder recorder;                            run_ranks is timed by the wall clock
//     ... any code that calls run_ranks ...
//     write_timeline("run.html", recorder.trace())
//
// Of several runs the one with the most events is kept. A run that has a machine of its own (run_on) keeps it.
// One recorder at a time.
#pragma once

#include <optional>

#include "yotta/comm/run_on.hpp"
#include "yotta/machine/timelines/wall_clock.hpp"

namespace yotta {

class Recorder : public RunObserver {
 public:
  // No cluster: the wall clock.
  explicit Recorder(std::optional<Cluster> cluster = {}) : cluster_(std::move(cluster)) {
    run_observer() = this;
  }
  ~Recorder() override { run_observer() = nullptr; }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  int runs() const { return runs_; }                       // seen so far
  const Trace& trace() const { return largest_; }          // the run with the most events
  const std::string& machine() const { return machine_; }  // that timed it; empty: this computer

  CostSink* clock(int rank) override {
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
    return virtual_.emplace_back(std::make_unique<VirtualClock>(*cluster_, rank)).get();
  }
  void ended() override {
    Trace recorded;
    const auto add = [&](auto& clock) {
      recorded.ranks.push_back(clock->events());
      recorded.lanes.push_back(clock->lane_names());
    };
    for (const std::unique_ptr<WallClock>& clock : wall_) add(clock);
    for (const std::unique_ptr<VirtualClock>& clock : virtual_) add(clock);
    timed(collect_trace(recorded), cluster_ ? cluster_->name : "");
  }
  void timed(const Trace& trace, const std::string& machine) override {
    ++runs_;
    if (events(trace) <= events(largest_)) return;
    largest_ = trace;
    machine_ = machine;
  }

 private:
  static size_t events(const Trace& trace) {
    size_t count = 0;
    for (const std::vector<TraceEvent>& rank : trace.ranks) count += rank.size();
    return count;
  }

  std::optional<Cluster> cluster_;
  WallClock::Time start_;
  std::vector<std::unique_ptr<VirtualClock>> virtual_;  // of the run that goes on, by rank
  std::vector<std::unique_ptr<WallClock>> wall_;
  Trace largest_;
  std::string machine_;
  int runs_ = 0;
};

}  // namespace yotta
