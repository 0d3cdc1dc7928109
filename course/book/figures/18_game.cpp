#include "course/book/figures/schedule.hpp"
#include "yotta/parallel/pipeline_schedule.hpp"

namespace book {
namespace {

constexpr int p = 3;
constexpr int64_t m = 4;

// Forwards in their order, and backward j as soon as `before[j]` of them have run.
yotta::PipelineActions actions_of(int rank, const double* before) {
  yotta::PipelineActions actions;
  int64_t forwards = 0;
  for (int64_t j = 0; j < m; ++j) {
    while (forwards < static_cast<int64_t>(before[j]))
      actions.push_back({rank, yotta::PipelineOp::F, forwards++});
    actions.push_back({rank, yotta::PipelineOp::B, j});
  }
  while (forwards < m) actions.push_back({rank, yotta::PipelineOp::F, forwards++});
  return actions;
}

// "F(0, 0), F(0, 1), B(0, 0)": a rank's actions, as the lines of C++ write them.
std::string calls(const yotta::PipelineActions& actions) {
  std::string all;
  for (const yotta::PipelineAction& each : actions)
    all += fmt::format("{}{}({}, {})", all.empty() ? "" : ", ",
                       each.op == yotta::PipelineOp::F ? 'F' : 'B', each.stage, each.microbatch);
  return all;
}

Data data(const std::vector<double>& at) {
  yotta::PipelineSchedule schedule{"yours", p, p, m, {}};
  for (int rank = 0; rank < p; ++rank)
    schedule.by_rank.push_back(actions_of(rank, at.data() + rank * m));
  const yotta::PipelineTimeline line = yotta::simulate_as_far(schedule);
  const yotta::PipelineTimeline best =
      yotta::simulate(yotta::make_schedule(yotta::PipelineKind::one_f_one_b, p, m));
  Data made;
  std::string stuck, lists;
  for (size_t r = 0; r < p; ++r) {
    const yotta::PipelineActions& all = schedule.by_rank[r];
    lists += fmt::format("{}{{{}}}", r == 0 ? "" : ",\n                 ", calls(all));
    if (line.by_rank[r].size() < all.size())
      stuck += fmt::format("{}rank {} at {}", stuck.empty() ? "" : ", ", r,
                           yotta::str(all[line.by_rank[r].size()]));
  }
  add_timeline(made, line);
  if (stuck.empty()) made.numbers = {{"a step", "times F", line.length, 4}};
  for (size_t r = 0; r < p; ++r)
    made.numbers.push_back({fmt::format("rank {} holds, at most", r), "microbatches",
                            double(yotta::most_in_flight(schedule.by_rank[r])), 6});
  made.numbers.push_back({"1F1B's step", "times F", best.length, 4});
  made.rows.push_back({"stuck", {}, {stuck}});
  made.code = fmt::format(
      "const auto F = [](int r, int i) {{ return yotta::PipelineAction{{r, yotta::PipelineOp::F, "
      "i}}; "
      "}};\n"
      "const auto B = [](int r, int i) {{ return yotta::PipelineAction{{r, yotta::PipelineOp::B, "
      "i}}; "
      "}};\n"
      "yotta::PipelineSchedule mine{{\"mine\", {0}, {0}, {1}, {{}}}};\n"
      "mine.by_rank = {{{2}}};\n"
      "for (const auto& rank : mine.by_rank) fmt::print(\"holds {{}}\\n\", "
      "yotta::most_in_flight(rank));\n"
      "{3}",
      p, m, lists,
      stuck.empty() ? "fmt::print(\"{} times F\\n\", yotta::simulate(mine).length);"
                    : "// yotta::simulate(mine) would say who waits for whom");
  return made;
}

}  // namespace

Figure game_figure() {
  Figure figure{"18_game",
                "GPipe runs all forward passes first, so each rank holds all microbatches. Drag "
                "backward passes to the left: how few can each rank hold while the step stays as "
                "short? Too early, and the ranks wait for each other forever.",
                {},
                data};
  for (int rank = 0; rank < p; ++rank)
    for (int64_t j = 0; j < m; ++j)
      figure.settings.push_back(
          {fmt::format("rank {}, forwards before B{}", rank, j), "", counted(1, m), m - 1});
  return figure;
}

}  // namespace book
