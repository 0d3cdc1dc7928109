// x = x * 2 on fp32, k times in one kernel: how long it takes, over k. Up to a bend the arithmetic
// is hidden behind memory; from there on the time grows with k.
//
// lessons/05_fusion/README.md shows it. The file course/pictures/multiplies.svg is what
// `./yotta lesson 05 -- --draw 1` writes; with --milliseconds 300 its points are measured anew.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "course/pictures/svg.hpp"

namespace yotta {

struct MultiplyPoint {
  int times = 1;            // k
  double slower = 1;        // measured: the time over that of k = 1
  double bytes = 8, flops;  // a number, as the emulator counts them
};
// By formula: memory's time, or that of the multiplications where they take longer.
inline double multiplies_formula(double times, double balance) {
  return std::max(1.0, times / balance);
}
// How many multiplications the points' computer does while a number is read and written: where the
// two lines of the formula meet, if the last point is on the second.
inline double multiplies_balance(const std::vector<MultiplyPoint>& points) {
  return points.back().times / points.back().slower;
}

namespace multiplies_picture {
inline constexpr double left = 70, top = 76, wide = 520, high = 260;
inline constexpr const char *here = "#c2552d", *a100 = "#2f6fa7";
// Both axes are logarithmic: k from 1 to 256, the time from a half to 16.
inline double x_of(double times) { return left + wide * std::log2(times) / 8; }
inline double y_of(double slower) { return top + high * (1 - (std::log2(slower) + 1) / 5); }

inline std::string formula(double balance, const char* color) {
  const double last = std::min(256.0, 16 * balance);
  return fmt::format(
      "<path d=\"M{:.1f} {:.1f}H{:.1f}L{:.1f} {:.1f}\" fill=\"none\" stroke=\"{}\" "
      "stroke-width=\"2\"/>\n",
      x_of(1), y_of(1), x_of(balance), x_of(last), y_of(multiplies_formula(last, balance)), color);
}

inline std::string axes() {
  std::string all = svg::text(left, top - 10, "time, over that of one multiplication");
  for (const int slower : {1, 2, 4, 8, 16})
    all += fmt::format("<path d=\"M{0:.0f} {1:.1f}H{2:.0f}\" stroke=\"#ddd\"/>\n", left,
                       y_of(slower), left + wide) +
           svg::text(left - 8, y_of(slower) + 4, fmt::format("{}x", slower), "end");
  return all;
}

// Under each point its k, and what the emulator counts of that kernel.
inline std::string counters(const std::vector<MultiplyPoint>& points) {
  const double y = top + high + 22;
  std::string all = svg::text(left + wide + 22, y, "multiplications", "start", svg::ink, 12, true) +
                    svg::text(left + wide + 22, y + 22, "bytes of a number, counted") +
                    svg::text(left + wide + 22, y + 42, "FLOPs of a number, counted");
  for (const MultiplyPoint& each : points)
    all += svg::text(x_of(each.times), y, fmt::format("{}", each.times), "middle", svg::ink, 12,
                     true) +
           svg::text(x_of(each.times), y + 22, fmt::format("{:.0f}", each.bytes), "middle") +
           svg::text(x_of(each.times), y + 42, fmt::format("{:.0f}", each.flops), "middle");
  return all;
}

inline std::string measured(const std::vector<MultiplyPoint>& points) {
  std::string all;
  for (const MultiplyPoint& each : points)
    all += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\" fill=\"{}\"/>\n",
                       x_of(each.times), y_of(std::clamp(each.slower, 0.5, 16.0)), here);
  return all;
}
}  // namespace multiplies_picture

inline std::string multiplies_svg(const std::vector<MultiplyPoint>& points) {
  using namespace svg;
  using namespace multiplies_picture;
  const char* const title = "How many times may a kernel multiply before it takes twice as long?";
  const double x = left + wide + 22, balance = multiplies_balance(points);
  return paper(860, 420, title) + text(20, 30, title, "start", ink, 15, true) + axes() +
         formula(40, a100) + formula(balance, here) + measured(points) + counters(points) +
         text(x, top + 40, "A100, by formula:", "start", a100, 12, true) +
         text(x, top + 58, "40 are free, 80 take twice as long", "start", a100) +
         text(x, top + 98, "two cores of an EPYC, measured,", "start", here, 12, true) +
         text(x, top + 116, "and by formula:", "start", here, 12, true) +
         text(x, top + 134, fmt::format("{:.0f} are free, {:.0f} take twice", balance, 2 * balance),
              "start", here) +
         "</svg>\n";
}

}  // namespace yotta
