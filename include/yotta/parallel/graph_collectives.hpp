// A compiler that sees the collectives: a captured data-parallel step, and two passes that make its
// all_reduces fewer and hide them.
//
// DDP (ddp.hpp) does both by hand: hooks on parameters, buckets in a fixed order. Here the
// all_reduces of gradients are nodes of the step's graph (device/capture.hpp), so what waits for
// what can be read off it.
//
//     as written        g2 g1 g0 S2 W2 S1 W1 S0 W0 step     g: a gradient; S: start its all_reduce;
//     early_starts      g2 S2 g1 S1 g0 S0 W2 W1 W0 step     W: wait for it; now g1 hides S2
//     late_waits        ... S0 W2 step2 W1 step1 W0 step0   a step hides the waits behind it
//     bucketed          g2 g1 S21 g0 S0 W21 step2 step1 ... two in one flat buffer: fewer messages
//
// A schedule is data: a list of actions, which a dumb executor runs on each rank.
//
// Cost: all_reduces as often as there are buckets; the bytes stay the same, and gradients are
// copied into their bucket. Contract: all ranks run the same schedule. With recursive doubling
// every number is summed in the same order wherever it lies in a buffer, so buckets change no bit;
// a ring begins each chunk at another rank, and buckets move numbers to other chunks.
// References: Li et al., "PyTorch Distributed" (2020); Wang et al., "Overlap communication with
// dependent computation via decomposition" (2023), on XLA's passes.
#pragma once

#include <map>

#include "yotta/comm/communicator.hpp"
#include "yotta/device/capture.hpp"

namespace yotta {

enum class Act : uint8_t { run, start, wait };
struct Action {
  Act act;
  std::vector<int> nodes;  // run: one; start and wait: the all_reduces of a bucket
  bool operator==(const Action&) const = default;
};
using GraphSchedule = std::vector<Action>;

// As the function was written: each all_reduce is waited for where it stands.
inline GraphSchedule as_written(const Graph& graph) {
  GraphSchedule schedule;
  for (int n = 0; n < graph.size(); ++n) {
    if (graph.node(n).op == Op::input) continue;
    if (graph.node(n).op != Op::all_reduce) {
      schedule.push_back({Act::run, {n}});
      continue;
    }
    schedule.push_back({Act::start, {n}});
    schedule.push_back({Act::wait, {n}});
  }
  return schedule;
}

// Whether an action reads one of these values.
inline bool reads_any(const Graph& graph, const Action& action, const std::vector<int>& values) {
  if (action.act == Act::wait) return false;
  for (const int n : action.nodes)
    for (const int i : graph.node(n).in)
      if (std::count(values.begin(), values.end(), i) > 0) return true;
  return false;
}

// Whether all that an action reads is there.
inline bool all_there(const Graph& graph, const Action& action, const ByNode<bool>& there) {
  for (const int n : action.nodes)
    for (const int i : graph.node(n).in)
      if (!there[i]) return false;
  return true;
}

// Each all_reduce starts as soon as what it reads is there.
inline GraphSchedule early_starts(const Graph& graph, const GraphSchedule& schedule) {
  GraphSchedule result, starts;
  ByNode<bool> there(graph);
  for (const int n : graph.inputs()) there[n] = true;
  for (const Action& action : schedule)
    if (action.act == Act::start) starts.push_back(action);
  const auto start_what_is_ready = [&] {
    for (Action& start : starts)
      if (!start.nodes.empty() && all_there(graph, start, there))
        result.push_back(std::exchange(start, {Act::start, {}}));
  };
  start_what_is_ready();
  for (const Action& action : schedule) {
    if (action.act == Act::start) continue;
    result.push_back(action);
    for (const int n : action.nodes) there[n] = true;
    start_what_is_ready();
  }
  return result;
}

// Each wait stands before the first action that reads its result, or at the end.
inline GraphSchedule late_waits(const Graph& graph, const GraphSchedule& schedule) {
  GraphSchedule result;
  std::vector<Action> waits;  // put off so far
  for (const Action& action : schedule) {
    if (action.act == Act::wait) {
      waits.push_back(action);
      continue;
    }
    std::vector<Action> others;
    for (const Action& wait : waits)
      (reads_any(graph, action, wait.nodes) ? result : others).push_back(wait);
    waits = others;
    result.push_back(action);
  }
  result.insert(result.end(), waits.begin(), waits.end());
  return result;
}

// Joins all_reduces until a bucket has `bytes`, one of its results is waited for, or no more come.
inline GraphSchedule bucketed(const Graph& graph, const GraphSchedule& schedule, double bytes) {
  GraphSchedule result;
  Action bucket{Act::start, {}};  // begun, not started yet
  std::map<int, std::vector<int>> bucket_of;
  double held = 0;
  int64_t to_come = std::count_if(schedule.begin(), schedule.end(),
                                  [](const Action& action) { return action.act == Act::start; });
  const auto start = [&] {
    if (bucket.nodes.empty()) return;
    for (const int n : bucket.nodes) bucket_of[n] = bucket.nodes;
    result.push_back(std::exchange(bucket, {Act::start, {}}));
    held = 0;
  };
  for (const Action& action : schedule) {
    const int n = action.nodes[0];
    if (action.act == Act::run) result.push_back(action);
    if (action.act == Act::start) {
      bucket.nodes.push_back(n);
      held += bytes_of(graph, n);
      --to_come;
      if (held >= bytes || to_come == 0) start();
    }
    if (action.act != Act::wait) continue;
    if (std::count(bucket.nodes.begin(), bucket.nodes.end(), n) > 0) start();
    const Action wait{Act::wait, bucket_of.at(n)};
    if (std::find(result.begin(), result.end(), wait) == result.end()) result.push_back(wait);
  }
  return result;
}

inline std::string print(const Graph& graph, const GraphSchedule& schedule) {
  std::string text;
  for (const Action& action : schedule) {
    text += action.act == Act::run ? info(graph.node(action.nodes[0]).op).name
                                   : (action.act == Act::start ? "start" : "wait");
    for (const int n : action.nodes) text += fmt::format(" {}", n);
    text += "\n";
  }
  return text;
}

// Throws unless every action finds what it reads, every bucket that is waited for was started, and
// every output is there at the end. A schedule that breaks this would read numbers of before.
inline void check_schedule(const Graph& graph, const GraphSchedule& schedule,
                           Where where = Where::current()) {
  ByNode<bool> there(graph);
  GraphSchedule started;
  for (const int n : graph.inputs()) there[n] = true;
  for (const Action& action : schedule) {
    const int first = action.nodes.empty() ? -1 : action.nodes[0];
    const bool reduces = first >= 0 && graph.node(first).op == Op::all_reduce;
    if (first < 0 || reduces != (action.act != Act::run))
      fail(where, "a schedule runs one node, or starts and waits for all_reduces; not so at {}",
           first);
    if (action.act != Act::wait && !all_there(graph, action, there))
      fail(where, "the schedule comes to node {} before what it reads is there: a wait too late?",
           first);
    const Action start{Act::start, action.nodes};
    if (action.act == Act::start) started.push_back(start);
    if (action.act == Act::wait && std::count(started.begin(), started.end(), start) != 1)
      fail(where, "the schedule waits for a bucket from node {} on that it has not started", first);
    if (action.act != Act::start)
      for (const int n : action.nodes) there[n] = true;
  }
  for (const int n : graph.outputs)
    if (!there[n]) fail(where, "the schedule ends, and output {} was never computed", n);
}

// ---- what a rank does ----
// An all_reduce that is under way.
struct Reduction {
  Tensor flat;  // the bucket's numbers, one value after the other
  Work work;
};

inline Reduction start_bucket(const Graph& graph, const Action& bucket,
                              const ByNode<Tensor>& values, const Communicator& ranks,
                              CommOptions options) {
  int64_t count = 0;
  for (const int n : bucket.nodes) count += graph.node(n).size.count();
  Reduction reduction{Tensor::empty({count}, graph.dtype), {}};
  for (int64_t begin = 0; const int n : bucket.nodes) {
    const Tensor& from = values[graph.node(n).in[0]];
    Tensor part = reduction.flat.rows(begin, begin + from.numel());
    part.copy_from(from.reshape({-1}));
    begin += from.numel();
  }
  reduction.work = ranks.all_reduce_async(reduction.flat, ReduceOp::sum, options);
  return reduction;
}

// The results are views of the flat buffer.
inline void wait_for_bucket(const Graph& graph, const Action& bucket, Reduction reduction,
                            ByNode<Tensor>& values) {
  reduction.work.wait();
  for (int64_t begin = 0; const int n : bucket.nodes) {
    const Size size = graph.node(n).size;
    values[n] = reduction.flat.rows(begin, begin + size.count()).reshape({size.rows, size.columns});
    begin += size.count();
  }
}

// Runs a schedule of a graph; every rank calls it with arguments of its own.
inline std::vector<Tensor> run_on_ranks(const Graph& graph, const GraphSchedule& schedule,
                                        const std::vector<Tensor>& arguments,
                                        const Communicator& ranks,
                                        CommOptions options = {Algorithm::recursive_doubling},
                                        Where where = Where::current()) {
  check_guards(graph, arguments, where);
  check_schedule(graph, schedule, where);
  ByNode<Tensor> values(graph);
  std::vector<Tensor> results;
  for (size_t i = 0; const int n : graph.inputs()) values[n] = arguments[i++];
  std::map<std::vector<int>, Reduction> under_way;
  for (const Action& action : schedule) {
    if (action.act == Act::start)
      under_way.emplace(action.nodes, start_bucket(graph, action, values, ranks, options));
    if (action.act == Act::wait)
      wait_for_bucket(graph, action, std::move(under_way.at(action.nodes)), values);
    if (action.act == Act::run) run_graph_node(graph, action.nodes[0], values, where);
  }
  for (const int n : graph.outputs) results.push_back(values[n]);
  return results;
}

}  // namespace yotta
