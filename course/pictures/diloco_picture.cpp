#include "course/pictures/diloco_picture.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include <nlohmann/json.hpp>

#include "course/pictures/svg.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta {

namespace {

// Colour-blind readers can tell them apart (Paul Tol, "Colour schemes", 2021).
constexpr const char* colors[] = {"#222222", "#77aadd", "#ee8866", "#994455", "#44bb99",
                                  "#bbbbbb", "#aaaa00", "#ee77aa", "#225588"};

std::string path(const std::string& points, const char* color, double width,
                 const char* more = "") {
  return fmt::format("<path d=\"M{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n",
                     points, color, width, more);
}

// One axis: from a number to a place.
struct PlotAxis {
  double low, high, from, to;
  bool log = false;

  double operator()(double value) const {
    const auto scaled = [&](double x) { return log ? std::log10(x) : x; };
    return from + (to - from) * (scaled(value) - scaled(low)) / (scaled(high) - scaled(low));
  }
};

struct Tick {
  double at;
  std::string name;
};

// The frame of a chart, with lines at its ticks.
std::string frame(const PlotAxis& x, const PlotAxis& y, const std::vector<Tick>& across,
                  const std::vector<Tick>& up) {
  std::string svg;
  for (const Tick& tick : up)
    svg += path(fmt::format("{:.1f} {:.1f}H{:.1f}", x.from, y(tick.at), x.to), "#ddd", 1) +
           svg::text(x.from - 6, y(tick.at) + 4, tick.name, "end", svg::ink, 11);
  for (const Tick& tick : across)
    svg += path(fmt::format("{:.1f} {:.1f}v5", x(tick.at), y.from), "#555", 1) +
           svg::text(x(tick.at), y.from + 18, tick.name, "middle", svg::ink, 11);
  return svg + svg::box(x.from, y.to, x.to - x.from, y.from - y.to, "none", "#999");
}

std::string line(const PlotAxis& x, const PlotAxis& y,
                 const std::vector<std::pair<double, double>>& points, const char* color,
                 const char* more = "") {
  std::string d;
  for (const auto& [across, up] : points)
    if (up <= y.high && up >= y.low && across >= x.low)
      d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "" : "L", x(across), y(up));
  return path(d, color, 2, more);
}

// ---- losses ----

struct Stroke {
  const char* color;
  const char* more;
};
// Over an ocean a line has the colour of the same way without one, and is dashed.
Stroke stroke_of(const std::vector<DilocoCurve>& curves, size_t i) {
  for (size_t land = 0; land < i; ++land)
    if (curves[i].name == curves[land].name + ", ocean")
      return {colors[land % std::size(colors)], " stroke-dasharray=\"5 4\""};
  return {colors[i % std::size(colors)], ""};
}

constexpr double loss_low = 2.5, loss_high = 3.9;

struct Panel {
  const char* title;
  double low, high;
  bool log;
  std::vector<Tick> ticks;
  std::function<double(const DilocoPoint&)> at;
};

std::vector<Panel> panels_of(const DilocoSizes& s) {
  const double tokens = 1e-3 * static_cast<double>(s.batch * s.context);
  const double all = tokens * static_cast<double>(s.steps);
  return {{"thousand tokens",
           0,
           all,
           false,
           {{0, "0"}, {200, "200"}, {400, "400"}, {600, "600"}},
           [tokens](const DilocoPoint& p) { return tokens * static_cast<double>(p.step); }},
          {"MB that a worker has sent",
           0.05,
           1000,
           true,
           {{0.1, "0.1"}, {1, "1"}, {10, "10"}, {100, "100"}, {1000, "1000"}},
           [](const DilocoPoint& p) { return p.megabytes; }},
          {"seconds on the cities' clock",
           0.05,
           1000,
           true,
           {{0.1, "0.1"}, {1, "1"}, {10, "10"}, {100, "100"}, {1000, "1000"}},
           [](const DilocoPoint& p) { return p.seconds; }}};
}

// ---- the wall ----

const char* const wall_colors[] = {"#b2182b", "#ee8866", "#2f6fa7", "#44bb99"};

nlohmann::json stored(const std::string& name) {
  return nlohmann::json::parse(
      read_file(fmt::format("{}/bench/results/{}.json", YOTTA_SOURCE_DIR, name)));
}

}  // namespace

std::vector<DilocoCurve> stored_diloco_curves() {
  std::vector<DilocoCurve> curves;
  const nlohmann::json file = stored("diloco_curves");
  for (const auto& row : file.at("rows")) {
    DilocoCurve& curve = curves.emplace_back(DilocoCurve{row.at("name"), {}});
    for (size_t i = 0; i < row.at("step").size(); ++i)
      curve.points.push_back(
          {row.at("step")[i], row.at("megabytes")[i], row.at("seconds")[i], row.at("loss")[i]});
  }
  return curves;
}

std::vector<HogwildRow> stored_hogwild() {
  std::vector<HogwildRow> rows;
  const nlohmann::json file = stored("hogwild");
  for (const auto& row : file.at("rows"))
    rows.push_back({row.at("touched"), row.at("threads"), file.at("cores"), row.at("lost"),
                    row.at("loss_overwrite"), row.at("loss_add")});
  return rows;
}

std::string diloco_svg(const std::vector<DilocoCurve>& curves, const DilocoSizes& sizes) {
  const char* const title =
      "DiLoCo and its family on text: four workers, one in each of four cities";
  std::string svg = svg::paper(900, 462, title);
  svg += svg::text(20, 28, title, "start", svg::ink, 15, true) +
         svg::text(20, 48,
                   "Loss on text that was kept: of worker 0's weights, or of the server's "
                   "(asynchronous). The same runs in each chart.");
  const PlotAxis y{loss_low, loss_high, 330, 76};
  std::vector<Tick> up;
  for (const double loss : {2.5, 2.7, 2.9, 3.1, 3.3, 3.5, 3.7, 3.9})
    up.push_back({loss, fmt::format("{:.1f}", loss)});
  double left = 56;
  for (const Panel& panel : panels_of(sizes)) {
    const PlotAxis x{panel.low, panel.high, left, left + 240, panel.log};
    svg += frame(x, y, panel.ticks, up) +
           svg::text(left + 120, 366, panel.title, "middle", svg::ink, 12);
    for (size_t i = 0; i < curves.size(); ++i) {
      std::vector<std::pair<double, double>> points;
      for (const DilocoPoint& p : curves[i].points) points.push_back({panel.at(p), p.loss});
      const auto [color, more] = stroke_of(curves, i);
      svg += line(x, y, points, color, more);
    }
    left += 290;
  }
  for (size_t i = 0; i < curves.size(); ++i) {
    const double x = 56 + 210 * static_cast<double>(i % 4),
                 at = 394 + 22 * static_cast<double>(i / 4);
    const auto [color, more] = stroke_of(curves, i);
    svg += path(fmt::format("{:.0f} {:.0f}h22", x, at), color, 3, more) +
           svg::text(x + 28, at + 4, curves[i].name);
  }
  return svg + svg::text(20, 68, "loss", "start", svg::ink, 11) + "</svg>\n";
}

std::vector<DilocoCell> stored_diloco_grid() {
  std::vector<DilocoCell> cells;
  const auto number = [](const nlohmann::json& x) { return x.is_number() ? x.get<double>() : 0.0; };
  const nlohmann::json file = stored("diloco_grid");
  for (const auto& row : file.at("rows"))
    cells.push_back({row.at("k"), row.at("inner"), number(row.at("mean")),
                     number(row.at("deviation")), row.at("stopped")});
  return cells;
}

std::string diloco_grid_svg(const std::vector<DilocoCell>& cells) {
  const char* const title = "Loss of k workers that meet every H steps, at the same tokens";
  std::string svg = svg::paper(900, 400, title);
  const PlotAxis x{0.8, 250, 80, 640, true}, y{2.6, 3.8, 330, 60};
  std::vector<Tick> up;
  for (const double loss : {2.6, 2.8, 3.0, 3.2, 3.4, 3.6, 3.8})
    up.push_back({loss, fmt::format("{:.1f}", loss)});
  svg += svg::text(20, 28, title, "start", svg::ink, 15, true) + svg::text(20, 50, "loss") +
         frame(x, y, {{1, "1"}, {10, "10"}, {50, "50"}, {200, "200"}}, up) +
         svg::text(360, 368, "H, inner steps between two means", "middle") +
         line(x, y, {{0.8, cells[0].mean}, {250, cells[0].mean}}, colors[0],
              " stroke-dasharray=\"6 4\"") +
         path("670 80h22", colors[0], 3, " stroke-dasharray=\"6 4\"") +
         svg::text(700, 84, "one rank");
  double legend = 104, aside = 0.94;
  for (size_t first = 1, color = 1; first < cells.size(); ++color, legend += 24, aside += 0.04) {
    std::vector<std::pair<double, double>> points;
    const int64_t workers = cells[first].workers;
    for (; first < cells.size() && cells[first].workers == workers; ++first) {
      const DilocoCell& cell = cells[first];
      if (cell.mean == 0) continue;  // all runs were stopped
      const double at = aside * static_cast<double>(cell.inner);
      points.push_back({at, cell.mean});
      svg += path(fmt::format("{:.1f} {:.1f}V{:.1f}", x(at), y(cell.mean - cell.deviation),
                              y(cell.mean + cell.deviation)),
                  colors[color], 4);
    }
    svg += line(x, y, points, colors[color]) +
           path(fmt::format("670 {:.0f}h22", legend), colors[color], 3) +
           svg::text(700, legend + 4, fmt::format("k = {}", workers));
  }
  return svg + svg::text(670, legend + 8, "bars: standard deviation") +
         svg::text(670, legend + 24, "of three seeds") + "</svg>\n";
}

std::vector<WallWay> wall_ways() {
  LatencyWall each;
  each.inside = inside_seconds(126, 8, 1e-6);
  LatencyWall grows = each, seldom = each, both = each;
  grows.growth = both.growth = 0.5;
  seldom.inner = both.inner = 100;
  return {{"a meeting in every step", each},
          {"H = 100", seldom},
          {"a growing batch", grows},
          {"both", both}};
}

std::string latency_wall_svg() {
  const char* const title =
      "The latency wall: the largest run of 90 days, over the workers' latency";
  std::string svg = svg::paper(900, 440, title);
  const PlotAxis x{1e-6, 1, 90, 640, true}, y{1e26, 1e42, 370, 70, true};
  std::vector<Tick> up,
      across = {{1e-6, "1 us"},  {1e-5, "10 us"},  {1e-4, "100 us"}, {1e-3, "1 ms"},
                {1e-2, "10 ms"}, {1e-1, "100 ms"}, {1, "1 s"}};
  for (int power = 26; power <= 42; power += 2)
    up.push_back({std::pow(10.0, power), fmt::format("1e{}", power)});
  svg += svg::text(20, 28, title, "start", svg::ink, 15, true) + svg::text(20, 52, "FLOPs") +
         frame(x, y, across, up) +
         svg::text(365, 408, "seconds between two of 8 workers", "middle");
  const auto mark = [&](double latency, const std::string& name, double at) {
    svg += path(fmt::format("{:.1f} {:.1f}V{:.1f}", x(latency), y.from, y.to), "#999", 1,
                " stroke-dasharray=\"4 3\"") +
           svg::text(x(latency) + 4, at, name, "start", svg::ink, 11);
  };
  mark(50e-3, "cities", 362);
  mark(5e-6, "racks", 362);
  double legend = 100;
  for (size_t i = 0; const auto& [name, wall] : wall_ways()) {
    std::vector<std::pair<double, double>> points;
    for (double power = -6; power <= 0.001; power += 0.1) {
      LatencyWall at = wall;
      at.latency = std::pow(10.0, power);
      points.push_back({at.latency, largest_run(at).flops});
    }
    svg += line(x, y, points, wall_colors[i]) +
           path(fmt::format("660 {:.0f}h22", legend), wall_colors[i], 3) +
           svg::text(690, legend + 4, name);
    ++i, legend += 24;
  }
  return svg + svg::text(660, legend + 20, "flat on the left: what a step", "start", svg::ink, 11) +
         svg::text(660, legend + 36, "takes inside a worker, 1.5 ms", "start", svg::ink, 11) +
         "</svg>\n";
}

}  // namespace yotta
