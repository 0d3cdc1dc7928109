#include "course/pictures/cluster_picture.hpp"

#include <array>
#include <cmath>

#include "course/pictures/svg.hpp"
#include "yotta/comm/layouts/torus_shape.hpp"
#include "yotta/machine/cluster.hpp"

namespace yotta {

namespace {

using svg::box;
using svg::ink;
using svg::quiet;
using svg::text;

// ---- the torus

constexpr int side = 4;
constexpr double pitch = 58, chip = 28, grid_top = 128;
constexpr const char* part_colors[] = {"#2f6fa7", "#c2552d", "#8a7400", "#1f8a63"};

TorusShape shape_of(int length) { return TorusShape{{length, length}, 2}; }

// The middle of a chip; the first axis, which counts fastest, goes to the right.
struct Place {
  double x, y;
};
Place place_of(double left, int number) {
  return {left + pitch * (number % side), grid_top + pitch * (number / side)};
}

std::string line(const std::string& points, const char* color, double width,
                 const char* more = "") {
  return fmt::format("<path d=\"M{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n",
                     points, color, width, more);
}

std::string chips(double left) {
  std::string svg;
  for (int number = 0; number < side * side; ++number) {
    const Place at = place_of(left, number);
    svg += box(at.x - chip / 2, at.y - chip / 2, chip, chip, "#f4f4f4") +
           text(at.x, at.y + 4, std::to_string(number), "middle");
  }
  return svg;
}

// The wire between two chips of a hop: straight, or around the edge of the grid.
std::string wire(double left, int from, int to) {
  const Place a = place_of(left, from), b = place_of(left, to);
  if (to - from == 1 || to - from == side)
    return line(fmt::format("{:.0f} {:.0f}L{:.0f} {:.0f}", a.x, a.y, b.x, b.y), "#555", 2);
  if (a.y == b.y)
    return line(fmt::format("{:.0f} {:.0f}h-26v-22H{:.0f}v22H{:.0f}", a.x, a.y, b.x + 26, b.x),
                svg::lit, 1.4);
  return line(fmt::format("{:.0f} {:.0f}v-26h22V{:.0f}h-22V{:.0f}", a.x, a.y, b.y + 26, b.y),
              svg::lit, 1.4);
}

std::string wires(double left) {
  std::string svg = text(left - 30, 84, "The wires", "start", ink, 13, true);
  const std::vector<int> axes = {side, side};
  for (int from = 0; from < side * side; ++from)
    for (int to = from + 1; to < side * side; ++to)
      if (torus_hops(axes, from, to) == 1) svg += wire(left, from, to);
  return svg + chips(left);
}

// An arrow of a part's color, beside the wire: forward on one side of it, back on the other.
std::string step_svg(double left, const TorusStep& step) {
  const Place a = place_of(left, step.from), b = place_of(left, step.to);
  const bool along_row = a.y == b.y;
  const double sign = (along_row ? b.x > a.x : b.y > a.y) != step.wraps ? 1 : -1, beside = 7 * sign;
  const double reach = step.wraps ? 16 : pitch - chip - 3;
  const std::string tip = fmt::format(" marker-end=\"url(#part{})\"", step.part);
  const auto draw = [&](Place from, double begin, double length) {
    const double u = from.x + (along_row ? sign * begin : beside),
                 w = from.y + (along_row ? beside : sign * begin);
    return line(fmt::format("{:.1f} {:.1f}{}{:.1f}", u, w, along_row ? "h" : "v", sign * length),
                part_colors[step.part], 2.2, tip.c_str());
  };
  std::string svg = draw(a, chip / 2 + 1, reach);
  if (step.wraps) svg += draw(b, -chip / 2 - 18, 16);
  return svg;
}

std::string phase_svg(double left, int phase) {
  std::string svg =
      text(left - 30, 84, fmt::format("Phase {}", phase), "start", ink, 13, true) + chips(left);
  for (const TorusStep& step : torus_steps(side, phase)) svg += step_svg(left, step);
  return svg;
}

std::string part_tips() {
  std::string svg;
  for (size_t part = 0; part < std::size(part_colors); ++part)
    svg += fmt::format(
        "<marker id=\"part{}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" "
        "markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 "
        "8Z\" fill=\"{}\"/></marker>\n",
        part, part_colors[part]);
  return svg;
}

std::string torus_legend(double y) {
  const TorusShape shape = shape_of(side);
  std::string svg = line(fmt::format("20 {:.0f}h26", y - 4), "#555", 2) +
                    text(54, y, "a wire to a neighbour") +
                    line(fmt::format("20 {:.0f}h26", y + 16), svg::lit, 1.4) +
                    text(54, y + 20, "the wire that joins the ends of an axis");
  for (int part = 0; part < shape.rings(); ++part) {
    const double x = part % 2 == 0 ? 330 : 616, at = y + 20 * (part / 2);
    svg += line(fmt::format("{:.0f} {:.0f}h26", x, at - 4), part_colors[part], 2.2,
                fmt::format(" marker-end=\"url(#part{})\"", part).c_str()) +
           text(x + 34, at,
                fmt::format("part {}: {}, then {}", part, shape.name(shape.ring(part, 0)),
                            shape.name(shape.ring(part, 1))));
  }
  return svg;
}

// ---- the levels

constexpr double bars_at = 626, bar_per_gb = 0.07;

// "24,576"
std::string thousands(int number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

// A level's box, and small boxes for those beside it. Each box stands in the one before it.
constexpr const char* level_fills[] = {"#dbe9f7", "#e9f3e4", "#fdf3d3", "#f7e3da"};  // node first

std::string nested(const Cluster& cluster) {
  const std::string inside[] = {fmt::format("{} GPUs", cluster.levels[0].chips), "nodes", "racks",
                                "pods"};
  std::string svg;
  double x = 20, y = 78, width = 580, height = 306;
  for (size_t i = cluster.levels.size(); i-- > 0;) {
    const Level& level = cluster.levels[i];
    const int parts = i == 0 ? level.chips : level.chips / cluster.levels[i - 1].chips;
    svg += box(x, y, width, height, level_fills[i]);
    svg += text(x + 10, y + 18,
                i == 0 ? fmt::format("{}: {}", level.name, inside[i])
                       : fmt::format("{}: {} {}, {} GPUs", level.name, thousands(parts), inside[i],
                                     thousands(level.chips)),
                "start", ink, 12, true);
    if (i == 0) break;
    const double small = 78, left = x + width - small - 10;
    const int shown = std::min(parts - 1, 4);
    const double each = (height - 52) / shown;
    for (int n = 0; n < shown; ++n) {
      const double top = y + 30 + each * n;
      const bool rest = n + 1 == shown && parts - 1 > shown;
      const std::string& name = cluster.levels[i - 1].name;
      svg += box(left, top, small, each - 6, level_fills[i - 1]) +
             text(left + small / 2, top + each / 2 + 1,
                  rest ? fmt::format("{} more", parts - 1 - n) : name, "middle", ink, 11);
    }
    x += 12, y += 30, width -= small + 34, height -= 42;
  }
  for (int gpu = 0; gpu < cluster.levels[0].chips; ++gpu)
    svg += box(x + 10 + 54 * (gpu % 4), y + 34 + 60 * (gpu / 4), 48, 50, "#fff") +
           text(x + 34 + 54 * (gpu % 4), y + 63 + 60 * (gpu / 4), fmt::format("GPU {}", gpu),
                "middle", ink, 11);
  return svg;
}

std::string bar(double y, const std::string& name, double gb, const std::string& more,
                const char* fill) {
  return text(bars_at, y, name, "start", ink, 12, true) +
         box(bars_at, y + 8, std::max(1.0, bar_per_gb * gb), 14, fill) +
         text(bars_at, y + 38, fmt::format("{:.{}f} GB/s{}", gb, gb < 10 ? 1 : 0, more));
}

std::string bars(const Cluster& cluster) {
  const char* between[] = {"GPUs of a node", "nodes of a rack", "racks of a pod", "pods"};
  std::string svg =
      text(bars_at, 78, "What one GPU gets, each way", "start", ink, 13, true) +
      bar(102, "GPU to its own memory (HBM)", 1e-9 * cluster.chip.bandwidth, "", "#bbcc33");
  for (size_t i = 0; i < cluster.levels.size(); ++i) {
    const Level& level = cluster.levels[i];
    svg += bar(162 + 60 * static_cast<double>(i), fmt::format("between {}", between[i]),
               1e-9 / level.beta, fmt::format(", {:.0f} us on the way", 1e6 * level.alpha),
               level_fills[i]);
  }
  return svg;
}

}  // namespace

std::vector<TorusStep> torus_steps(int length, int phase) {
  const TorusShape shape = shape_of(length);
  std::vector<TorusStep> steps;
  for (int part = 0; part < shape.rings(); ++part) {
    const int ring = shape.ring(part, phase), stride = shape.stride(ring);
    for (int from = 0; from < shape.ranks(); ++from) {
      const int on_axis = from / stride % length, next = (shape.place(ring, from) + 1) % length;
      int to = from - on_axis * stride;
      while (shape.place(ring, to) != next) to += stride;
      steps.push_back({part, from, to, std::abs(to - from) != stride});
    }
  }
  return steps;
}

std::string torus_svg() {
  const char* const title = "A torus of 4 x 4 chips, and the four rings of a collective on it";
  std::string svg = svg::paper(900, 408, title, part_tips());
  svg += text(20, 28, title, "start", ink, 15, true) +
         text(20, 48,
              "The array is cut into 4 parts. In a phase each part has all rings of one axis and "
              "one direction to itself, so no wire carries two.") +
         wires(62) + phase_svg(366, 0) + phase_svg(670, 1) + torus_legend(352);
  return svg +
         text(20, 396,
              "reduce_scatter: phase 0, then 1; all_gather: 1, then 0. An arrow that leaves at an "
              "edge comes in at the other, by a red wire.") +
         "</svg>\n";
}

std::string levels_svg() {
  const Cluster cluster = llama3_24k();
  const std::string title =
      fmt::format("The levels of a cluster of {} H100", thousands(cluster.size()));
  return svg::paper(900, 408, title) + text(20, 28, title, "start", ink, 15, true) +
         text(20, 48,
              "A box of each level is drawn open, with the next smaller level inside. A bar is as "
              "long as the bandwidth.") +
         nested(cluster) + bars(cluster) + "</svg>\n";
}

}  // namespace yotta
