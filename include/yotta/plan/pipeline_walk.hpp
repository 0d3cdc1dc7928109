// Pipeline walk: when the actions of a pipeline's ranks end, and what each rank holds meanwhile.
//
//     order     one list of all actions, each after all that it needs: made once for a schedule
//     a pass    begin = max(its rank is free, what it needs has come); end = begin + its cost
//
// This is the arithmetic of parallel/pipeline_timeline.hpp with a cost for each stage: an embedding
// and a head make the first and the last stage longer. A schedule depends on its kind, p, m and
// chunks alone, so plans of a hundred thousand layouts share some hundred orders.
//
// More microbatches than some multiples of p repeat what came before, and the rest follows from two
// passes: seconds(m) = seconds(b) + (m - b) / (b - a) (seconds(b) - seconds(a)).
// Letters: p ranks, m microbatches.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "yotta/parallel/pipeline_kinds.hpp"

namespace yotta {

// An action, and where it stands among all.
struct OrderedAction {
  int rank, stage, chunk;
  PipelineOp op;
  int needs = -1;        // the action whose result comes from another stage
  bool travels = false;  // from another rank
  int to = -1;           // the rank that it is sent to; -1: none
  bool is_last = false;  // the chunk's last to go backward; of a rank alone its F too
  int sent = 0;          // messages that its rank still holds when it begins
};

// The actions of a rank.
struct RankActions {
  std::vector<OrderedAction> actions = {};
  int64_t held = 0;  // microbatches of all its chunks that wait for the end of backward, at most
  int sent = 0;      // messages that it still holds when an action begins, at most
};

struct PipelineOrder {
  int ranks = 1, stages = 1, chunks = 1;
  int64_t microbatches = 1;
  std::vector<OrderedAction> actions;
  std::vector<RankActions> by_rank;
};

PipelineOrder pipeline_order(const PipelinePlan& plan, int p, int64_t m,
                             Where where = Where::current());

// A cache of orders, by what they are made from. May be used by several threads.
class PipelineOrders {
 public:
  std::shared_ptr<const PipelineOrder> of(const PipelinePlan& plan, int p, int64_t m);

 private:
  std::mutex mutex_;
  std::map<std::tuple<PipelineKind, int, int, int64_t>, std::shared_ptr<const PipelineOrder>> all_;
};

// The microbatches of the two passes that stand for m: both are m where m is small. Chunks take 2 p
// to get into step, a rank alone 2.
struct PassPair {
  int64_t a, b;
};
constexpr PassPair passes_for(PipelineKind kind, int p, int64_t m) {
  const bool one_chunk = kind == PipelineKind::one_f_one_b || kind == PipelineKind::zb_h1;
  const int64_t a = (one_chunk && p > 1 ? 1 : 2) * p + m % p;
  return m <= a + p ? PassPair{m, m} : PassPair{a, a + p};
}
constexpr double at_microbatch(int64_t m, PassPair passes, double at_a, double at_b) {
  if (passes.a == passes.b) return at_b;
  return at_b + static_cast<double>(m - passes.b) / static_cast<double>(passes.b - passes.a) *
                    (at_b - at_a);
}

// A message between stages: seconds on the way, and at both ranks' ports.
struct PipelineMessage {
  double latency = 0, work = 0;
};

// Goes through an order. run(action, begin) returns its end. Messages leave a rank one after the
// other, and enter one so. Returns the ends of all ranks.
template <class Run>
std::vector<double> play(const PipelineOrder& order, const PipelineMessage& message, Run run) {
  std::vector<double> there(order.actions.size());  // when its result is
  std::vector<double> free(static_cast<size_t>(order.ranks), 0), sending = free;
  std::vector<std::pair<double, double>> receiving(free.size());  // the last message: begin, end
  for (size_t i = 0; i < order.actions.size(); ++i) {
    const OrderedAction& a = order.actions[i];
    double& rank = free[static_cast<size_t>(a.rank)];
    double begin = rank;
    if (a.needs >= 0) begin = std::max(begin, there[static_cast<size_t>(a.needs)]);
    there[i] = rank = run(a, begin);
    if (a.to < 0) continue;
    double& out = sending[static_cast<size_t>(a.rank)];
    auto& [begun, ended] = receiving[static_cast<size_t>(a.to)];
    const double sent = std::max(rank, out);
    out = sent + message.work;
    const double in = sent >= begun ? std::max(out, ended + message.work) : out;
    there[i] = in + message.latency;
    if (sent >= begun) begun = sent, ended = in;
  }
  return free;
}

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/pipeline_walk.ipp"
#endif
