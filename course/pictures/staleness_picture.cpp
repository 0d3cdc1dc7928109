#include "course/pictures/staleness_picture.hpp"

#include <algorithm>
#include <cmath>

#include "course/pictures/svg.hpp"

namespace yotta {

namespace {

using svg::box;
using svg::ink;
using svg::text;

constexpr int ranks = 4;
constexpr double shown = 3, left = 78, second = 136, server_y = 92, row = 56, height = 38;
constexpr double chart_left = 560, chart_top = 96, chart_height = 236, per_step = 3.1,
                 chart_steps = 100;
constexpr double rate = 0.1;

double time_x(double seconds) { return left + second * seconds; }
double rank_y(int rank) { return server_y + row * (rank + 1); }

std::string path(const std::string& points, const char* color, double width,
                 const char* more = "") {
  return fmt::format("<path d=\"M{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n",
                     points, color, width, more);
}

// The numbers of the weights that the server has, from one arrival to the next.
std::string server(const std::vector<StaleGradient>& all) {
  std::string svg = text(14, server_y + 23, "server", "start", ink, 12, true);
  double begin = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const double end = all[i].end;
    svg += box(time_x(begin), server_y, second * (end - begin), height,
               i % 2 == 0 ? "#e4e4e4" : "#f6f6f6") +
           text(time_x((begin + end) / 2), server_y + 23, std::to_string(i), "middle");
    begin = end;
  }
  return svg;
}

// From a gradient's end to the server.
std::string arrival(const StaleGradient& each) {
  return path(fmt::format("{:.1f} {:.1f}V{:.1f}", time_x(each.end), rank_y(each.rank) + height / 2,
                          server_y + height + 2),
              svg::lit, 1.2, " marker-end=\"url(#lit)\"");
}

std::string gradient_svg(const StaleGradient& each) {
  const double x = time_x(each.begin), y = rank_y(each.rank),
               width = second * (each.end - each.begin);
  return box(x + 1, y, width - 3, height, svg::rank_colors[each.rank]) +
         text(x + width / 2, y + 16, fmt::format("with weights {}", each.computed_with), "middle") +
         text(x + width / 2, y + 31,
              fmt::format("meets {}: {} step{} old", each.applied_to, each.steps_old(),
                          each.steps_old() == 1 ? "" : "s"),
              "middle", ink, 11);
}

std::string time_axis() {
  const double y = rank_y(ranks) + 2;
  std::string svg =
      path(fmt::format("{:.0f} {:.0f}H{:.0f}", time_x(0), y, time_x(shown)), "#555", 1);
  for (int tick = 0; tick <= shown; ++tick)
    svg += path(fmt::format("{:.0f} {:.0f}v5", time_x(tick), y), "#555", 1) +
           text(time_x(tick), y + 18, fmt::format("{} s", tick), "middle", ink, 11);
  return svg;
}

double weight_y(double w) { return chart_top + chart_height * (1.5 - w) / 3; }

std::string curve(int staleness, const char* color) {
  std::string points;
  const std::vector<double> weights = stale_descent(rate, staleness, static_cast<int>(chart_steps));
  for (size_t i = 0; i < weights.size() && std::abs(weights[i]) <= 1.5; ++i)
    points += fmt::format("{}{:.1f} {:.1f}", points.empty() ? "" : "L",
                          chart_left + per_step * static_cast<double>(i), weight_y(weights[i]));
  return path(points, color, 2);
}

std::string chart() {
  const double width = per_step * chart_steps, bottom = chart_top + chart_height;
  std::string svg =
      text(chart_left, 76, fmt::format("One weight, loss w²/2, learning rate {}", rate), "start",
           ink, 13, true) +
      box(chart_left, chart_top, width, chart_height, "none", "#999") +
      path(fmt::format("{:.0f} {:.0f}h{:.0f}", chart_left, weight_y(0), width), "#bbb", 1);
  for (const int w : {-1, 0, 1})
    svg += text(chart_left - 8, weight_y(w) + 4, std::to_string(w), "end", ink, 11);
  svg += text(chart_left - 24, chart_top + 8, "w", "end", ink, 12, true);
  for (const int step : {0, 50, 100})
    svg += text(chart_left + per_step * step, bottom + 16, std::to_string(step), "middle", ink, 11);
  svg += text(chart_left + width / 2, bottom + 32, "steps", "middle", ink, 11);
  const char* const colors[] = {"#1f8a63", "#2f6fa7", "#8a7400", "#b2182b"};
  double x = chart_left;
  for (size_t i = 0; const int staleness : {0, 7, 15, 31}) {
    svg += curve(staleness, colors[i]) +
           path(fmt::format("{:.0f} {:.0f}h18", x, bottom + 48), colors[i], 2) +
           text(x + 23, bottom + 52, fmt::format("{} old", staleness), "start", ink, 11);
    ++i, x += 78;
  }
  return svg;
}

}  // namespace

std::vector<StaleGradient> stale_gradients(int p, double seconds) {
  std::vector<StaleGradient> computing, arrived;
  for (int rank = 0; rank < p; ++rank)
    computing.push_back(
        {rank, rank / static_cast<double>(p), 1 + rank / static_cast<double>(p), 0, 0});
  for (int weights = 0;; ++weights) {
    StaleGradient& next =
        *std::min_element(computing.begin(), computing.end(),
                          [](const auto& a, const auto& b) { return a.end < b.end; });
    if (next.end > seconds) return arrived;
    next.applied_to = weights;
    arrived.push_back(next);
    next = {next.rank, next.end, next.end + 1, weights + 1, 0};
  }
}

std::vector<double> stale_descent(double step_size, int staleness, int steps) {
  std::vector<double> w = {1};
  for (int step = 0; step < steps; ++step)
    w.push_back(w.back() - step_size * w[static_cast<size_t>(std::max(0, step - staleness))]);
  return w;
}

std::string staleness_svg() {
  const char* const title = "Asynchronous SGD on 4 ranks: old gradients, and what they do";
  const std::vector<StaleGradient> all = stale_gradients(ranks, shown);
  std::string svg = svg::paper(900, 440, title);
  svg += text(20, 28, title, "start", ink, 15, true) +
         text(20, 48,
              "While a rank computes, the server's weights change p - 1 = 3 times. An old gradient "
              "pushes down when the weight has passed 0.") +
         text(left, 76, "Which weights the server has, and what ranks compute", "start", ink, 13,
              true) +
         server(all);
  for (int rank = 0; rank < ranks; ++rank)
    svg += text(14, rank_y(rank) + 23, fmt::format("rank {}", rank), "start", ink, 12, true);
  for (const StaleGradient& each : all) svg += arrival(each);
  for (const StaleGradient& each : all) svg += gradient_svg(each);  // words lie above the arrows
  return svg + time_axis() +
         text(20, 424,
              "A bar: a gradient is computed. A red arrow: it reaches the server, whose weights "
              "change.") +
         chart() + "</svg>\n";
}

}  // namespace yotta
