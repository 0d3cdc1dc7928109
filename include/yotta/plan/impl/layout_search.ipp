// The bodies of plan/layout_search.hpp.
#pragma once

#include "yotta/plan/layout_search.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <thread>

namespace yotta {

YOTTA_INLINE void together(int threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::exception_ptr problem;
  std::mutex mutex;
  const auto loop = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!problem) problem = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads && static_cast<size_t>(t) < count; ++t) others.emplace_back(loop);
  loop();
  for (std::thread& each : others) each.join();
  if (problem) std::rethrow_exception(problem);
}

namespace detail {

class LayoutSearch {
 public:
  LayoutSearch(const PlanRequest& request, const std::vector<Layout>& layouts,
               const PlanOptions& options, EstimateCache& cache)
      : request_(request),
        layouts_(layouts),
        options_(options),
        cache_(cache),
        found_(layouts.size()) {
    for (size_t i = 0; i < layouts.size(); ++i)
      meshes_.push_back(i == 0 ? 0 : meshes_.back() + !(layouts[i].shape == layouts[i - 1].shape));
    best_of_mesh_.assign(layouts.empty() ? 0 : meshes_.back() + 1, no_limit);
  }

  LayoutsFound run() {
    bound_all();
    std::vector<size_t> order;
    for (size_t i = 0; i < found_.size(); ++i)
      if (fits(i)) order.push_back(i);
    std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return std::pair(found_[a].bound.seconds, a) < std::pair(found_[b].bound.seconds, b);
    });
    for (size_t first = 0; first < order.size(); first += round) {
      const size_t count = std::min(round, order.size() - first);
      estimate(std::span(order).subspan(first, count));
      say("seconds", first + count, order.size());
    }
    return {std::move(found_), estimated_};
  }

 private:
  static constexpr size_t round = 64;

  void say(const char* part, size_t done, size_t total) const {
    if (options_.on_progress)
      options_.on_progress({part, static_cast<int64_t>(done), static_cast<int64_t>(total)});
  }
  bool fits(size_t i) const { return found_[i].bound.memory.bytes() <= request_.memory(); }
  // Where i differs from the layout before it in its microbatches alone, which are larger.
  bool grows(size_t i) const {
    if (i == 0) return false;
    Layout before = layouts_[i - 1];
    const bool larger = before.microbatches > layouts_[i].microbatches;
    before.microbatches = layouts_[i].microbatches;
    return larger && before == layouts_[i];
  }
  void bound_all() {
    std::vector<size_t> begins;
    for (size_t i = 0; i < layouts_.size(); ++i)
      if (!grows(i)) begins.push_back(i);
    begins.push_back(layouts_.size());
    for (size_t first = 0; first + 1 < begins.size(); first += round) {
      const size_t count = std::min(round, begins.size() - 1 - first);
      together(options_.threads, count,
               [&](size_t run) { bound_growing(begins[first + run], begins[first + run + 1]); });
      say("memory", begins[first + count], layouts_.size());
    }
  }
  // Where microbatches do not fit, larger ones do not either: they get the bytes of the smaller.
  void bound_growing(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      found_[i].bound = i > begin && !fits(i - 1)
                            ? found_[i - 1].bound
                            : bound_step(request_.cluster, described(request_, layouts_[i]), cache_,
                                         request_.memory());
  }

  void estimate(std::span<const size_t> order) {
    std::vector<size_t> wanted;
    for (const size_t i : order)
      if (!options_.prunes || is_wanted(i)) wanted.push_back(i);
    together(options_.threads, wanted.size(), [&](size_t at) {
      const DescribedStep step = described(request_, layouts_[wanted[at]]);
      found_[wanted[at]].seconds = step_seconds(request_.cluster, step, cache_);
    });
    for (const size_t i : wanted) keep(i);
  }
  void keep(size_t i) {
    ++estimated_;
    const double seconds = found_[i].seconds;
    double& of_mesh = best_of_mesh_[meshes_[i]];
    of_mesh = std::min(of_mesh, seconds);
    best_.insert(seconds);
    if (std::ssize(best_) > options_.best) best_.erase(std::prev(best_.end()));
    add_to_frontier(found_[i].bound.memory.bytes(), seconds);
  }
  bool is_wanted(size_t i) const {
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
  EstimateCache& cache_;
  std::vector<EvaluatedLayout> found_;
  std::vector<size_t> meshes_;  // the number of each layout's mesh
  std::vector<double> best_of_mesh_;
  std::multiset<double> best_;         // seconds of the fastest so far
  std::map<double, double> frontier_;  // bytes, seconds: fewer seconds with more bytes
  int64_t estimated_ = 0;
};

}  // namespace detail

YOTTA_INLINE LayoutsFound search_layouts(const PlanRequest& request,
                                         const std::vector<Layout>& layouts,
                                         const PlanOptions& options, EstimateCache& cache) {
  return detail::LayoutSearch(request, layouts, options, cache).run();
}

}  // namespace yotta
