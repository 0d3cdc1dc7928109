#include "course/pictures/scaling_picture.hpp"

#include <algorithm>
#include <cmath>

#include "course/pictures/scaling_results.hpp"
#include "course/pictures/svg.hpp"
#include "yotta/parallel/gradient_noise.hpp"

namespace yotta {

namespace {

// Colour-blind readers can tell them apart (Paul Tol, "Colour schemes", 2021).
constexpr const char* colors[] = {"#4477aa", "#ee6677", "#228833", "#aa7700", "#66ccee"};

struct Axis {
  double least, most;
  bool logarithmic = true;
  double part(double value) const {
    return logarithmic ? std::log(value / least) / std::log(most / least)
                       : (value - least) / (most - least);
  }
};

// A frame with two axes; what is drawn in it stands at values, not at points.
struct Plot {
  double left, top, width, height;
  Axis x, y;
  std::string svg = {};

  double at_x(double value) const { return left + width * x.part(value); }
  double at_y(double value) const { return top + height * (1 - y.part(value)); }

  void tick_x(double value, const std::string& words) {
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"#ddd\"/>\n", at_x(value), top,
                       top + height) +
           svg::text(at_x(value), top + height + 18, words, "middle");
  }
  void tick_y(double value, const std::string& words) {
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#ddd\"/>\n", left, at_y(value),
                       left + width) +
           svg::text(left - 8, at_y(value) + 4, words, "end");
  }
  void names(const std::string& across, const std::string& up) {
    svg += svg::text(left + width / 2, top + height + 38, across, "middle") +
           svg::text(left - 40, top - 12, up);
  }
  void point(double a, double b, const char* color, double radius = 4) {
    svg +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" stroke=\"#fff\"/>\n",
                    at_x(a), at_y(b), radius, color);
  }
  // A curve of y over x, between two x.
  template <class Function>
  void curve(double from, double to, const char* color, Function value, const char* dashes = "") {
    constexpr int pieces = 48;
    std::string path;
    for (int i = 0; i <= pieces; ++i) {
      const double a = from * std::pow(to / from, static_cast<double>(i) / pieces);
      path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", at_x(a), at_y(value(a)));
    }
    svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", path,
                       color, *dashes == 0 ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes));
  }
};

std::string key(double x, double y, const char* color, const std::string& words) {
  return fmt::format("<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"5\" fill=\"{}\"/>\n", x, y - 4,
                     color) +
         svg::text(x + 12, y, words);
}

std::string begin(const std::string& title) {
  return svg::paper(900, 420, title) + svg::text(20, 28, title, "start", svg::ink, 15, true);
}

std::string flops_words(double value) { return fmt::format("{:.1e}", value); }

// A budget's runs, and the parabola through them.
struct Curve {
  std::vector<ScalingRun> runs;
  Parabola parabola;
};
std::vector<Curve> curves() {
  std::vector<Curve> all;
  for (const auto& budget : by_budget(scaling_results().scaling_runs("isoflop")))
    all.push_back({budget, isoflop_parabola(budget)});
  return all;
}

}  // namespace

std::string scaling_isoflop_svg() {
  Plot plot{90, 70, 600, 280, {2000, 400'000}, {1.5, 3.0, false}};
  for (const double tick : {2e3, 1e4, 1e5, 4e5}) plot.tick_x(tick, fmt::format("{:.0f}", tick));
  for (const double tick : {1.5, 2.0, 2.5, 3.0}) plot.tick_y(tick, fmt::format("{:.1f}", tick));
  plot.names("N: weights that a token meets", "loss, nats a byte, on text that was not trained on");
  std::string keys = svg::text(715, 84, "FLOPs of a run", "start", svg::ink, 12, true);
  int i = 0;
  for (const Curve& each : curves()) {
    const char* color = colors[i % 5];
    plot.curve(each.runs.front().parameters, each.runs.back().parameters, color,
               [&](double N) { return each.parabola(std::log(N)); });
    for (const ScalingRun& run : each.runs) plot.point(run.parameters, run.loss, color);
    keys += key(720, 108 + 24 * i++, color, flops_words(each.runs.front().flops));
  }
  keys += svg::text(715, 220, "points: trained models") +
          svg::text(715, 240, "lines: parabolas in log N");
  return begin("One curve for each budget: small models see many tokens, large ones few") +
         plot.svg + keys + "</svg>\n";
}

std::string scaling_optimum_svg() {
  const ScalingResults& results = scaling_results();
  const std::vector<ScalingRun> runs = results.scaling_runs("isoflop");
  const std::vector<Optimum> best = isoflop_minima(runs);
  const LossLaw law = fit_loss_law(runs);
  const MeasuredRun held = results.part("held_out").at(0);
  const double each = flops_each(runs);
  Plot plot{90, 70, 330, 280, {5e9, 5e12}, {3e3, 4e5}};
  Plot loss{540, 70, 330, 280, {5e9, 5e12}, {1.2, 3.0, false}};
  for (const double tick : {1e10, 1e11, 1e12}) {
    plot.tick_x(tick, flops_words(tick));
    loss.tick_x(tick, flops_words(tick));
  }
  for (const double tick : {1e4, 1e5}) plot.tick_y(tick, fmt::format("{:.0f}", tick));
  for (const double tick : {1.5, 2.0, 2.5, 3.0}) loss.tick_y(tick, fmt::format("{:.1f}", tick));
  plot.names("FLOPs of a run", "best N");
  loss.names("FLOPs of a run", "loss at the best N");
  plot.curve(5e9, 5e12, colors[0], parameters_line(best));
  plot.curve(
      5e9, 5e12, colors[2], [&](double C) { return optimum(law, C, each).parameters; }, "6 4");
  loss.curve(
      5e9, 5e12, colors[2], [&](double C) { return optimum(law, C, each).loss; }, "6 4");
  for (const Optimum& one : best) {
    plot.point(one.flops, one.parameters, colors[0], 5);
    loss.point(one.flops, one.loss, colors[0], 5);
  }
  plot.point(held.flops, held.weights, svg::lit, 6);
  loss.point(held.flops, held.loss, svg::lit, 6);
  return begin("The best size of each budget, and a run that no fit has seen") + plot.svg +
         loss.svg + key(100, 412, colors[0], "parabolas, and the line through them") +
         key(400, 412, colors[2], "law fitted to all runs (dashed)") +
         key(660, 412, svg::lit, "held-out run") + "</svg>\n";
}

std::string scaling_batch_svg() {
  const ScalingResults& results = scaling_results();
  const BatchSteps measured = batch_steps(results);
  const BatchTradeoff fit = fit_batch_tradeoff(measured.batch, measured.steps);
  const double most = 2 * *std::max_element(measured.steps.begin(), measured.steps.end());
  Plot plot{90, 70, 560, 280, {0.8, 80}, {fit.least_steps / 1.5, most}};
  for (const double tick : {1.0, 4.0, 16.0, 64.0}) plot.tick_x(tick, fmt::format("{:.0f}", tick));
  for (double tick = 50; tick < most; tick *= 2)
    if (tick > fit.least_steps / 1.5) plot.tick_y(tick, fmt::format("{:.0f}", tick));
  plot.names("sequences in a batch", "steps to the loss");
  plot.curve(0.8, 80, colors[0], [&](double B) { return fit.steps(B); });
  plot.curve(
      0.8, 80, svg::quiet, [&](double) { return fit.least_steps; }, "6 4");
  plot.curve(
      0.8, fit.critical * 1.4, svg::quiet,
      [&](double B) { return std::min(most, fit.least_steps * fit.critical / B); }, "2 4");
  plot.svg +=
      fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"{3}\" stroke-width=\"2\"/>\n",
                  plot.at_x(fit.critical), plot.top, plot.top + plot.height, svg::lit);
  for (size_t i = 0; i < measured.batch.size(); ++i)
    plot.point(measured.batch[i], measured.steps[i], colors[0], 5);
  return begin(fmt::format("Steps to a loss of {:.1f}, by batch",
                           results.part("batch").at(0).target)) +
         plot.svg + key(680, 100, colors[0], "measured, and the curve") +
         key(680, 126, svg::lit, fmt::format("critical batch: {:.0f}", fit.critical)) +
         svg::text(675, 160, "dashed: the least steps") +
         svg::text(675, 180, "dotted: the least data,") +
         svg::text(675, 198, "half the steps at twice the batch") + "</svg>\n";
}

std::string scaling_width_svg() {
  const ScalingResults& results = scaling_results();
  const std::vector<MeasuredRun> runs = results.part("width");
  double low = 1e9, high = 0;
  for (const MeasuredRun& run : runs)
    low = std::min(low, run.loss), high = std::max(high, run.loss);
  std::string svg = begin("Loss by learning rate, for four widths");
  for (const bool mup : {false, true}) {
    Plot plot{mup ? 520.0 : 80.0, 80, 340, 250, {0.001, 0.15}, {low - 0.05, high + 0.05, false}};
    for (const double tick : {0.0015, 0.006, 0.024, 0.096})
      plot.tick_x(tick, fmt::format("{}", tick));
    for (double tick = std::ceil(5 * low) / 5; tick < high; tick += 0.4)
      plot.tick_y(tick, fmt::format("{:.1f}", tick));
    plot.names(mup ? "learning rate at width 32" : "learning rate",
               mup ? "muP: loss" : "one rate for all widths: loss");
    int i = 0;
    for (const int width : {16, 32, 64, 128}) {
      const char* color = colors[i++];
      std::string path;
      for (const MeasuredRun& run : runs)
        if (run.width == width && run.mup == mup && std::isfinite(run.loss)) {
          path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", plot.at_x(run.rate),
                              plot.at_y(run.loss));
          plot.point(run.rate, run.loss, color, 3);
        }
      plot.svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
                              path, color);
      const MeasuredRun best = best_rate(results, width, mup);
      plot.point(best.rate, best.loss, color, 7);
      if (mup) plot.svg += key(150 + 130 * i, 404, color, fmt::format("width {}", width));
    }
    svg += plot.svg;
  }
  return svg + svg::text(100, 404, "large: the best rate of") + "</svg>\n";
}

}  // namespace yotta
