// Rerouted pipeline: replicas of a pipeline go on when some of their ranks have died. The peers of
// a dead rank, which hold the same stage in other replicas, take its microbatches.
//
//     3 replicas of 4 stages. The rank of replica 1, stage 1 is dead:
//
//     replica 0     0 ──── 1 ──── 2 ──── 3     its own microbatches, and half of replica 1's
//                       ↗     ↘                in stage 1
//     replica 1     0      x      2 ──── 3
//                       ↘     ↗
//     replica 2     0 ──── 1 ──── 2 ──── 3     its own, and the other half in stage 1
//
// Without this all ranks of replica 1 would stand idle, four where one has died. With it all
// microbatches of the batch go through all stages, so the gradient is that of the run without
// failures. No weights move: a peer has the same ones. Only the sums change: a stage's gradients
// are summed over the ranks that are left of it.
//
// What it costs. With d of dp ranks of stage s dead, a living one has
//
//     L = m + ceil(d m / (dp - d))     microbatches, m of them its replica's own.
//
// It waits s F for its first microbatch, and when its last B has ended s more follow upstream. So
// a step takes, with messages that cost nothing, at least
//
//     (F + B) max(m + p - 1, L + s)    the largest over all stages
//
// 1F1B without failures takes (m + p - 1)(F + B), of which a rank of stage s is idle for p - 1 - s
// times F + B in the middle: this part of the bubble takes up as many microbatches for nothing. The
// first stage has the most of it, the last one none.
//
// The schedule is a list of actions for each rank, as every other (parallel/pipeline_schedule.hpp),
// made by playing the step: the rank that can begin something first does so, B before F, and old
// microbatches before new ones. In flight on a rank of stage s are up to h (p - s) microbatches, h
// times as many as with 1F1B. With h = 1 there is hardly a bubble to fill: a rank may not begin
// more than 1F1B does. Every h up to `hold` is tried, and the shortest schedule is kept, of several
// the one that holds least. In the cases that the tests try it takes up to 3 microbatches' time
// more than the formula. Without failures it is 1F1B.
//
// No rank waits forever: those of the last stage can always go on, so those of the stage before
// can. Contract: p stages of equal cost, one per rank. Each rank runs Pipeline on a communicator of
// those that are left, in the order of `ranks`, with all replicas m microbatches.
// Reference: Gandhi et al. (2024), "ReCycle: resilient training of large DNNs using pipeline
// adaptation", sections 3 and 4 (which also cuts B in I and W to fill the last stage's bubble).
#pragma once

#include <span>

#include "yotta/parallel/pipeline_timeline.hpp"

namespace yotta {

struct StageOfReplica {
  int replica = 0, stage = 0;
  bool operator==(const StageOfReplica&) const = default;
};

struct ReroutedPipeline {
  // Its microbatches are all replicas': number r m + i is replica r's i-th.
  PipelineSchedule schedule;
  std::vector<StageOfReplica> ranks;  // who is left, by rank: replica by replica
};

// A job of `replicas` pipelines of p stages, each with m microbatches per step.
struct PipelineReplicas {
  int replicas = 1, p = 1;
  int64_t m = 1;
};

namespace detail {

// The replicas that are left of each stage.
inline std::vector<std::vector<int>> living_by_stage(const PipelineReplicas& job,
                                                     std::span<const StageOfReplica> dead,
                                                     Where where) {
  for (const StageOfReplica& each : dead)
    if (each.replica < 0 || each.replica >= job.replicas || each.stage < 0 || each.stage >= job.p)
      fail(where, "replica {}, stage {} is said to be dead: there are {} replicas of {} stages",
           each.replica, each.stage, job.replicas, job.p);
  std::vector<std::vector<int>> living(static_cast<size_t>(job.p));
  for (int stage = 0; stage < job.p; ++stage) {
    for (int replica = 0; replica < job.replicas; ++replica)
      if (std::find(dead.begin(), dead.end(), StageOfReplica{replica, stage}) == dead.end())
        living[static_cast<size_t>(stage)].push_back(replica);
    if (living[static_cast<size_t>(stage)].empty())
      fail(where,
           "stage {} is dead in every replica: no peer has its weights. Wait for a replacement "
           "and go back to a snapshot",
           stage);
  }
  return living;
}

// Where each microbatch goes: to its own replica's rank; if that is dead, to the peers in turn.
inline std::vector<int> routes_of(const PipelineReplicas& job,
                                  const std::vector<StageOfReplica>& ranks,
                                  const std::vector<std::vector<int>>& living) {
  const int64_t all = job.replicas * job.m;
  std::vector<int> routes(static_cast<size_t>(job.p * all));
  for (int stage = 0; stage < job.p; ++stage) {
    const std::vector<int>& peers = living[static_cast<size_t>(stage)];
    size_t next = 0;
    for (int64_t i = 0; i < job.m; ++i)
      for (int replica = 0; replica < job.replicas; ++replica) {
        const bool lives = std::find(peers.begin(), peers.end(), replica) != peers.end();
        const StageOfReplica by{lives ? replica : peers[next++ % peers.size()], stage};
        routes[static_cast<size_t>(stage * all + replica * job.m + i)] =
            static_cast<int>(std::find(ranks.begin(), ranks.end(), by) - ranks.begin());
      }
  }
  return routes;
}

// Who is left, and the routes; nobody has anything to do yet.
inline ReroutedPipeline empty_lists(const PipelineReplicas& job,
                                    const std::vector<std::vector<int>>& living) {
  ReroutedPipeline made;
  for (int replica = 0; replica < job.replicas; ++replica)
    for (int stage = 0; stage < job.p; ++stage) {
      const std::vector<int>& peers = living[static_cast<size_t>(stage)];
      if (std::find(peers.begin(), peers.end(), replica) != peers.end())
        made.ranks.push_back({replica, stage});
    }
  const auto ranks = static_cast<int>(made.ranks.size());
  made.schedule = {"1F1B, rerouted", ranks, job.p, job.replicas * job.m, {}};
  made.schedule.by_rank.resize(made.ranks.size());
  made.schedule.routes = routes_of(job, made.ranks, living);
  return made;
}

// Plays a step whose routes are known, and writes down what each rank does.
class RerouteMaker {
 public:
  RerouteMaker(ReroutedPipeline& made, const PipelineReplicas& job, int hold,
               const PipelineCosts& costs)
      : made_(made), hold_(hold), costs_(costs), clock_(made.schedule, costs) {
    states_.resize(made.ranks.size());
    for (int stage = 0; stage < job.p; ++stage)
      for (int64_t i = 0; i < job.m; ++i)
        for (int replica = 0; replica < job.replicas; ++replica) {
          const int64_t microbatch = replica * job.m + i;
          state(made.schedule.rank_of(stage, microbatch)).to_begin.push_back(microbatch);
        }
  }

  void make() {
    const auto ranks = static_cast<int>(states_.size());
    for (int64_t left = 2 * made_.schedule.stages * made_.schedule.microbatches; left > 0; --left) {
      Choice first;
      for (int rank = 0; rank < ranks; ++rank) first = std::min(first, choice_of(rank), is_before);
      take(first);
    }
  }

 private:
  struct State {
    std::vector<int64_t> to_begin, in_flight;  // microbatches, the oldest first
    double free = 0;
  };
  struct Choice {
    double begin = 1e300;
    int rank = 0;
    PipelineAction action = {};
  };
  static bool is_before(const Choice& a, const Choice& b) { return a.begin < b.begin; }
  State& state(int rank) { return states_[static_cast<size_t>(rank)]; }

  // What a rank would do next.
  Choice choice_of(int rank) {
    const State& its = state(rank);
    const int stage = made_.ranks[static_cast<size_t>(rank)].stage;
    Choice best;
    const auto consider = [&](PipelineOp op, int64_t microbatch) {
      const PipelineAction action{stage, op, microbatch};
      const double ready = clock_.ready(action);
      if (ready >= 0)
        best = std::min(best, Choice{std::max(its.free, ready), rank, action}, is_before);
    };
    for (const int64_t each : its.in_flight) consider(PipelineOp::B, each);
    if (std::ssize(its.in_flight) < int64_t{hold_} * (made_.schedule.stages - stage))
      for (const int64_t each : its.to_begin) consider(PipelineOp::F, each);
    return best;
  }

  void take(const Choice& choice) {
    const PipelineAction& action = choice.action;
    State& its = state(choice.rank);
    its.free = choice.begin + seconds(costs_, action.op);
    clock_.ended(action, its.free);
    made_.schedule.by_rank[static_cast<size_t>(choice.rank)].push_back(action);
    std::erase(action.op == PipelineOp::F ? its.to_begin : its.in_flight, action.microbatch);
    if (action.op == PipelineOp::F) its.in_flight.push_back(action.microbatch);
  }

  ReroutedPipeline& made_;
  int hold_;
  PipelineCosts costs_;
  PipelineClock clock_;
  std::vector<State> states_;  // by rank
};

}  // namespace detail

// The ranks that are left, and what each of them does. Errors: a stage that is dead everywhere; a
// rank that does not exist.
inline ReroutedPipeline reroute(const PipelineReplicas& job, std::span<const StageOfReplica> dead,
                                int hold = 3, const PipelineCosts& costs = {},
                                Where where = Where::current()) {
  if (job.replicas < 1 || job.p < 1 || job.m < 1 || hold < 1)
    fail(where, "{} replicas of {} stages with {} microbatches, hold {}: at least 1 each",
         job.replicas, job.p, job.m, hold);
  const std::vector<std::vector<int>> living = detail::living_by_stage(job, dead, where);
  ReroutedPipeline best;
  double shortest = 0;
  for (int h = 1; h <= hold; ++h) {
    ReroutedPipeline made = detail::empty_lists(job, living);
    detail::RerouteMaker(made, job, h, costs).make();
    const double length = simulate(made.schedule, costs, where).length;
    if (h == 1 || length < shortest * (1 - 1e-12)) best = std::move(made), shortest = length;
  }
  return best;
}

// L: microbatches of a rank that is left when `dead` of its stage are not.
constexpr int64_t rerouted_load(const PipelineReplicas& job, int dead) {
  const int64_t left = job.replicas - dead;
  return job.m + (dead * job.m + left - 1) / left;
}

// No schedule is shorter.
inline double rerouted_length(const PipelineReplicas& job, std::span<const StageOfReplica> dead,
                              const PipelineCosts& costs = {}, Where where = Where::current()) {
  const std::vector<std::vector<int>> living = detail::living_by_stage(job, dead, where);
  int64_t most = job.m + job.p - 1;
  for (int stage = 0; stage < job.p; ++stage) {
    const auto left = static_cast<int>(living[static_cast<size_t>(stage)].size());
    most = std::max(most, rerouted_load(job, job.replicas - left) + stage);
  }
  return static_cast<double>(most) * (costs.forward + costs.input + costs.weight);
}

}  // namespace yotta
