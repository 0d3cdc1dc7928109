#include "course/tour/real_cluster.hpp"

#include <fmt/core.h>

#include <string>

#include "yotta/plan/planner.hpp"

namespace yotta {

namespace {

// The best layout of a model on a cluster, in two lines.
void print_best(const std::string& what, const TransformerConfig& model, const char* cluster,
                int64_t tokens, int64_t sequence) {
  PlanRequest request;
  request.config = model;
  request.config.dtype = DType::bf16;
  request.config.dropout = 0;
  request.cluster = cluster_named(cluster);
  request.tokens = tokens, request.sequence = sequence;
  const Plan plan = make_plan(request, {.best = 1});
  const StepEstimate& best = plan.best[0].estimate;
  fmt::print("{} on {}, {} tokens per step: {}\n", what, cluster, tokens,
             text_of(plan.best[0].layout));
  fmt::print(
      "  the best of {} layouts: {:.3g} s per step, {:.3g} GB per chip, {:.0f}% of the peak; {} "
      "fit\n",
      plan.layouts, best.seconds, best.memory.bytes() / 1e9, 100 * best.mfu, plan.fitting);
}

}  // namespace

void print_on_real_clusters(const TransformerConfig& model) {
  print_best("This model", model, "h100x8", 1 << 19, model.context);
  print_best("Llama 3 8B", llama3_8b(), "h100x16", 1 << 20, 8192);
  fmt::print("By formula, within 3% of a run on the described machine: ./yotta plan.\n");
}

}  // namespace yotta
