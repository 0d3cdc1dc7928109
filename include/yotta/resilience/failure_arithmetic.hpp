// Failure arithmetic: how often a machine of many nodes fails, and what that costs a training run.
//
// Say that a node fails once in 100 days. With n of them some node fails n times as
// often, and one failure stops a run that uses them all:
//
//     10 failures per 1000 node-days      1 node         one in 100 days
//                                         100 nodes      one a day
//                                         10,000 nodes   one in 14.4 minutes
//
// A run that goes back to its last snapshot spends its time like this:
//
//     ├─ work ─┤save├─ work ─┤save├─ wor#├─ down ─┤─ work ─┤save├ ...
//                                    └── a failure: what came after the last save is done again
//
// Goodput is the share of the time that trains for good. It is a product, each factor of what the
// one before it has left:
//
//     goodput = running / all  x  working / running  x  kept / working
//               down           saving                   done again
//
// Expected, with failures that come at random every `mean` seconds (Daly 2006): an interval of work
// and its snapshot take mean e^(down / mean) (e^((interval + save) / mean) - 1) seconds. The best
// interval is in regroup.hpp: it is what a run chooses.
//
// Contract: failures are independent of each other and of the age of a node, so the time to the
// next one is exponential. Draws are seeded: a run can be repeated bit for bit.
// References: Young (1974), "A first order approximation to the optimum checkpoint interval"; Daly
// (2006), "A higher order estimate of the optimum checkpoint interval for restart dumps"; Llama
// Team (2024), "The Llama 3 herd of models", section 3.3.4 and table 5.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/core/random.hpp"
#include "yotta/machine/chip.hpp"

namespace yotta {

// Seconds between two failures of a machine.
constexpr double seconds_between_failures(double nodes, double per_1000_node_days = 10) {
  return seconds_a_day * 1000 / (per_1000_node_days * nodes);
}

// ---- a run with snapshots ----

// Seconds: of work between two snapshots, of a snapshot during which nobody works, and from a
// failure to the first step after it.
struct SavingRun {
  double interval = 0, save = 0, down = 0;
};

// The share of its time that a run trains for good, expected.
inline double expected_goodput(const SavingRun& run, double mean) {
  const double seconds =
      mean * std::exp(run.down / mean) * std::expm1((run.interval + run.save) / mean);
  return run.interval / seconds;
}

// What stops a run: at random, every `mean` seconds. A planned stop loses no work: its snapshot is
// part of the time down.
struct FailureSource {
  std::string name;
  double mean = 0;
  bool planned = false;
};

// Where the seconds of a run went; `stops` counts by source.
struct SpentTime {
  double kept = 0, redone = 0, saving = 0, down = 0;
  std::vector<int64_t> stops;

  double all() const { return kept + redone + saving + down; }
  double goodput() const { return kept / all(); }
};

// The factors whose product is goodput.
struct GoodputFactors {
  double running = 1, working = 1, kept = 1;

  double product() const { return running * working * kept; }
};
inline GoodputFactors factors(const SpentTime& spent) {
  const double running = spent.all() - spent.down, working = running - spent.saving;
  return {running / spent.all(), working / running, spent.kept / working};
}

namespace detail {

// When each source stops the run next.
class NextStops {
 public:
  NextStops(std::span<const FailureSource> sources, uint64_t seed) : sources_(sources) {
    for (const FailureSource& each : sources) random_.emplace_back(seed, each.name);
    drawn_.resize(sources.size());
    for (size_t i = 0; i < sources.size(); ++i) at_.push_back(draw(i));
  }
  size_t first() const {
    return static_cast<size_t>(std::min_element(at_.begin(), at_.end()) - at_.begin());
  }
  double at(size_t source) const { return at_[source]; }
  void go_on(size_t source) { at_[source] += draw(source); }

 private:
  double draw(size_t i) { return -sources_[i].mean * std::log1p(-random_[i].uniform(drawn_[i]++)); }

  std::span<const FailureSource> sources_;
  std::vector<Random> random_;
  std::vector<uint64_t> drawn_;
  std::vector<double> at_;
};

// A run while it is played: in which phase it is, and where its seconds went.
class PlayedRun {
 public:
  PlayedRun(const SavingRun& run, size_t sources) : lengths_{run.interval, run.save, run.down} {
    spent_.stops.resize(sources);
  }
  double phase_seconds() const { return lengths_[phase_]; }
  const SpentTime& spent() const { return spent_; }

  void pass(double seconds) {
    double* const columns[] = {&spent_.kept, &spent_.saving, &spent_.down};
    *columns[phase_] += seconds;
    if (phase_ == working) fresh_ += seconds;
  }
  void end_phase() {
    if (phase_ != working) fresh_ = 0;  // it is saved, or lost
    phase_ = phase_ == working ? saving : working;
  }
  void stop(size_t source, bool planned) {
    const double lost = planned ? 0 : fresh_;
    spent_.kept -= lost, spent_.redone += lost;
    ++spent_.stops[source];
    phase_ = down, fresh_ = 0;
  }

 private:
  enum Phase { working, saving, down } phase_ = working;
  double lengths_[3];
  double fresh_ = 0;  // seconds of work since the last snapshot
  SpentTime spent_;
};

}  // namespace detail

// Plays a run of so many seconds, event by event.
inline SpentTime simulate_run(const SavingRun& run, std::span<const FailureSource> sources,
                              double seconds, uint64_t seed, Where where = Where::current()) {
  if (!(run.interval > 0) || !(run.save >= 0) || !(run.down >= 0) || sources.empty())
    fail(where, "a run with {} s of work between snapshots of {} s, {} s down, and {} sources",
         run.interval, run.save, run.down, sources.size());
  detail::NextStops stops(sources, seed);
  detail::PlayedRun played(run, sources.size());
  for (double clock = 0; clock < seconds;) {
    const size_t source = stops.first();
    const double end = std::min({clock + played.phase_seconds(), stops.at(source), seconds});
    played.pass(end - clock);
    clock = end;
    if (end == stops.at(source)) {
      played.stop(source, sources[source].planned);
      stops.go_on(source);
    } else {
      played.end_phase();
    }
  }
  return played.spent();
}

// ---- Llama 3 ----

// What stopped the pre-training of Llama 3 405B: 16,384 H100 in 2048 nodes, 54 days.
struct Interruptions {
  const char* cause;
  int count;
  bool planned = false;
};
inline constexpr double llama3_days = 54;
inline constexpr double llama3_nodes = 2048;
inline constexpr std::array<Interruptions, 19> llama3_interruptions = {
    {{"faulty GPU", 148},
     {"GPU memory (HBM3)", 72},
     {"software bug", 54},
     {"network switch, cable", 35},
     {"host maintenance, unplanned", 32},
     {"GPU memory (SRAM)", 19},
     {"GPU system processor", 17},
     {"network card", 7},
     {"NCCL watchdog: time-out", 7},
     {"silent data corruption", 6},
     {"GPU temperature, sensor", 6},
     {"SSD", 3},
     {"power supply", 3},
     {"server chassis", 2},
     {"I/O expansion board", 2},
     {"dependency", 2},
     {"CPU", 2},
     {"system memory", 2},
     {"planned", 47, true}}};

// Each cause as a source that stops a run `count` times in those days on average.
inline std::vector<FailureSource> llama3_sources() {
  std::vector<FailureSource> sources;
  for (const Interruptions& each : llama3_interruptions)
    sources.push_back({each.cause, llama3_days * seconds_a_day / each.count, each.planned});
  return sources;
}

}  // namespace yotta
