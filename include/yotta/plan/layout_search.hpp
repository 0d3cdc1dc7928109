// Layout search: memory of all layouts, and seconds of those that a plan may ask for.
//
//     every layout      memory, but for microbatches that are larger than some that do not fit
//       that fits       a bound: seconds that it cannot be below                bound_step
//                       in the order of their bounds
//         64 a round    those that may be among the best, the best of their mesh, or on the
//                       frontier, as the rounds before say                        estimate_step
//
// What is left out depends on the rounds, not on the speed of the threads: a search finds and
// counts the same every time.
// Letters: none.
#pragma once

#include <functional>
#include <vector>

#include "yotta/plan/layout_space.hpp"
#include "yotta/plan/step_estimate.hpp"

namespace yotta {

// What a search is at: "memory" of all layouts, then "seconds" of those that fit.
struct SearchProgress {
  const char* of = "";
  int64_t done = 0, total = 0;  // layouts
};
struct PlanOptions {
  int best = 10;
  int threads = 2;
  bool prunes = true;  // false: all that fit are estimated in full
  // Called on the thread that searches, at the end of each part too.
  std::function<void(const SearchProgress&)> on_progress = {};
};

struct EvaluatedLayout {
  StepBound bound;
  double seconds = 0;  // 0: it does not fit, or cannot be among those that are asked for
};
struct LayoutsFound {
  std::vector<EvaluatedLayout> layouts;
  int64_t estimated = 0;  // of them, in full
};
LayoutsFound search_layouts(const PlanRequest& request, const std::vector<Layout>& layouts,
                            const PlanOptions& options, EstimateCache& cache);

// Calls work(0), ..., work(count - 1) on so many threads. The first error of any of them is thrown.
void together(int threads, size_t count, const std::function<void(size_t)>& work);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/layout_search.ipp"
#endif
