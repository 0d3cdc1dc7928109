#include "yotta/parallel/pipeline_schedule.hpp"

#include <algorithm>

#include "course/book/figures/schedule.hpp"
#include "yotta/parallel/pipeline_kinds.hpp"

namespace book {
namespace {

using yotta::PipelineKind;

Data timeline_data(PipelineKind kind, int p, int64_t m, int v, const yotta::PipelineCosts& costs) {
  const yotta::PipelinePlan plan{
      kind, kind == PipelineKind::interleaved || kind == PipelineKind::interleaved_zb ? v : 1};
  const std::string why = yotta::why_not(plan, p, m);
  Data made;
  if (!why.empty()) {
    made.rows = {{"why not", {}, {why}}};
    return made;
  }
  const yotta::PipelineTimeline line = yotta::simulate(yotta::make_schedule(plan, p, m), costs);
  double most = 0;
  for (const yotta::PipelineActions& each : line.schedule.by_rank)
    most =
        std::max(most, static_cast<double>(yotta::most_in_flight(each)) / line.schedule.chunks());
  made.numbers = {{"bubble", "% of all ranks' time", 100 * (1 - line.busy())},
                  {"a step", "times F", line.length / costs.forward, 4},
                  {"microbatches that a rank holds, at most", "", most}};
  add_timeline(made, line);
  const char* const kinds[] = {"naive", "gpipe", "one_f_one_b",    "interleaved", "zb_h1",
                               "zb_h2", "zb_v",  "interleaved_zb", "dual_pipe",   "dual_pipe_v"};
  made.code = fmt::format(
      "const yotta::PipelinePlan plan{{yotta::PipelineKind::{}, {}}};\n"
      "const auto line = yotta::simulate(yotta::make_schedule(plan, {}, {}), {{{}, {}, {}, {}}});\n"
      "fmt::print(\"a bubble of {{}}%\\n\", 100 * (1 - line.busy()));",
      kinds[static_cast<int>(kind)], plan.chunks, p, m, costs.forward, costs.input, costs.weight,
      costs.message);
  return made;
}

Data data(const std::vector<double>& at) {
  return timeline_data(static_cast<PipelineKind>(at[0]), static_cast<int>(at[1]),
                       static_cast<int64_t>(at[2]), static_cast<int>(at[3]),
                       {1, at[4], at[4], at[5]});
}

Data zero_bubble_data(const std::vector<double>& at) {
  constexpr PipelineKind kinds[] = {PipelineKind::one_f_one_b, PipelineKind::zb_h1,
                                    PipelineKind::zb_h2,       PipelineKind::zb_v,
                                    PipelineKind::dual_pipe,   PipelineKind::dual_pipe_v};
  return timeline_data(kinds[static_cast<size_t>(at[0])], static_cast<int>(at[1]),
                       static_cast<int64_t>(at[2]), 1, {1, at[3], at[4], 0});
}

}  // namespace

Figure schedule_figure() {
  return {"18_schedule",
          "What makes the bubble smaller: fewer ranks, more microbatches, or more chunks on a "
          "rank? And which of them costs memory?",
          {choice("schedule", {"naive", "GPipe", "1F1B", "interleaved 1F1B"}, 2),
           {"p, ranks", "", counted(1, 8), 3},
           {"m, microbatches", "", counted(1, 16), 7},
           {"v, chunks of a rank (interleaved)", "", counted(1, 4), 1},
           {"I and W, each", "times F", {0.5, 0.75, 1, 1.25, 1.5}, 2},
           {"a message", "times F", {0, 0.1, 0.2, 0.5, 1}, 0}},
          data};
}

Figure zero_bubble_figure() {
  return {"19_zero_bubble",
          "Weight gradients (W) can wait. How much of the bubble do they fill, and what does it "
          "cost when F, I and W are not equally long?",
          {choice("schedule", {"1F1B", "ZB-H1", "ZB-H2", "ZB-V", "DualPipe", "DualPipeV"}, 1),
           {"p, ranks", "", counted(1, 8), 3},
           {"m, microbatches", "", counted(1, 20), 9},
           {"I", "times F", {0.5, 0.75, 1, 1.25, 1.5, 2}, 2},
           {"W", "times F", {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2}, 4}},
          zero_bubble_data};
}

}  // namespace book
