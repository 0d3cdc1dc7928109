#include "course/pictures/capacity_loss_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "course/pictures/svg.hpp"
#include "yotta/core/error.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta {

using svg::box;
using svg::ink;
using svg::text;

namespace {

double number_in(const std::string& cell, const std::string& line) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size())
    fail(Where::current(), "expert_capacity.csv: '{}' in '{}' is not a number", cell, line);
  return value;
}

// The factors in the order of the axis; none comes last.
std::vector<double> factors_of(const std::vector<CapacityRun>& runs) {
  std::vector<double> all;
  for (const CapacityRun& run : runs)
    if (std::find(all.begin(), all.end(), run.factor) == all.end()) all.push_back(run.factor);
  std::sort(all.begin(), all.end(),
            [](double a, double b) { return (a == 0 ? 1e9 : a) < (b == 0 ? 1e9 : b); });
  return all;
}

}  // namespace

std::vector<CapacityRun> stored_capacity_runs() {
  std::istringstream file(read_file(YOTTA_SOURCE_DIR "/bench/results/expert_capacity.csv"));
  std::vector<CapacityRun> runs;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#") || line.starts_with("capacity")) continue;
    std::istringstream cells(line);
    std::string factor, seed, loss;
    std::getline(cells, factor, ','), std::getline(cells, seed, ','), std::getline(cells, loss);
    runs.push_back(
        {number_in(factor, line), static_cast<int>(number_in(seed, line)), number_in(loss, line)});
  }
  return runs;
}

double mean_loss(const std::vector<CapacityRun>& runs, double factor) {
  double sum = 0;
  int count = 0;
  for (const CapacityRun& run : runs)
    if (run.factor == factor) sum += run.loss, ++count;
  if (count == 0) fail(Where::current(), "there is no run with capacity {:g}", factor);
  return sum / count;
}

std::string capacity_loss_svg(const std::vector<CapacityRun>& runs) {
  const char* const title = "Capacity, and the loss after 200 steps";
  constexpr double left = 110, top = 90, wide = 110, high = 220;  // pixels: a factor; the axis
  const auto [least, most] = std::minmax_element(
      runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.loss < b.loss; });
  const double low = least->loss - 0.02, span = most->loss + 0.02 - low;
  const auto y_of = [&](double loss) { return top + high * (1 - (loss - low) / span); };
  std::string svg = svg::paper(900, 400, title);
  svg += text(20, 28, title, "start", ink, 15, true);
  svg += text(20, 48, "8 experts, k = 2, width 32; a point for each seed, the line is their mean.");
  svg += text(20, 72, "loss on unseen text, nats a token");
  for (int tick = 0; tick <= 4; ++tick) {
    const double loss = low + span * tick / 4, y = y_of(loss);
    svg += fmt::format("<path d=\"M{:.0f} {:.1f}H850\" stroke=\"#ddd\"/>\n", left - 30, y) +
           text(left - 38, y + 4, fmt::format("{:.2f}", loss), "end");
  }
  const std::vector<double> factors = factors_of(runs);
  std::string path;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double x = left + wide * static_cast<double>(i);
    path +=
        fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x, y_of(mean_loss(runs, factors[i])));
    svg += text(x, top + high + 22, factors[i] == 0 ? "none" : fmt::format("{:g}", factors[i]),
                "middle");
    const double mean = mean_loss(runs, factors[i]);
    svg += text(x + 8, y_of(mean) - 8, fmt::format("{:.3f}", mean), "start", svg::quiet, 11);
    for (const CapacityRun& run : runs)
      if (run.factor == factors[i])
        svg += box(x - 4, y_of(run.loss) - 4, 8, 8, svg::rank_colors[0]);
  }
  svg += text(left + wide * 3, top + high + 46, "capacity factor (categories, not to scale)",
              "middle");
  return svg +
         fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n</svg>\n",
                     path, svg::rank_colors[1]);
}

}  // namespace yotta
