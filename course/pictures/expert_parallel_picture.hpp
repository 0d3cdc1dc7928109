// Three pictures of expert parallelism, as SVG. One: where the tokens of two ranks travel, and
// back. Two: which share of the assignments is dropped at each capacity. Three: two forward passes
// on the virtual clock, one with even loads and one with a hot expert. What they say is asked of
// the library's routers, plans and clocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "yotta/comm/run_on.hpp"
#include "yotta/nn/router_options.hpp"

namespace yotta {

// ---- one: who goes where ----

inline constexpr int journey_ranks = 2;
// A row: token 3 of all, in the order of ranks, for expert 2.
struct JourneyRow {
  int64_t token = 0, expert = 0;
  bool operator==(const JourneyRow&) const = default;
};
struct JourneyRank {
  std::vector<JourneyRow> leaving;  // sorted by expert
  std::vector<JourneyRow> held;     // arrived, and sorted by expert held
  std::vector<int64_t> to;          // rows for each rank
};
// Six tokens, k = 2, four experts; each row goes through sort_by_expert, dispatch_plan and
// RowsInFlight.
std::vector<JourneyRank> expert_journey();
std::string expert_parallel_svg();

// ---- two: loads, and what a capacity drops ----

// A router of 16 experts that learns even loads and nothing else, on batches of 1024 tokens with
// two experts each. The tokens have a part in common, as a model's have.
struct RouterLoads {
  std::vector<int64_t> rows;  // of each expert
  double log_sum_exp = 0;     // of the logits: root of its mean square
};
// In the batch after so many; 0: as it was made. Of `options` what evens out loads counts.
RouterLoads router_loads(RouterOptions options, int batches);
// By a bias, as DeepSeek-V3 does: in the picture, and in both tables of lesson 25.
inline const RouterOptions bias_router = {.score = RouterScore::sigmoid, .bias_rate = 0.02};
std::string expert_capacity_svg();

// ---- three: a hot expert ----

// A mixture's forward pass on 4 ranks with an expert each, where the share `hot` of every rank's
// tokens goes to expert 0 and the others go evenly to all.
Timed hot_expert_run(double hot);
std::string expert_hot_svg();

}  // namespace yotta
