// Planner: of all layouts of Llama 3 8B on 16 H100 the fastest that fits into their memory.
// DDP, which holds the whole model on each GPU, does not fit. Tensor parallelism in each node does,
// and is slower.
#include <fmt/format.h>

#include "yotta/plan/planner.hpp"

using namespace yotta;

int main() {
  PlanRequest request;
  request.config = llama3_8b();
  request.config.dtype = DType::bf16;
  request.cluster = cluster_named("h100x16");
  request.tokens = 1 << 20;
  request.sequence = 8192;
  const Plan plan = make_plan(request);
  const PlannedLayout& best = plan.best.front();
  const auto estimate = [&](const Layout& layout) {
    return estimate_step(request.cluster, described(request, layout));
  };
  const StepEstimate ddp = estimate({.shape = {.dp_replicate = 16}, .microbatches = 8});
  const StepEstimate tp = estimate({.shape = {.tp = 8, .dp_replicate = 2}, .microbatches = 8});
  fmt::print("{} layouts, {} fit; the fastest: {}\n", plan.layouts, plan.fitting,
             text_of(best.layout));
  fmt::print("{:.2f} s per step and {:.1f} GB; tp 8 {:.2f} s; DDP {:.0f} GB\n",
             best.estimate.seconds, best.estimate.memory.bytes() / 1e9, tp.seconds,
             ddp.memory.bytes() / 1e9);
  const bool right = best.estimate.memory.bytes() <= 80e9 && ddp.memory.bytes() > 80e9 &&
                     best.estimate.seconds < tp.seconds;
  if (!right) fmt::print("the best must fit and be faster than tp, and DDP must not fit\n");
  return right ? 0 : 1;
}
