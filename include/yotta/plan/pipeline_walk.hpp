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

struct PipelineOrder {
  int ranks = 1, stages = 1, chunks = 1;
  int64_t microbatches = 1;
  std::vector<OrderedAction> actions;
};

YOTTA_API PipelineOrder pipeline_order(const PipelinePlan& plan, int p, int64_t m,
                                       Where where = Where::current());

// A cache of orders, by what they are made from. May be used by several threads.
class PipelineOrders {
 public:
  YOTTA_API std::shared_ptr<const PipelineOrder> of(const PipelinePlan& plan, int p, int64_t m);

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

#if YOTTA_BODIES_OF(planner)
#include <algorithm>
#include <numeric>

namespace yotta {

namespace detail {

// Makes the order: goes round the ranks, and takes of each what can be taken.
class OrderMaker {
 public:
  explicit OrderMaker(const PipelineSchedule& schedule)
      : schedule_(schedule),
        next_(static_cast<size_t>(schedule.ranks), 0),
        done_(static_cast<size_t>(2 * schedule.stages * schedule.microbatches), -1),
        left_(static_cast<size_t>(schedule.ranks * schedule.chunks()), schedule.microbatches),
        sent_(static_cast<size_t>(schedule.ranks)) {
    order_.ranks = schedule.ranks, order_.stages = schedule.stages;
    order_.chunks = schedule.chunks(), order_.microbatches = schedule.microbatches;
  }

  PipelineOrder make(Where where) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < schedule_.ranks; ++rank)
        while (take(rank)) moved = true;
    }
    for (int rank = 0; rank < schedule_.ranks; ++rank)
      if (next_[static_cast<size_t>(rank)] < schedule_.by_rank[static_cast<size_t>(rank)].size())
        fail(where, "{}: rank {} would wait forever", schedule_.name, rank);
    sort_by_time();
    return std::move(order_);
  }

 private:
  // By the time at which actions would begin if F took 1 second and B 2: so that messages meet at a
  // port in the order in which they come.
  void sort_by_time() {
    std::vector<double> ends, begins;
    std::vector<double> free(static_cast<size_t>(order_.ranks), 0);
    for (const OrderedAction& a : order_.actions) {
      double& rank = free[static_cast<size_t>(a.rank)];
      begins.push_back(a.needs < 0 ? rank : std::max(rank, ends[static_cast<size_t>(a.needs)]));
      ends.push_back(rank = begins.back() + (a.op == PipelineOp::B ? 2 : 1));
    }
    std::vector<int> places(ends.size()), new_place(ends.size());
    std::iota(places.begin(), places.end(), 0);
    std::sort(places.begin(), places.end(), [&](int a, int b) {
      return std::pair(ends[static_cast<size_t>(a)], a) <
             std::pair(ends[static_cast<size_t>(b)], b);
    });
    std::vector<OrderedAction> sorted;
    for (const int place : places) {
      new_place[static_cast<size_t>(place)] = static_cast<int>(sorted.size());
      sorted.push_back(order_.actions[static_cast<size_t>(place)]);
    }
    for (OrderedAction& each : sorted)
      if (each.needs >= 0) each.needs = new_place[static_cast<size_t>(each.needs)];
    order_.actions = std::move(sorted);
  }

  static bool is_forward(const PipelineAction& a) { return a.op == PipelineOp::F; }
  int& done(bool forward, int stage, int64_t microbatch) {
    return done_[static_cast<size_t>((stage * 2 + forward) * schedule_.microbatches + microbatch)];
  }

  bool take(int rank) {
    const PipelineActions& all = schedule_.by_rank[static_cast<size_t>(rank)];
    size_t& next = next_[static_cast<size_t>(rank)];
    if (next == all.size()) return false;
    const PipelineAction& a = all[next];
    OrderedAction made{rank, a.stage, schedule_.chunk_of(a.stage, a.microbatch), a.op};
    const int from = a.op == PipelineOp::W ? -1 : is_forward(a) ? a.stage - 1 : a.stage + 1;
    if (from >= 0 && from < schedule_.stages) {
      made.needs = done(is_forward(a), from, a.microbatch);
      if (made.needs < 0) return false;
      const OrderedAction& giver = order_.actions[static_cast<size_t>(made.needs)];
      made.travels = giver.rank != rank;
      if (made.travels) release(rank, giver.rank, made.needs);
    }
    made.sent = static_cast<int>(sent_[static_cast<size_t>(rank)].size());
    const int index = static_cast<int>(order_.actions.size());
    if (a.op != PipelineOp::W) done(is_forward(a), a.stage, a.microbatch) = index;
    if (a.op == PipelineOp::B || a.op == PipelineOp::W)
      made.is_last = --left_[static_cast<size_t>(rank * order_.chunks + made.chunk)] == 0;
    if (is_forward(a) && schedule_.stages == 1)
      made.is_last = a.microbatch + 1 == schedule_.microbatches;
    order_.actions.push_back(made);
    if (a.op != PipelineOp::W) order_.actions.back().to = remember(rank, a, index);
    if (made.travels) received_[made.needs] = index;
    ++next;
    return true;
  }

  // What a rank sends stays until it has heard of an action of the receiver that came later.
  int remember(int rank, const PipelineAction& a, int index) {
    const int to = is_forward(a) ? a.stage + 1 : a.stage - 1;
    if (to < 0 || to >= schedule_.stages) return -1;
    const int receiver = schedule_.rank_of(to, a.microbatch);
    if (receiver == rank) return -1;
    sent_[static_cast<size_t>(rank)].push_back({index, receiver});
    return receiver;
  }
  void release(int rank, int giver, int action) {
    std::erase_if(sent_[static_cast<size_t>(rank)], [&](const std::pair<int, int>& each) {
      const auto received = received_.find(each.first);
      return each.second == giver && received != received_.end() && received->second < action;
    });
  }

  const PipelineSchedule& schedule_;
  PipelineOrder order_;
  std::vector<size_t> next_;
  std::vector<int> done_;      // by direction, stage and microbatch: the action's place
  std::vector<int64_t> left_;  // by rank and chunk: microbatches that have not gone backward
  std::vector<std::vector<std::pair<int, int>>> sent_;  // by rank: action and receiver
  std::map<int, int> received_;                         // action: the one that received its result
};

}  // namespace detail

PipelineOrder pipeline_order(const PipelinePlan& plan, int p, int64_t m, Where where) {
  const PipelineSchedule schedule = make_schedule(plan, p, m, where);
  return detail::OrderMaker(schedule).make(where);
}

std::shared_ptr<const PipelineOrder> PipelineOrders::of(const PipelinePlan& plan, int p,
                                                        int64_t m) {
  const std::lock_guard lock(mutex_);
  auto& found = all_[{plan.kind, plan.chunks, p, m}];
  if (!found) found = std::make_shared<const PipelineOrder>(pipeline_order(plan, p, m));
  return found;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
