// Planner: which layout trains a model fastest on a cluster, and why each other one loses.
//
//     layout_space      all layouts that keep the rules          layout_space.hpp
//       memory          those that do not fit are refused        layout_search.hpp
//         seconds       of those that fit                        step_estimate.hpp
//           best        the fastest ten
//           frontier    those than which no other is both faster and smaller
//           losers      of each mesh its best layout, with the line that says why it loses
//
// Contract: seconds are those of the described cluster, with the stated efficiency of kernels.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "yotta/plan/layout_search.hpp"

namespace yotta {

struct PlannedLayout {
  Layout layout;
  StepEstimate estimate;
};

struct Plan {
  PlanRequest request;
  int64_t layouts = 0;                  // looked at
  int64_t estimated = 0;                // of them, in full: of the others the bound said enough
  int64_t fitting = 0;                  // of the layouts, those that fit in a chip's memory
  std::vector<PlannedLayout> best;      // the fastest first
  std::vector<PlannedLayout> frontier;  // the smallest first, each faster than all before
  std::vector<PlannedLayout> losers;    // the best of each other mesh that fits, the fastest first
  std::vector<RefusedLayout> refused;   // meshes that cannot be, or do not fit
  RefusedLayout smallest = {};          // where nothing fits: the one that needs least
};

// Bytes as people say them: "does not fit: 96.4 of 80 GB; weights 40.1, gradients ..., ...".
inline std::string why_too_large(const MemoryParts& m, double capacity) {
  const auto gb = [](double bytes) { return bytes / 1e9; };
  return fmt::format(
      "does not fit: {:.1f} of {:.0f} GB; weights {:.1f}, gradients {:.1f}, optimizer {:.1f}, "
      "activations {:.1f}, buffers {:.1f}",
      gb(m.bytes()), gb(capacity), gb(m.weights), gb(m.gradients), gb(m.optimizer),
      gb(m.activations), gb(m.buffers));
}

namespace detail {

// Orders what was evaluated.
class PlanMaker {
 public:
  PlanMaker(Plan& plan, std::vector<Layout> layouts, const std::vector<EvaluatedLayout>& found,
            EstimateCache& cache)
      : plan_(plan), layouts_(std::move(layouts)), found_(found), cache_(cache) {
    for (size_t i = 0; i < found_.size(); ++i)
      if (found_[i].seconds > 0) order_.push_back(i);
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return std::pair(found_[a].seconds, a) < std::pair(found_[b].seconds, b);
    });
  }

  void best(size_t count) {
    for (const size_t i : order_)
      if (plan_.best.size() < count) plan_.best.push_back(planned(i));
  }
  // From the fastest on: each that needs less than all faster ones.
  void frontier() {
    double least = no_limit;
    for (const size_t i : order_) {
      if (found_[i].bound.memory.bytes() >= least) continue;
      least = found_[i].bound.memory.bytes();
      plan_.frontier.push_back(planned(i));
    }
    std::reverse(plan_.frontier.begin(), plan_.frontier.end());
  }
  void losers() {
    std::map<std::string, bool> seen;
    for (const PlannedLayout& each : plan_.best) seen[describe(each.layout.shape)] = true;
    for (const size_t i : order_)
      if (!std::exchange(seen[describe(layouts_[i].shape)], true))
        plan_.losers.push_back(planned(i));
  }
  // Meshes of which nothing fits, with the layout that needs least.
  void refused() {
    std::map<std::string, size_t> least;
    for (size_t i = 0; i < found_.size(); ++i) {
      auto [at, is_new] = least.try_emplace(describe(layouts_[i].shape), i);
      const bool fits = this->fits(i), fitted = this->fits(at->second);
      const bool smaller = found_[i].bound.memory.bytes() < found_[at->second].bound.memory.bytes();
      if (!is_new && (fits || (!fitted && smaller))) at->second = i;
    }
    for (const auto& [mesh, i] : least)
      if (!fits(i))
        plan_.refused.push_back(
            {text_of(layouts_[i]), why_too_large(found_[i].bound.memory, plan_.request.memory())});
  }

  void smallest() {
    const auto bytes = [](const EvaluatedLayout& each) { return each.bound.memory.bytes(); };
    const auto least =
        std::min_element(found_.begin(), found_.end(),
                         [&](const auto& a, const auto& b) { return bytes(a) < bytes(b); });
    if (least == found_.end() || plan_.fitting > 0) return;
    plan_.smallest = {text_of(layouts_[static_cast<size_t>(least - found_.begin())]),
                      why_too_large(least->bound.memory, plan_.request.memory())};
  }

  int64_t fitting() const {
    int64_t count = 0;
    for (size_t i = 0; i < found_.size(); ++i) count += fits(i);
    return count;
  }

 private:
  bool fits(size_t i) const { return found_[i].bound.memory.bytes() <= plan_.request.memory(); }
  PlannedLayout planned(size_t i) const {
    return {layouts_[i],
            estimate_step(plan_.request.cluster, described(plan_.request, layouts_[i]), cache_)};
  }

  Plan& plan_;
  std::vector<Layout> layouts_;
  const std::vector<EvaluatedLayout>& found_;
  EstimateCache& cache_;
  std::vector<size_t> order_;  // of those that fit
};

}  // namespace detail

// Errors: a request or options that cannot be. A plan without any layout that fits is no error:
// `refused` says why.
inline Plan make_plan(const PlanRequest& request, const PlanOptions& options = {},
                      Where where = Where::current()) {
  if (options.best < 1 || options.threads < 1)
    fail(where, "a plan of the best {} by {} threads: give 1 or more of each", options.best,
         options.threads);
  LayoutSpace space = layout_space(request, where);
  Plan plan;
  plan.request = request;
  plan.refused = std::move(space.refused);
  EstimateCache cache;
  const LayoutsFound found = search_layouts(request, space.layouts, options, cache);
  plan.layouts = std::ssize(space.layouts), plan.estimated = found.estimated;
  detail::PlanMaker maker(plan, std::move(space.layouts), found.layouts, cache);
  plan.fitting = maker.fitting();
  maker.best(static_cast<size_t>(options.best));
  maker.frontier();
  maker.losers();
  maker.refused();
  maker.smallest();
  return plan;
}

// "31% slower: 6.43 s per step, the best 4.91 s; most of it bubble, 1.54 s against 0.25 s": the
// part that grew by most seconds.
inline std::string why_slower(const StepEstimate& loser, const StepEstimate& best) {
  std::vector<std::pair<std::string, std::pair<double, double>>> parts = {
      {"computing", {loser.time.computed, best.time.computed}},
      {"bubble", {loser.bubble, best.bubble}}};
  for (size_t i = 0; i < exposed_kinds; ++i)
    parts.push_back({fmt::format("exposed {} communication", name(static_cast<Exposed>(i))),
                     {loser.time.exposed[i], best.time.exposed[i]}});
  const auto grew = [](const auto& part) { return part.second.first - part.second.second; };
  const auto& most = *std::max_element(
      parts.begin(), parts.end(), [&](const auto& a, const auto& b) { return grew(a) < grew(b); });
  const auto shown = [](double part, double of) { return part < 1e-4 * of ? 0 : part; };
  return fmt::format(
      "{:.0f}% slower: {:.3g} s per step, the best {:.3g} s; most of it {}, {:.3g} s against "
      "{:.3g} s",
      100 * (loser.seconds / best.seconds - 1), loser.seconds, best.seconds, most.first,
      shown(most.second.first, loser.seconds), shown(most.second.second, best.seconds));
}

}  // namespace yotta
