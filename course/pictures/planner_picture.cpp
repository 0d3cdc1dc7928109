#include "course/pictures/planner_picture.hpp"

#include <algorithm>
#include <cmath>

#include "course/pictures/svg.hpp"

namespace yotta {

namespace {

std::string line(double x0, double y0, double x1, double y1, const char* color = "#ddd",
                 double width = 1) {
  return fmt::format(
      "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\" stroke-width=\"{}\" "
      "fill=\"none\"/>\n",
      x0, y0, x1, y1, color, width);
}
std::string dot(double x, double y, double radius, const char* fill) {
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", x, y, radius,
                     fill);
}

// ---- the frontier ----

constexpr double frontier_left = 70, frontier_bottom = 380, frontier_wide = 560,
                 frontier_tall = 310;
constexpr const char *front = "#4477aa", *other = "#bbbbbb", *chosen = "#ee6677";

// Seconds from a round number below the fastest on, five steps of a round number; all of a chip's
// memory.
struct FrontierAxes {
  double memory, step, fastest, slowest;

  explicit FrontierAxes(const Plan& plan) : memory(plan.request.cluster.chip.memory) {
    const double best = plan.best.front().estimate.seconds;
    step = std::pow(10, std::floor(std::log10(best)));
    for (const double smaller : {0.5, 0.4, 0.5})  // 10, 5, 2, 1
      if (best / step < 2.5) step *= smaller;
    fastest = std::floor(best / step) * step, slowest = fastest + 5 * step;
  }
  double x(const PlannedLayout& p) const {
    return frontier_left + frontier_wide * p.estimate.memory.bytes() / memory;
  }
  double y(double seconds) const {
    return frontier_bottom - frontier_tall * (seconds - fastest) / (slowest - fastest);
  }
  double y(const PlannedLayout& p) const { return y(p.estimate.seconds); }
  bool shows(const PlannedLayout& p) const { return p.estimate.seconds <= slowest; }
};

std::string frontier_frame(const FrontierAxes& axes) {
  std::string svg;
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const double x = frontier_left + frontier_wide * quarter / 4;
    svg += line(x, frontier_bottom, x, frontier_bottom - frontier_tall) +
           svg::text(x, frontier_bottom + 18, fmt::format("{:.3g}", axes.memory / 4e9 * quarter),
                     "middle");
  }
  for (int i = 0; i <= 5; ++i) {
    const double s = axes.fastest + i * axes.step;
    svg += line(frontier_left, axes.y(s), frontier_left + frontier_wide, axes.y(s)) +
           svg::text(frontier_left - 8, axes.y(s) + 4, fmt::format("{:.3g}", s), "end");
  }
  return svg + svg::text(20, 56, "step, s") +
         svg::text(frontier_left + frontier_wide / 2, frontier_bottom + 38,
                   fmt::format("memory of the fullest GPU, GB (it has {:.3g})", axes.memory / 1e9),
                   "middle");
}

// Of the frontier: the largest, the smallest, and what halves the memory from one to the next.
std::vector<const PlannedLayout*> worth_a_name(const std::vector<PlannedLayout>& frontier) {
  std::vector<const PlannedLayout*> all;
  for (size_t i = frontier.size(); i-- > 0;)
    if (all.empty() ||
        frontier[i].estimate.memory.bytes() < 0.6 * all.back()->estimate.memory.bytes())
      all.push_back(&frontier[i]);
  return all;
}

// Words in lines of so many letters, cut after commas.
std::vector<std::string> broken(std::string text, size_t most) {
  std::vector<std::string> lines;
  while (text.size() > most && text.rfind(", ", most) != std::string::npos) {
    const size_t cut = text.rfind(", ", most) + 2;
    lines.push_back(text.substr(0, cut - 1));
    text = text.substr(cut);
  }
  lines.push_back(text);
  return lines;
}

}  // namespace

PlanRequest planner_request() {
  PlanRequest request;
  request.config = llama3_8b();
  request.config.dtype = DType::bf16;
  request.cluster = cluster_named("h100x16");
  request.tokens = int64_t{1} << 20;
  request.sequence = 8192;
  return request;
}

namespace {

// Dots of all layouts that are shown, and the frontier as a line.
std::string frontier_dots(const Plan& plan, const FrontierAxes& axes) {
  std::string svg;
  for (const std::vector<PlannedLayout>* each : {&plan.losers, &plan.best})
    for (const PlannedLayout& p : *each)
      if (axes.shows(p)) svg += dot(axes.x(p), axes.y(p), 3.5, other);
  const PlannedLayout* before = nullptr;
  for (const PlannedLayout& p : plan.frontier) {
    if (!axes.shows(p)) continue;
    if (before != nullptr)
      svg += line(axes.x(*before), axes.y(*before), axes.x(p), axes.y(p), front, 1.5);
    svg += dot(axes.x(p), axes.y(p), 4, front);
    before = &p;
  }
  return svg + dot(axes.x(plan.best.front()), axes.y(plan.best.front()), 6, chosen);
}

// Numbers on the frontier, and what they stand for beside it.
std::string frontier_names(const Plan& plan, const FrontierAxes& axes) {
  std::string svg;
  double y = 84;
  int number = 0;
  for (const PlannedLayout* p : worth_a_name(plan.frontier)) {
    if (!axes.shows(*p)) continue;
    ++number;
    svg += svg::text(axes.x(*p) + 4, axes.y(*p) - 10, fmt::format("{}", number), "middle", svg::ink,
                     13, true);
    svg += svg::text(650, y,
                     fmt::format("{}  {:.{}f} s, {:.0f} GB", number, p->estimate.seconds,
                                 axes.step < 0.1 ? 4 : 2, p->estimate.memory.bytes() / 1e9),
                     "start", svg::ink, 12, true);
    y += 16;
    for (const std::string& each : broken(text_of(p->layout), 36)) {
      svg += svg::text(666, y, each, "start", svg::ink, 11);
      y += 14;
    }
    y += 12;
  }
  return svg;
}

}  // namespace

std::string frontier_svg(const Plan& plan, const std::string& what) {
  const std::string title = "Memory against time: " + what;
  std::string svg = svg::paper(900, 432, title);
  svg += svg::text(20, 28, title, "start", svg::ink, 15, true);
  if (plan.best.empty()) return svg + svg::text(20, 60, "No layout fits.") + "</svg>\n";
  const FrontierAxes axes(plan);
  svg += frontier_frame(axes) + frontier_dots(plan, axes) + frontier_names(plan, axes);
  svg += dot(660, 366, 6, chosen) + svg::text(674, 370, "the fastest") + dot(660, 386, 4, front) +
         svg::text(674, 390, "none is faster and smaller") + dot(660, 406, 3.5, other) +
         svg::text(674, 410, "best of its mesh");
  return svg + "</svg>\n";
}

// ---- the four cases ----

BatchLimits h100_limits(double batch, double sequence, bool one_card) {
  const Cluster nodes = cluster_named("h100x16");
  const double card = 1 / nodes.levels[1].beta;
  const double sends = one_card ? card : nodes.chip.domain * card;
  return {batch, sequence, nodes.chip.bf16, sends};
}

BatchLimits v5p_limits(double batch, double sequence, int axes) {
  const Chip& chip = chip_named("v5p");
  return {batch, sequence, chip.bf16, 2.0 * axes * chip.link, false};
}

namespace {

constexpr const char* case_colors[] = {"#bbddbb", "#aaccee", "#f3e3a0", "#f0b8a8"};
constexpr double map_tall = 320, map_wide = 360, map_bottom = 390;
constexpr int least_batch = 19, most_batch = 27;  // powers of two
constexpr int least_chips = 5, most_chips = 17;

double map_x(double left, double batch) {
  return left + map_wide * (std::log2(batch) - least_batch) / (most_batch - least_batch);
}
double map_y(double chips) {
  return map_bottom - map_tall * (std::log2(chips) - least_chips) / (most_chips - least_chips);
}

// Cells of the map, equal neighbours of a row in one box.
std::string case_cells(double left, bool one_card) {
  constexpr int fine = 8;  // cells to a doubling
  std::string svg;
  for (int row = 0; row < fine * (most_chips - least_chips); ++row) {
    const double chips = std::exp2(least_chips + (row + 0.5) / fine);
    const int columns = fine * (most_batch - least_batch);
    const auto at = [&](int column) {
      const double batch = std::exp2(least_batch + (column + 0.5) / fine);
      return limit_case(h100_limits(batch, 8192, one_card), chips);
    };
    const double height = map_tall / fine / (most_chips - least_chips);
    for (int first = 0, last = 0; first < columns; first = last) {
      while (last < columns && at(last) == at(first)) ++last;
      const char* color = case_colors[static_cast<int>(at(first))];
      svg += svg::box(left + map_wide * first / columns, map_bottom - height * (row + 1),
                      map_wide * (last - first) / columns, height, color, color);
    }
  }
  return svg;
}

std::string case_axes(double left) {
  std::string svg;
  for (int power = least_batch + 1; power <= most_batch; power += 2)
    svg += svg::text(map_x(left, std::exp2(power)), map_bottom + 18,
                     fmt::format("{}M", (int64_t{1} << power) >> 20), "middle");
  for (int power = least_chips; power <= most_chips; power += 2)
    svg += svg::text(left - 8, map_y(std::exp2(power)) + 4, fmt::format("{}", int64_t{1} << power),
                     "end");
  return svg + svg::text(left + map_wide / 2, map_bottom + 38, "tokens of a batch", "middle");
}

std::string case_map(double left, bool one_card, const std::string& title) {
  std::string svg = svg::text(left, 58, title, "start", svg::ink, 13, true);
  svg += case_cells(left, one_card) + case_axes(left);
  svg += dot(map_x(left, std::exp2(24)), map_y(16384), 5, svg::ink) +
         svg::text(map_x(left, std::exp2(24)) - 10, map_y(16384) - 6, "Llama 3 405B", "end");
  svg += dot(map_x(left, 4e6), map_y(4096), 5, svg::ink) +
         svg::text(map_x(left, 4e6) - 10, map_y(4096) - 6, "70B on 4096", "end");
  return svg;
}

}  // namespace

std::string cases_svg() {
  std::string svg = svg::paper(900, 520, "The four cases as a map of batch and chips");
  svg += svg::text(20, 28, "FSDP alone on H100, sequences of 8192 tokens: which limit is passed",
                   "start", svg::ink, 15, true);
  svg += case_map(80, false, "eight cards of a node together: P / W = 2474");
  svg += case_map(510, true, "one ring, one card of a node: P / W = 19,788");
  svg += svg::text(30, 58, "chips");
  constexpr double at[] = {40, 190, 350, 580};
  for (int each = 0; each < 4; ++each)
    svg += svg::box(at[each], 458, 16, 14, case_colors[each]) +
           svg::text(at[each] + 22, 470, name(static_cast<LimitCase>(each)));
  return svg +
         svg::text(40, 500,
                   "batch: less than a sequence for a chip; communication: FSDP's trips take "
                   "longer than computing") +
         "</svg>\n";
}

// ---- the recipe ----

namespace {

const char* recipe_color(const Layout& layout) {
  const MeshShape& s = layout.shape;
  if (s.cp > 1) return "#cce3a3";
  if (s.pp > 1) return "#f0b8a8";
  if (s.tp > 1) return "#f3e3a0";
  return s.dp_shard > 1 ? "#aaccee" : "#d9e6f2";
}

std::string recipe_cell(double x, double y, const PlanRequest& request, EstimateCache& cache) {
  const std::optional<Recipe> found = recipe_for(request, cache);
  if (!found)
    return svg::box(x, y, 104, 44, "#eeeeee", "#999") +
           svg::text(x + 52, y + 27, "does not fit", "middle", svg::quiet);
  const PlannedLayout& p = found->chosen;
  return svg::box(x, y, 104, 44, recipe_color(p.layout), "#999") +
         svg::text(x + 52, y + 18, techniques_of(p.layout), "middle", svg::ink, 13, true) +
         svg::text(x + 52, y + 35,
                   fmt::format("MFU {:.0f}%{}", 100 * p.estimate.mfu,
                               p.layout.recomputed != 0 ? ", again" : ""),
                   "middle", svg::ink, 11);
}

}  // namespace

std::string recipe_svg() {
  std::string svg = svg::paper(900, 560, "Techniques by size of model and cluster");
  svg += svg::text(20, 28,
                   "The fewest techniques within 5% of the fastest, at usual rates: 16M tokens per "
                   "step on H100",
                   "start", svg::ink, 15, true);
  EstimateCache cache;
  double y = 66;
  for (const int64_t sequence : recipe_sequences) {
    svg += svg::text(20, y - 8, fmt::format("sequences of {} tokens", sequence), "start", svg::ink,
                     13, true);
    for (const RecipeModel& model : recipe_models()) {
      svg += svg::text(130, y + 27, model.name, "end", svg::ink, 13);
      double x = 142;
      for (const int chips : recipe_chips) {
        svg +=
            recipe_cell(x, y, recipe_request(model, chips, sequence, &stack_named("usual")), cache);
        x += 106;
      }
      y += 46;
    }
    double x = 142;
    for (const int chips : recipe_chips) {
      svg += svg::text(x + 52, y + 14, fmt::format("{}", chips), "middle");
      x += 106;
    }
    svg += svg::text(130, y + 14, "GPUs", "end");
    y += 56;
  }
  constexpr double at[] = {20, 160, 320, 430, 560};
  const Layout kinds[] = {{.shape = {.dp_replicate = 2}},
                          {.shape = {.dp_shard = 2}},
                          {.shape = {.tp = 2}},
                          {.shape = {.pp = 2}},
                          {.shape = {.cp = 2}}};
  const char* words[] = {"copies, ZeRO-1", "FSDP or HSDP", "with tp", "with pp", "with cp"};
  for (size_t i = 0; i < std::size(kinds); ++i)
    svg += svg::box(at[i], 532, 16, 14, recipe_color(kinds[i]), "#999") +
           svg::text(at[i] + 22, 544, words[i]);
  return svg + svg::text(670, 544, "again: blocks are recomputed") + "</svg>\n";
}

}  // namespace yotta
