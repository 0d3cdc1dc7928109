#include "course/pictures/mfu_picture.hpp"

#include <algorithm>
#include <cmath>

#include "course/pictures/svg.hpp"
#include "yotta/plan/stacks.hpp"

namespace yotta {

namespace {

// By Loss; colour-blind readers can tell them apart (Paul Tol, "Colour schemes", 2021).
constexpr const char* colors[loss_kinds] = {"#dddddd", "#bbbbbb", "#eedd88", "#ffaabb", "#99ddff",
                                            "#aaaa00", "#77aadd", "#44bb99", "#ee8866"};
constexpr const char* useful = "#bbcc33";
constexpr const char* short_names[loss_kinds] = {
    "launch gaps", "between operations", "memory", "type",         "kernels",
    "stragglers",  "communication",      "bubble", "recomputation"};

}  // namespace

double matmul_hfu(int64_t n) {
  const Chip& chip = chip_named("h100");
  Efficiency reached;
  reached.matmul = kernels_of(chip.name).matmul, reached.memory = memory_share, reached.overlap = 0;
  const auto side = static_cast<double>(n);
  const OpCost cost{"linear", DType::bf16, 2 * side * side * side, 2 * 2 * side * side,
                    2 * side * side};
  return cost.flops / kernel_seconds(chip, reached, cost) / chip.bf16;
}

std::string hfu_svg() {
  constexpr double left = 70, wide = 700, bottom = 290, tall = 230, first = 8, last = 14;  // 2^8
  const auto x_of = [&](double n) { return left + wide * (std::log2(n) - first) / (last - first); };
  const auto y_of = [&](double share) { return bottom - tall * share; };
  std::string svg = svg::paper(900, 350, "The share of an H100's peak that one matmul reaches");
  svg += svg::text(20, 28, "One matmul n x n x n in bf16 on an H100: share of the peak (HFU)",
                   "start", svg::ink, 15, true);
  for (int tick = 0; tick <= 100; tick += 20)
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#ddd\"/>\n", left,
                       y_of(tick / 100.0), left + wide) +
           svg::text(left - 8, y_of(tick / 100.0) + 4, fmt::format("{}%", tick), "end");
  std::string path;
  for (double log = first; log <= last; log += 0.125) {
    const double n = std::round(std::exp2(log));
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_of(n),
                        y_of(matmul_hfu(static_cast<int64_t>(n))));
    if (log == std::floor(log))
      svg += svg::text(x_of(n), bottom + 20, fmt::format("{:.0f}", n), "middle");
  }
  svg +=
      fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#4477aa\" stroke-width=\"2.5\"/>\n", path);
  for (const PublishedMatmul& each : cublas_on_h100)
    svg +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"#ee6677\"/>\n",
                    x_of(static_cast<double>(each.n)), y_of(each.flops / chip_named("h100").bf16));
  return svg + svg::text(x_of(1500), y_of(0.32), "as the planner takes it", "start", "#4477aa") +
         svg::text(x_of(5200), y_of(0.86), "cuBLAS, alone and again and again", "end", "#ee6677") +
         svg::text(left + wide / 2, bottom + 44, "n", "middle") + "</svg>\n";
}

std::string waterfall_svg(const Waterfall& fall, const std::string& title) {
  constexpr double left = 330, full = 480, row = 26, top = 50;
  std::vector<LostTime> lost = fall.lines();
  std::erase_if(lost,
                [&](const LostTime& each) { return std::abs(each.seconds) < 0.0005 * fall.all(); });
  const double bottom = top + row * static_cast<double>(lost.size() + 2);
  std::string svg = svg::paper(900, static_cast<int>(bottom) + 44, title);
  svg += svg::text(20, 28, title, "start", svg::ink, 15, true);
  for (int tick = 0; tick <= 100; tick += 20)
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"#ddd\"/>\n",
                       left + full * tick / 100, top, bottom) +
           svg::text(left + full * tick / 100, bottom + 18, fmt::format("{}%", tick), "middle");
  double y = top, until = 1;
  const auto line = [&](double from, double to, const char* color, const std::string& words) {
    svg += svg::text(left - 12, y + 17, words, "end") +
           svg::box(left + full * from, y + 4, full * (to - from), row - 7, color) +
           svg::text(left + full * to + 6, y + 17, fmt::format("{:.1f}%", 100 * (to - from)));
    y += row;
  };
  line(0, 1, "#ffffff", fmt::format("peak of {} chips", fall.ranks));
  for (const LostTime& each : lost) {
    const double share = each.seconds / fall.all();
    const char* name = short_names[static_cast<int>(each.loss)];
    line(until - share, until, colors[static_cast<int>(each.loss)],
         each.name.empty() ? name : fmt::format("{}: {}", name, each.name));
    until -= share;
  }
  line(0, fall.mfu(), useful, "MFU");
  return svg +
         svg::text(left + full / 2, bottom + 36, "share of the peak, seconds of all chips",
                   "middle") +
         "</svg>\n";
}

std::string first_waterfall_svg() {
  return waterfall_svg(mfu_of(first_mfu_run(), cluster_named("h100x16")).waterfall,
                       "Where the peak of 16 H100 went: tp 2, pp 2, fsdp 4, blocks computed again");
}

std::vector<NamedMachine> faster_machines() {
  std::vector<NamedMachine> all;
  for (const char* chip : {"a100", "h100", "b200"})
    all.push_back({chip, cluster_named(fmt::format("{}x16", chip))});
  Cluster faster = cluster_named("h100x16");
  faster.chip.bf16 *= 8;
  all.push_back({"h100, 8 x FLOP/s", faster});
  return all;
}

MfuRun faster_run() {
  MfuRun run;
  run.layout = {.dp_shard = 16};
  run.options.sequence = run.sequence;
  return run;
}

std::string faster_svg() {
  constexpr double bottom = 330, tall = 260, wide = 120, left = 70, step = 160;
  std::string svg = svg::paper(900, 400, "Where the peak goes as chips get faster");
  svg += svg::text(20, 28,
                   "The same steps on 16 chips of four kinds: FSDP over all, 8192 tokens per chip",
                   "start", svg::ink, 15, true);
  for (int tick = 0; tick <= 100; tick += 20)
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#ddd\"/>\n", left - 10,
                       bottom - tall * tick / 100, left + 4 * step) +
           svg::text(left - 16, bottom - tall * tick / 100 + 4, fmt::format("{}%", tick), "end");
  double x = left;
  for (const auto& [name, cluster] : faster_machines()) {
    const MfuReport report = mfu_of(faster_run(), cluster);
    double y = bottom;
    const auto part = [&](double share, const char* color, const char* words) {
      const double height = tall * share;
      y -= height;
      svg += svg::box(x, y, wide, height, color);
      if (share >= 0.05)
        svg +=
            svg::text(x + wide / 2, y + height / 2 + 4,
                      fmt::format("{}{}{:.0f}%", words, *words ? " " : "", 100 * share), "middle");
    };
    part(report.waterfall.mfu(), useful, "MFU");
    for (int loss = loss_kinds - 1; loss >= 0; --loss)
      part(std::max(0.0, report.waterfall.share(static_cast<Loss>(loss))), colors[loss], "");
    svg += svg::text(x + wide / 2, bottom + 20, name, "middle") +
           svg::text(x + wide / 2, bottom + 40,
                     fmt::format("{:.0f} ms per step", 1e3 * report.step_seconds), "middle");
    x += step;
  }
  double y = 76;
  svg += svg::box(720, y - 11, 14, 12, useful) + svg::text(742, y, "MFU");
  for (const Loss loss : {Loss::recomputation, Loss::bubble, Loss::communication, Loss::clock,
                          Loss::memory, Loss::launch}) {
    y += 24;
    svg += svg::box(720, y - 11, 14, 12, colors[static_cast<int>(loss)]) +
           svg::text(742, y, short_names[static_cast<int>(loss)]);
  }
  return svg + "</svg>\n";
}

}  // namespace yotta
