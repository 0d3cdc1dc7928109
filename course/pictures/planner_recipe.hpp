// Which techniques the planner finds for a model and a number of GPUs: lesson 28's map. A few
// layouts of each kind are estimated (plan/step_estimate.hpp), and of those within 5% of the
// fastest the one with the fewest techniques is taken.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "yotta/plan/measured_rows.hpp"
#include "yotta/plan/planner.hpp"

namespace yotta {

struct RecipeModel {
  std::string name;
  TransformerConfig config;
};
// 1.5, 8, 70 and 405 billion parameters, in bf16.
std::vector<RecipeModel> recipe_models();
inline constexpr int recipe_chips[] = {8, 32, 128, 256, 1024, 4096, 16384};
inline constexpr int64_t recipe_sequences[] = {8192, 131072};

// 16 x 2^20 tokens per step, on H100 as `stack` finds them; nullptr: kernels as when timed alone,
// links at their full rate.
PlanRequest recipe_request(const RecipeModel& model, int chips, int64_t sequence,
                           const Stack* stack = nullptr);

// tp 1 or 8, cp and pp of powers of two, the rest data parallelism: DDP with ZeRO-1 (FSDP in a node
// and DDP between nodes, or FSDP over all, where there is no pipeline). Pipelines are interleaved.
// With and without recomputation.
std::vector<Layout> recipe_layouts(const PlanRequest& request);

struct Recipe {
  PlannedLayout chosen;
  double fastest = 0;  // seconds of the fastest layout
};
// Empty: no layout fits. `cache`: of all that is asked for one after the other.
std::optional<Recipe> recipe_for(const PlanRequest& request, EstimateCache& cache);

// "tp pp dp": the axes of a layout, FSDP with dp as HSDP.
std::string techniques_of(const Layout& layout);

}  // namespace yotta
