#include "course/shared/diloco_picture.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "course/shared/svg.hpp"
#include "yotta/plan/latency_wall.hpp"

namespace yotta {

namespace {

// Paul Tol's bright colours; colour-blind readers can tell them apart.
constexpr const char* colors[] = {"#222222", "#4477aa", "#ee6677", "#228833", "#aa7700", "#aa3377"};

// A box with axes, into which curves are drawn. Either axis may be logarithmic.
struct Panel {
  double left, top, width, height;
  double x0, x1, y0, y1;
  bool log_x = false, log_y = false;

  static double share(double value, double from, double to, bool is_log) {
    if (is_log) return std::log(value / from) / std::log(to / from);
    return (value - from) / (to - from);
  }
  double x(double value) const { return left + width * share(value, x0, x1, log_x); }
  double y(double value) const { return top + height * (1 - share(value, y0, y1, log_y)); }

  std::string frame() const { return svg::box(left, top, width, height, "#fff", "#999"); }
  std::string tick_x(double value, const std::string& words) const {
    return fmt::format("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#333\"/>\n", x(value), top + height) +
           svg::text(x(value), top + height + 19, words, "middle");
  }
  std::string tick_y(double value, const std::string& words) const {
    return fmt::format("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#ddd\"/>\n", left, y(value),
                       width) +
           svg::text(left - 6, y(value) + 4, words, "end");
  }
  std::string curve(const std::vector<double>& xs, const std::vector<double>& ys,
                    const char* color) const {
    std::string path;
    for (size_t i = 0; i < xs.size(); ++i) {
      if (!(xs[i] >= x0) || !(xs[i] <= x1) || !(ys[i] >= y0) || !(ys[i] <= y1)) continue;
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(xs[i]), y(ys[i]));
    }
    return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path,
                       color);
  }
};

std::string legend(const std::vector<std::string>& names, double y) {
  std::string svg;
  double x = 40;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == 4) x = 40, y += 20;
    svg += fmt::format("<path d=\"M{:.0f} {:.0f}h22\" stroke=\"{}\" stroke-width=\"3\"/>\n", x,
                       y - 4, colors[i]) +
           svg::text(x + 28, y, names[i]);
    x += 60 + 6.8 * static_cast<double>(names[i].size());
  }
  return svg;
}

}  // namespace

std::string diloco_svg(const std::string& curves) {
  const nlohmann::json all = nlohmann::json::parse(curves);
  const double tokens = all["tokens_a_step"].get<double>() * 10;  // of a point
  const double last = all["tokens_a_step"].get<double>() * all["steps"].get<double>();
  std::string svg = svg::paper(900, 400, "Loss against tokens, bytes sent and seconds");
  svg += svg::text(20, 28, "Loss of a small transformer on four cities, 1 Gbit/s and 50 ms apart",
                   "start", svg::ink, 15, true);
  const Panel panels[] = {{56, 50, 250, 250, 0, last, 2.5, 5.0},
                          {346, 50, 250, 250, 1e4, 1e9, 2.5, 5.0, true},
                          {636, 50, 250, 250, 0.1, 1000, 2.5, 5.0, true}};
  for (const Panel& panel : panels) {
    svg += panel.frame();
    for (const double loss : {2.5, 3.0, 3.5, 4.0, 4.5, 5.0})
      svg += panel.tick_y(loss, fmt::format("{:.1f}", loss));
  }
  for (double seen = 0; seen <= last; seen += 1e5)
    svg += panels[0].tick_x(seen, fmt::format("{:.0f}k", seen / 1e3));
  for (const auto& [bytes, words] : {std::pair{1e5, "100 kB"}, {1e7, "10 MB"}, {1e9, "1 GB"}})
    svg += panels[1].tick_x(bytes, words);
  for (const auto& [seconds, words] :
       {std::pair{0.1, "0.1"}, {1.0, "1"}, {10.0, "10"}, {100.0, "100"}})
    svg += panels[2].tick_x(seconds, words);
  const char* axes[] = {"tokens of all workers", "bytes sent by a worker", "seconds on the cities"};
  for (int i = 0; i < 3; ++i)
    svg += svg::text(panels[i].left + 125, 340, axes[i], "middle", svg::ink, 12, true);
  std::vector<std::string> names;
  for (const auto& row : all["rows"]) {
    const auto loss = row["loss"].get<std::vector<double>>();
    std::vector<double> seen;
    for (size_t i = 0; i < loss.size(); ++i) seen.push_back(tokens * static_cast<double>(i + 1));
    const char* const color = colors[names.size()];
    svg += panels[0].curve(seen, loss, color);
    svg += panels[1].curve(row["bytes"].get<std::vector<double>>(), loss, color);
    svg += panels[2].curve(row["seconds"].get<std::vector<double>>(), loss, color);
    names.push_back(row["name"].get<std::string>());
  }
  return svg + legend(names, 366) + "</svg>\n";
}

std::string diloco_grid_text(const std::string& grid) {
  const nlohmann::json rows = nlohmann::json::parse(grid)["rows"];
  const auto cell = [](const nlohmann::json& row) {
    const auto stopped = row["stopped"].get<int64_t>();
    if (row["losses"].empty()) return fmt::format("{} stopped", stopped);
    return fmt::format("{:.3f} +- {:.3f}", row["mean"].get<double>(),
                       row["deviation"].get<double>()) +
           (stopped > 0 ? fmt::format(", {} stopped", stopped) : "");
  };
  std::string text = fmt::format("one rank    {}\n", cell(rows[0])), head = "    ", lines;
  int64_t k = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto workers = rows[i]["k"].get<int64_t>(), inner = rows[i]["inner"].get<int64_t>();
    if (k == 0 || workers == rows[1]["k"].get<int64_t>())
      head += fmt::format("{:>20}", fmt::format("H = {}", inner));
    if (workers != std::exchange(k, workers)) lines += fmt::format("\nk = {}", workers);
    lines += fmt::format("{:>20}", cell(rows[i]));
  }
  return text + head + lines + "\n";
}

std::string latency_wall_svg() {
  const double seconds = 90 * 86400.0;
  const auto flops = [&](double latency, double growth) {
    return run_flops(largest_tokens(seconds, {latency}, {.growth = growth}));
  };
  const Panel panel{90, 50, 780, 280, 1e-3, 1, 1e26, 1e38, true, true};
  std::string svg = svg::paper(900, 420, "The latency wall");
  svg += svg::text(20, 28, "FLOPs of the largest run of 90 days, by what a step waits for", "start",
                   svg::ink, 15, true);
  svg += panel.frame();
  for (int power = 26; power <= 38; power += 2)
    svg += panel.tick_y(std::pow(10, power), fmt::format("1e{}", power));
  for (const auto& [latency, words] :
       {std::pair{1e-3, "1 ms"}, {1e-2, "10 ms"}, {0.1, "100 ms"}, {1.0, "1 s"}})
    svg += panel.tick_x(latency, words);
  std::vector<std::string> names;
  for (const double growth : {0.0, 0.25, 0.5}) {
    std::vector<double> xs, ys;
    for (int i = 0; i <= 60; ++i) {
      xs.push_back(std::min(1.0, 1e-3 * std::pow(10, i / 20.0)));
      ys.push_back(flops(xs.back(), growth));
    }
    svg += panel.curve(xs, ys, colors[names.size()]);
    names.push_back(growth == 0 ? "batch of 16M tokens"
                                : fmt::format("batch grows as D^{}", growth));
  }
  struct Point {
    const char* name;
    StepLatency latency;
  };
  const double between = ring_latency(4, 0.05);
  for (const Point& point : {Point{"one hall", {0.01}}, Point{"4 cities, DDP", {0.01, between, 1}},
                             Point{"H = 50", {0.01, between, 50}}}) {
    const double x = panel.x(point.latency.seconds());
    const double y = panel.y(flops(point.latency.seconds(), 0));
    svg +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"/>\n", x, y, svg::lit) +
        svg::text(x, y + 22, point.name, "middle", svg::lit);
  }
  svg += svg::text(480, 370, "seconds of latency in a step", "middle", svg::ink, 12, true);
  return svg + legend(names, 402) + "</svg>\n";
}

}  // namespace yotta
