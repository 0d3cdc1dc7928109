#include "course/pictures/planner_recipe.hpp"

#include <algorithm>

#include "yotta/model/layout_rules.hpp"

namespace yotta {

namespace {

int count_of(const Layout& l) {
  const MeshShape& s = l.shape;
  return (s.tp > 1) + (s.cp > 1) + (s.pp > 1) + (s.dp_shard > 1) +
         (s.dp_shard > 1 && s.dp_replicate > 1) + (l.recomputed != 0);
}

void add_schedule(const PlanRequest& request, Layout& layout) {
  const auto fits = [&](int chunks) { return chunks * layout.shape.pp <= request.config.layers; };
  if (layout.shape.pp == 1) return;
  layout.chunks = fits(4) ? 4 : fits(2) ? 2 : 1;
  if (layout.chunks > 1) layout.schedule = PipelineKind::interleaved;
}

// The ways to use the ranks that tp, cp and pp leave.
std::vector<Layout> data_parallel(const MeshShape& shape, int data) {
  const int node = 8 / std::min(8, shape.tp * shape.cp);
  Layout layout;
  layout.shape = shape;
  layout.sequence_parallel = shape.tp > 1;
  std::vector<Layout> all = {layout};
  all[0].shape.dp_replicate = data;
  all[0].zero = data * shape.cp > 1 ? 1 : 0;
  if (shape.pp > 1 || data == 1) return all;
  layout.shape.dp_shard = data;
  all.push_back(layout);
  if (node == 1 || data % node != 0 || data == node) return all;
  layout.shape.dp_shard = node, layout.shape.dp_replicate = data / node;
  all.push_back(layout);
  return all;
}

}  // namespace

std::vector<RecipeModel> recipe_models() {
  std::vector<RecipeModel> all = {{"1.5B", llama3_config(16, 2048, 8192, 32)},
                                  {"8B", llama3_8b()},
                                  {"70B", llama3_70b()},
                                  {"405B", llama3_405b()}};
  for (RecipeModel& each : all) each.config.dtype = DType::bf16;
  return all;
}

PlanRequest recipe_request(const RecipeModel& model, int chips, int64_t sequence,
                           const Stack* stack) {
  PlanRequest request;
  request.config = model.config;
  request.cluster = cluster_named(fmt::format("h100x{}", chips));
  request.tokens = int64_t{16} << 20;
  request.sequence = sequence;
  return stack == nullptr ? request : reached_request(request, *stack);
}

std::vector<Layout> recipe_layouts(const PlanRequest& request) {
  std::vector<Layout> all;
  const int chips = request.cluster.size();
  const auto add = [&](Layout layout) {
    add_schedule(request, layout);
    layout.microbatches = request.batch() / layout.shape.data_ranks();
    for (const int64_t recomputed : {0, -1}) {
      layout.recomputed = recomputed;
      const DescribedStep step = described(request, layout);
      if (layout_works(step.config, step.shape, step.batch, step.options)) all.push_back(layout);
    }
  };
  for (const int tp : {1, 8})
    for (int cp = 1; cp <= 16; cp *= 2)
      for (int pp = 1; pp <= 16; pp *= 2) {
        const MeshShape shape{.tp = tp, .cp = cp, .pp = pp};
        if (chips % (tp * cp * pp) != 0) continue;
        for (const Layout& each : data_parallel(shape, chips / (tp * cp * pp)))
          if (each.shape.data_ranks() <= request.batch()) add(each);
      }
  return all;
}

std::optional<Recipe> recipe_for(const PlanRequest& request, EstimateCache& cache) {
  std::vector<PlannedLayout> fitting;
  double fastest = no_limit;
  for (const Layout& each : recipe_layouts(request)) {
    const DescribedStep step = described(request, each);
    const StepBound bound = bound_step(request.cluster, step, cache);
    if (bound.memory.bytes() > request.cluster.chip.memory || bound.seconds > 1.05 * fastest)
      continue;
    fitting.push_back({each, estimate_step(request.cluster, step, cache)});
    fastest = std::min(fastest, fitting.back().estimate.seconds);
  }
  if (fitting.empty()) return {};
  const auto faster = [](const PlannedLayout& a, const PlannedLayout& b) {
    return a.estimate.seconds < b.estimate.seconds;
  };
  std::erase_if(fitting,
                [&](const PlannedLayout& each) { return each.estimate.seconds > 1.05 * fastest; });
  const auto simpler = [&](const PlannedLayout& a, const PlannedLayout& b) {
    const int first = count_of(a.layout), second = count_of(b.layout);
    return first != second ? first < second : faster(a, b);
  };
  return Recipe{*std::min_element(fitting.begin(), fitting.end(), simpler), fastest};
}

std::string techniques_of(const Layout& layout) {
  const MeshShape& s = layout.shape;
  std::string text;
  const auto add = [&](const char* word) { text += (text.empty() ? "" : " ") + std::string(word); };
  if (s.tp > 1) add("tp");
  if (s.cp > 1) add("cp");
  if (s.pp > 1) add("pp");
  if (s.dp_shard > 1)
    add(s.dp_replicate > 1 ? "HSDP" : "FSDP");
  else if (s.dp_replicate > 1)
    add("dp");
  return text;
}

}  // namespace yotta
