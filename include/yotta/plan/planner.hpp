// Planner: which layout trains a model fastest on a cluster, and why each other one loses.
//
//     layout_space      all layouts that keep the rules          layout_space.hpp
//       memory          those that do not fit are refused        step_estimate.hpp
//         seconds       of those that fit                        the same
//           best        the fastest ten
//           frontier    those to which no other is faster and smaller
//           losers      of each mesh its best layout, with the line that says why it loses
//
// Contract: seconds are those of the described cluster, with the stated efficiency of kernels.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "yotta/plan/layout_space.hpp"
#include "yotta/plan/step_estimate.hpp"

namespace yotta {

struct PlannedLayout {
  Layout layout;
  StepEstimate estimate;
};

struct Plan {
  PlanRequest request;
  int64_t layouts = 0;                  // looked at
  int64_t estimated = 0;                // of them, in full: of the others the bound said enough
  int64_t fitting = 0;                  // of them, those that fit in a chip's memory
  std::vector<PlannedLayout> best;      // the fastest first
  std::vector<PlannedLayout> frontier;  // the smallest first, each faster than all before
  std::vector<PlannedLayout> losers;    // the best of each other mesh that fits, the fastest first
  std::vector<RefusedLayout> refused;   // meshes that cannot be, or do not fit
};

struct PlanOptions {
  int best = 10;
  int threads = 2;
};

// Errors: a request that cannot be. A plan without any layout that fits is no error: `refused` says
// why.
YOTTA_API Plan make_plan(const PlanRequest& request, const PlanOptions& options = {},
                         Where where = Where::current());

// Bytes as people say them: "does not fit: 96.4 of 80 GB; weights 40.1, gradients ..., ...".
YOTTA_API std::string why_too_large(const MemoryParts& memory, double capacity);
// "31% slower: bubble 24% of its step, 5% of the best one's": the part that grew by most seconds.
YOTTA_API std::string why_slower(const StepEstimate& loser, const StepEstimate& best);

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace yotta {

std::string why_too_large(const MemoryParts& m, double capacity) {
  const auto gb = [](double bytes) { return bytes / 1e9; };
  return fmt::format(
      "does not fit: {:.1f} of {:.0f} GB; weights {:.1f}, gradients {:.1f}, optimizer {:.1f}, "
      "activations {:.1f}, buffers {:.1f}",
      gb(m.bytes()), gb(capacity), gb(m.weights), gb(m.gradients), gb(m.optimizer),
      gb(m.activations), gb(m.buffers));
}

std::string why_slower(const StepEstimate& loser, const StepEstimate& best) {
  std::vector<std::pair<std::string, std::pair<double, double>>> parts = {
      {"computed", {loser.time.computed, best.time.computed}},
      {"bubble", {loser.bubble, best.bubble}}};
  for (size_t i = 0; i < exposed_kinds; ++i)
    parts.push_back({fmt::format("exposed {} communication", name(static_cast<Exposed>(i))),
                     {loser.time.exposed[i], best.time.exposed[i]}});
  const auto grew = [](const auto& part) { return part.second.first - part.second.second; };
  const auto& most = *std::max_element(
      parts.begin(), parts.end(), [&](const auto& a, const auto& b) { return grew(a) < grew(b); });
  return fmt::format("{:.0f}% slower: {} {:.0f}% of its step, {:.0f}% of the best one's",
                     100 * (loser.seconds / best.seconds - 1), most.first,
                     100 * most.second.first / loser.seconds,
                     100 * most.second.second / best.seconds);
}

namespace detail {

struct Evaluated {
  StepBound bound;
  double seconds = 0;  // 0: it does not fit, or cannot be among those that are asked for
};

// Evaluates layouts in the order of their bounds, and leaves out those whose bound says that they
// are not among the best, nor the best of their mesh, nor on the frontier.
class LayoutSearch {
 public:
  LayoutSearch(const PlanRequest& request, const std::vector<Layout>& layouts,
               const PlanOptions& options)
      : request_(request), layouts_(layouts), options_(options), found_(layouts.size()) {
    for (size_t i = 0; i < layouts.size(); ++i)
      meshes_.push_back(i == 0 ? 0 : meshes_.back() + !(layouts[i].shape == layouts[i - 1].shape));
    best_of_mesh_.assign(layouts.empty() ? 0 : meshes_.back() + 1, no_limit);
  }

  std::vector<Evaluated> run() {
    together(layouts_.size(), [this](size_t i) {
      found_[i].bound = bound_step(request_.cluster, described(request_, layouts_[i]), cache_);
    });
    std::vector<size_t> order;
    for (size_t i = 0; i < found_.size(); ++i)
      if (found_[i].bound.memory.bytes() <= request_.cluster.chip.memory) order.push_back(i);
    std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return std::pair(found_[a].bound.seconds, a) < std::pair(found_[b].bound.seconds, b);
    });
    together(order.size(), [&](size_t at) { estimate(order[at]); });
    return std::move(found_);
  }
  int64_t estimated() const { return estimated_; }

 private:
  // Calls work(0), work(1), ... on all threads.
  void together(size_t count, const std::function<void(size_t)>& work) {
    std::atomic<size_t> next = 0;
    const auto loop = [&] {
      for (size_t i = next++; i < count; i = next++) work(i);
    };
    std::vector<std::thread> others;
    for (int t = 1; t < options_.threads; ++t) others.emplace_back(loop);
    loop();
    for (std::thread& each : others) each.join();
  }

  void estimate(size_t i) {
    if (!is_wanted(i)) return;
    const StepEstimate estimate =
        estimate_step(request_.cluster, described(request_, layouts_[i]), cache_);
    const std::lock_guard lock(mutex_);
    ++estimated_;
    found_[i].seconds = estimate.seconds;
    double& of_mesh = best_of_mesh_[meshes_[i]];
    of_mesh = std::min(of_mesh, estimate.seconds);
    best_.insert(estimate.seconds);
    if (std::ssize(best_) > options_.best) best_.erase(std::prev(best_.end()));
    add_to_frontier(found_[i].bound.memory.bytes(), estimate.seconds);
  }
  bool is_wanted(size_t i) {
    const std::lock_guard lock(mutex_);
    const double least = found_[i].bound.seconds;
    return least <= best_of_mesh_[meshes_[i]] || std::ssize(best_) < options_.best ||
           least <= *best_.rbegin() || !is_dominated(found_[i].bound.memory.bytes(), least);
  }
  // Is another layout as small, and as fast?
  bool is_dominated(double bytes, double seconds) const {
    const auto after = frontier_.upper_bound(bytes);
    return after != frontier_.begin() && std::prev(after)->second <= seconds;
  }
  void add_to_frontier(double bytes, double seconds) {
    if (is_dominated(bytes, seconds)) return;
    const auto first = frontier_.lower_bound(bytes);
    auto last = first;
    while (last != frontier_.end() && last->second >= seconds) ++last;
    frontier_.insert_or_assign(frontier_.erase(first, last), bytes, seconds);
  }

  const PlanRequest& request_;
  const std::vector<Layout>& layouts_;
  const PlanOptions& options_;
  std::vector<Evaluated> found_;
  EstimateCache cache_;
  std::mutex mutex_;
  std::vector<size_t> meshes_;  // the number of each layout's mesh
  std::vector<double> best_of_mesh_;
  std::set<double> best_;              // seconds of the fastest so far
  std::map<double, double> frontier_;  // bytes, seconds: fewer seconds with more bytes
  int64_t estimated_ = 0;
};

}  // namespace detail

namespace detail {

// Orders what was evaluated.
class PlanMaker {
 public:
  PlanMaker(Plan& plan, std::vector<Layout> layouts, const std::vector<Evaluated>& found)
      : plan_(plan), layouts_(std::move(layouts)), found_(found) {
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
            {text_of(layouts_[i]),
             why_too_large(found_[i].bound.memory, plan_.request.cluster.chip.memory)});
  }

  int64_t fitting() const {
    int64_t count = 0;
    for (size_t i = 0; i < found_.size(); ++i) count += fits(i);
    return count;
  }

 private:
  bool fits(size_t i) const {
    return found_[i].bound.memory.bytes() <= plan_.request.cluster.chip.memory;
  }
  PlannedLayout planned(size_t i) const {
    return {layouts_[i],
            estimate_step(plan_.request.cluster, described(plan_.request, layouts_[i]))};
  }

  Plan& plan_;
  std::vector<Layout> layouts_;
  const std::vector<Evaluated>& found_;
  std::vector<size_t> order_;  // of those that fit
};

}  // namespace detail

Plan make_plan(const PlanRequest& request, const PlanOptions& options, Where where) {
  LayoutSpace space = layout_space(request, where);
  Plan plan;
  plan.request = request;
  plan.refused = std::move(space.refused);
  detail::LayoutSearch search(request, space.layouts, options);
  const std::vector<detail::Evaluated> found = search.run();
  plan.layouts = std::ssize(found), plan.estimated = search.estimated();
  detail::PlanMaker maker(plan, std::move(space.layouts), found);
  plan.fitting = maker.fitting();
  maker.best(static_cast<size_t>(options.best));
  maker.frontier();
  maker.losers();
  maker.refused();
  return plan;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
