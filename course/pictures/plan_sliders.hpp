// Sliders over the planner: which layout trains a model fastest, for some GPUs, network cards,
// sequences and batches.
//
// A table asks for hundreds of plans, so each looks at plain layouts only: sequences one at a time,
// 1F1B, ring attention, tp with sp, ZeRO-1 without FSDP, no block or all recomputed. They are taken
// from the planner's own space, and the planner's search finds the best of them. `./yotta lesson 28
// -- --sliders FILE` and notebook 28 show the page.
#pragma once

#include "slider_page.hpp"  // beside this file: notebooks have no course/ on their path
#include "yotta/plan/planner.hpp"

namespace yotta {

// Values of the four sliders: GPUs in nodes of 8, GB/s of a card, tokens of a sequence, and 2^20
// tokens of a step.
struct PlanSliders {
  std::vector<double> gpus = {8, 16, 32, 64}, cards = {5, 25, 50, 100, 400},
                      sequences = {2048, 8192, 32768, 131072}, batches = {1, 4, 16};
};

inline bool is_plain(const PlanRequest& request, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  const bool shared = shape.dp_shard == 1 && shape.cp * shape.dp_replicate > 1;
  return layout.pieces == Pieces::none && layout.sequence_parallel == (shape.tp > 1) &&
         layout.context == ContextParallel::ring && layout.schedule == PipelineKind::one_f_one_b &&
         layout.recomputed != 1 && (layout.zero == 1) == shared &&
         layout.microbatches * shape.data_ranks() == request.batch();
}
inline std::vector<Layout> plain_layouts(const PlanRequest& request) {
  std::vector<Layout> layouts = layout_space(request).layouts;
  std::erase_if(layouts, [&](const Layout& each) { return !is_plain(request, each); });
  return layouts;
}

// What the page says of the fastest of some layouts.
inline SliderPoint fastest_of(const PlanRequest& request, const std::vector<Layout>& layouts) {
  EstimateCache cache;
  const LayoutsFound found = search_layouts(request, layouts, {.best = 1}, cache);
  size_t best = layouts.size();
  for (size_t i = 0; i < layouts.size(); ++i) {
    const double seconds = found.layouts[i].seconds;
    if (seconds > 0 && (best == layouts.size() || seconds < found.layouts[best].seconds)) best = i;
  }
  const double none = std::nan("");
  if (best == layouts.size()) return {{none, none, none}, "no plain layout fits"};
  const StepEstimate e = estimate_step(request.cluster, described(request, layouts[best]));
  return {{e.seconds, 100 * e.mfu, e.memory.bytes() / 1e9}, "Fastest: " + text_of(layouts[best])};
}

inline constexpr const char* plan_sliders_title =
    "Llama 3 8B: the fastest of the planner's plain layouts";

// Of a model in bf16 on H100. A point keeps the layouts of the one before where only the cards
// differ.
inline SliderTable plan_table(const std::string& title, const TransformerConfig& config,
                              const PlanSliders& sliders = {}) {
  SliderTable table{title,
                    {{"sequence", "tokens", sliders.sequences, sliders.sequences.size() / 3},
                     {"batch", "x 2^20 tokens", sliders.batches, sliders.batches.size() / 3},
                     {"GPUs", "H100", sliders.gpus, sliders.gpus.size() / 3},
                     {"a network card", "GB/s", sliders.cards, sliders.cards.size() / 2}},
                    {{"step", "s", 3}, {"MFU", "%", 1}, {"memory of a GPU", "GB", 1}}};
  std::vector<double> last;
  std::vector<Layout> layouts;
  fill(table, [&](std::vector<double> at) {
    PlanRequest request;
    request.config = config, request.config.dtype = DType::bf16;
    request.cluster = cluster_named(fmt::format("h100x{:.0f}", at[2]));
    if (request.cluster.levels.size() > 1) request.cluster.levels[1].beta = 1e-9 / at[3];
    request.sequence = std::llround(at[0]), request.tokens = std::llround(at[1] * (1 << 20));
    at.pop_back();
    if (at != last) layouts = plain_layouts(request), last = at;
    return fastest_of(request, layouts);
  });
  return table;
}

}  // namespace yotta
