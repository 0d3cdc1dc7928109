#include "course/plan/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "course/options/console.hpp"
#include "yotta/nn/linear_ops.hpp"

namespace yotta {

// Small models take milliseconds and megabytes.
std::string best_text(const Plan& plan) {
  const StepEstimate& best = plan.best[0].estimate;
  const bool is_short = best.seconds < 0.1, is_small = best.memory.bytes() < 0.1e9;
  console::Table table({"", is_short ? "ms / step" : "s / step", "TFLOP/s", "MFU", "bubble",
                        "exposed", is_small ? "MB" : "GB", "layout"});
  for (size_t i = 0; i < plan.best.size(); ++i) {
    const StepEstimate& e = plan.best[i].estimate;
    const double tera = e.flops_a_second() / 1e12;
    table.row({std::to_string(i + 1), fmt::format("{:.3f}", e.seconds * (is_short ? 1e3 : 1)),
               fmt::format("{:.{}f}", tera, tera < 10 ? 2 : 0), fmt::format("{:.1f}%", 100 * e.mfu),
               fmt::format("{:.1f}%", 100 * e.bubble / e.seconds),
               fmt::format("{:.1f}%", 100 * e.exposed() / e.seconds),
               fmt::format("{:.1f}", e.memory.bytes() / (is_small ? 1e6 : 1e9)),
               text_of(plan.best[i].layout)});
  }
  return table.text();
}

std::string pieces_text(const Plan& plan) {
  const DescribedStep step = described(plan.request, plan.best[0].layout);
  const LayerSizes z = layer_sizes(step);
  const int64_t rows = step.options.pieces == Pieces::none ? z.N : z.n;
  const int64_t hidden = step.config.feed_forward / step.shape.tp;
  const auto seconds = [&](int64_t count) {
    const OpCost cost = linear_cost("linear", step.config.dtype, count, std::max(hidden, z.C), z.C);
    return kernel_seconds(plan.request.cluster.chip, plan.request.efficiency, cost) /
           static_cast<double>(count);
  };
  const double share = seconds(int64_t{1} << 20) / seconds(rows);
  if (share > 0.85) return "";
  return fmt::format(
      "Pieces are small: products of {} tokens reach {:.0f}% of the rate of large ones.\n", rows,
      100 * share);
}

std::string memory_text(const MemoryParts& m) {
  return fmt::format(
      "{:.1f} GB: weights {:.1f}, gradients {:.1f}, optimizer {:.1f}, activations {:.1f}, buffers "
      "{:.1f}\n",
      m.bytes() / 1e9, m.weights / 1e9, m.gradients / 1e9, m.optimizer / 1e9, m.activations / 1e9,
      m.buffers / 1e9);
}

namespace {

struct Dot {
  double gb, seconds;
  int kind;  // 0 a mesh's best, 1 one of the best, 2 on the frontier
};

// Those that take at most `most` times as long as the best.
std::vector<Dot> dots(const Plan& plan, double most) {
  std::vector<Dot> all;
  const auto add = [&](const std::vector<PlannedLayout>& layouts, int kind) {
    for (const PlannedLayout& each : layouts)
      if (each.estimate.seconds <= most * plan.best[0].estimate.seconds)
        all.push_back({each.estimate.memory.bytes() / 1e9, each.estimate.seconds, kind});
  };
  add(plan.losers, 0);
  add(plan.best, 1);
  add(plan.frontier, 2);
  return all;
}

// Axes: memory from 0 to the chip's, the logarithm of seconds from the best to the slowest dot.
struct Scale {
  double gb, least, most;

  explicit Scale(const Plan& plan, const std::vector<Dot>& all)
      : gb(plan.request.cluster.chip.memory / 1e9), least(all[0].seconds), most(least * 1.01) {
    for (const Dot& each : all)
      least = std::min(least, each.seconds), most = std::max(most, each.seconds);
  }
  double x(const Dot& dot) const { return dot.gb / gb; }
  double y(const Dot& dot) const { return std::log(dot.seconds / least) / std::log(most / least); }
  double seconds(double y) const { return least * std::pow(most / least, y); }
};

constexpr double shown = 10;  // times the best's seconds

}  // namespace

std::string plan_picture(const Plan& plan) {
  if (plan.best.empty()) return "";
  constexpr int width = 64, height = 14;
  const std::vector<Dot> all = dots(plan, shown);
  const Scale scale(plan, all);
  std::vector<std::string> lines(height, std::string(width, ' '));
  for (const Dot& dot : all) {
    const auto x = static_cast<size_t>(std::clamp(scale.x(dot), 0.0, 1.0) * (width - 1));
    const auto y = static_cast<size_t>((1 - scale.y(dot)) * (height - 1));
    lines[y][x] = ".o#"[dot.kind];
  }
  std::string text = "  seconds per step\n";
  for (int line = 0; line < height; ++line) {
    const double y = 1 - static_cast<double>(line) / (height - 1);
    const std::string label =
        line % 4 == 0 || line + 1 == height ? fmt::format("{:.3g}", scale.seconds(y)) : "";
    text += fmt::format("{:>9} │{}\n", label, lines[static_cast<size_t>(line)]);
  }
  std::string axis;
  for (int i = 0; i < width; ++i) axis += "─";
  return text +
         fmt::format("{:>9} └{}\n{:11}0{:>{}.0f} GB per chip\n", "", axis, "", scale.gb,
                     width - 1) +
         "  # frontier: none is faster with less memory    o the best    . the best of a mesh\n";
}

std::string losers_text(const Plan& plan, size_t lines) {
  std::string text;
  if (lines == 0) return text;
  const auto every = [&](size_t count) { return std::max<size_t>(1, (count + lines - 1) / lines); };
  for (size_t i = 0; i < plan.losers.size() && !plan.best.empty(); i += every(plan.losers.size()))
    text += fmt::format("  {}\n      {}\n", text_of(plan.losers[i].layout),
                        why_slower(plan.losers[i].estimate, plan.best[0].estimate));
  for (size_t i = 0; i < plan.refused.size(); i += every(plan.refused.size()))
    text += fmt::format("  {}\n      {}\n", plan.refused[i].layout, plan.refused[i].why);
  return text;
}

}  // namespace yotta
