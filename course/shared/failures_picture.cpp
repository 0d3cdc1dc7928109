#include "course/shared/failures_picture.hpp"

#include <cmath>

#include "course/shared/svg.hpp"
#include "yotta/model/failure_arithmetic.hpp"
#include "yotta/model/regroup.hpp"
#include "yotta/model/watched_run.hpp"

namespace yotta {

namespace {

constexpr double left = 80, right = 660, top = 60, bottom = 340, shortest = 10, longest = 10000;

double x_of(double interval) {
  return left + (right - left) * std::log(interval / shortest) / std::log(longest / shortest);
}
double y_of(double goodput) { return bottom - (bottom - top) * goodput; }

std::string axes() {
  std::string svg = svg::text(20, top - 12, "goodput");
  for (int tick = 0; tick <= 10; tick += 2)
    svg += fmt::format("<path d=\"M{} {:.1f}H{}\" stroke=\"#ddd\"/>\n", left, y_of(0.1 * tick),
                       right) +
           svg::text(left - 8, y_of(0.1 * tick) + 4, fmt::format("{}%", 10 * tick), "end");
  for (const int tick : {10, 30, 100, 300, 1000, 3000, 10000})
    svg += fmt::format("<path d=\"M{:.1f} {}v5\" stroke=\"#333\"/>\n", x_of(tick), bottom) +
           svg::text(x_of(tick), bottom + 20, fmt::format("{} s", tick), "middle");
  return svg + svg::text((left + right) / 2, bottom + 40, "work between two snapshots", "middle");
}

std::string curve(double nodes, const char* color) {
  const double mean = seconds_between_failures(nodes);
  const auto at = [&](double interval) {
    return expected_goodput({interval, picture_save, picture_down}, mean);
  };
  std::string path, dots;
  for (int i = 0; i <= 100; ++i) {
    const double interval = shortest * std::pow(longest / shortest, i / 100.0);
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x_of(interval), y_of(at(interval)));
    if (i % 10 != 5) continue;
    const SpentTime spent =
        simulate_run({interval, picture_save, picture_down},
                     std::vector<FailureSource>{{"node", mean}}, 2000 * mean, 1);
    dots +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"#fff\" stroke=\"{}\"/>\n",
                    x_of(interval), y_of(spent.goodput()), color);
  }
  const Intervals best = best_intervals(picture_save, mean);
  const auto mark = [&](double interval, const char* word, double dx, const char* anchor) {
    const double x = x_of(interval), y = y_of(at(interval));
    return fmt::format("<path d=\"M{:.1f} {:.1f}v-14\" stroke=\"#333\" stroke-width=\"2\"/>\n", x,
                       y) +
           svg::text(x + dx, y - 18, word, anchor);
  };
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path,
                     color) +
         dots + mark(best.young, "Young", 2, "start") + mark(best.daly, "Daly", -2, "end");
}

}  // namespace

std::string intervals_svg() {
  const std::string title = "Goodput for every interval: a snapshot takes 10 s, a restart 60 s";
  std::string svg =
      svg::paper(900, 400, title) + svg::text(20, 28, title, "start", svg::ink, 15, true) + axes();
  const std::pair<double, const char*> machines[] = {
      {1000, "#4477aa"}, {10000, "#228833"}, {100000, "#aa3377"}};
  double y = 110;
  for (const auto& [nodes, color] : machines) {
    svg += curve(nodes, color);
    svg += fmt::format("<path d=\"M690 {:.0f}h24\" stroke=\"{}\" stroke-width=\"3\"/>\n", y - 4,
                       color);
    svg += svg::text(722, y, fmt::format("{:.0f} nodes:", nodes));
    svg += svg::text(722, y + 17,
                     fmt::format("a failure every {:.3g} {}",
                                 seconds_between_failures(nodes) / (nodes > 50000 ? 1 : 60),
                                 nodes > 50000 ? "s" : "min"));
    y += 52;
  }
  svg += fmt::format("<circle cx=\"702\" cy=\"{:.0f}\" r=\"4\" fill=\"#fff\" stroke=\"#333\"/>\n",
                     y - 4);
  return svg + svg::text(722, y, "simulated") + "</svg>\n";
}

std::string flips_svg() {
  const std::string title = "One flipped bit in training: which detector finds it, and when";
  constexpr double row = 22, from = 96, column = 170, first = 350;
  std::string svg =
      svg::paper(900, 470, title) + svg::text(20, 28, title, "start", svg::ink, 15, true) +
      svg::text(20, 60, "where, in the order of a step", "start", svg::ink, 12, true) +
      svg::text(240, 60, "bit", "start", svg::ink, 12, true);
  const char* heads[] = {"checksum over replicas", "gradient norm", "replay on another rank"};
  for (int d = 0; d < detectors; ++d)
    svg += svg::text(first + column * d + column / 2, 60, heads[d], "middle", svg::ink, 12, true);
  double y = from - 18;
  for (int place = 0; place < flip_places; ++place) {
    for (const int bit : flip_bits) {
      const Flip flip{static_cast<FlipPlace>(place), bit, 1, 4};
      const WatchedRun run = train_watched({}, flip);
      svg += svg::text(20, y + 15, name(flip.place)) + svg::text(240, y + 15, name_of_bit(bit));
      for (int d = 0; d < detectors; ++d) {
        const std::string words = in_words(run, static_cast<Detector>(d), flip);
        const char* fill = words == "missed"        ? "#eeeeee"
                           : words == "in the step" ? "#44bb99"
                                                    : "#eedd88";
        svg += svg::box(first + column * d, y, column - 4, row - 3, fill, "#bbb") +
               svg::text(first + column * d + column / 2 - 2, y + 14, words, "middle");
      }
      y += row;
    }
    y += 3;
  }
  return svg +
         svg::text(20, y + 20,
                   "3 replicas; a bit of the largest number of a tensor of rank 1, once.") +
         "</svg>\n";
}

}  // namespace yotta
