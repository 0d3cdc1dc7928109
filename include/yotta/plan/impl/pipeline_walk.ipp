// The bodies of plan/pipeline_walk.hpp.
#pragma once

#include "yotta/plan/pipeline_walk.hpp"

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
    share_out();
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

  void share_out() {
    order_.by_rank.resize(static_cast<size_t>(order_.ranks));
    std::vector<int64_t> held(order_.by_rank.size(), 0);
    for (const OrderedAction& a : order_.actions) {
      const auto rank = static_cast<size_t>(a.rank);
      RankActions& own = order_.by_rank[rank];
      own.actions.push_back(a);
      own.sent = std::max(own.sent, a.sent);
      if (a.op == PipelineOp::F) own.held = std::max(own.held, ++held[rank]);
      if (a.op == PipelineOp::B || a.op == PipelineOp::W) --held[rank];
    }
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

YOTTA_INLINE PipelineOrder pipeline_order(const PipelinePlan& plan, int p, int64_t m, Where where) {
  const PipelineSchedule schedule = make_schedule(plan, p, m, where);
  return detail::OrderMaker(schedule).make(where);
}

YOTTA_INLINE std::shared_ptr<const PipelineOrder> PipelineOrders::of(const PipelinePlan& plan,
                                                                     int p, int64_t m) {
  const std::lock_guard lock(mutex_);
  auto& found = all_[{plan.kind, plan.chunks, p, m}];
  if (!found) found = std::make_shared<const PipelineOrder>(pipeline_order(plan, p, m));
  return found;
}

}  // namespace yotta
