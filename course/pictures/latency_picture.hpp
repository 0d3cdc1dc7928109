// How much latency and throughput grew better in four technologies within some twenty years, and in
// GPUs' memory since: throughput by a hundred to a thousand times, latency by five to twenty.
//
// lessons/00_start/why_systems.md shows it. The file course/pictures/latency_lags.svg is what
// `./yotta lesson 00 -- --draw 1` writes.
// Sources: Patterson, "Latency lags bandwith" (CACM, October 2004), table 1; for GPUs Wong et al.,
// "Demystifying GPU microarchitecture through microbenchmarking" (ISPASS 2010; GTX 280, 440 cycles
// at 1.296 GHz, 142 GB/s) and Luo et al., "Benchmarking and dissecting the Nvidia Hopper GPU
// architecture" (2024; H100 PCIe, 478.8 cycles at 1.755 GHz, 2.04 TB/s).
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "course/pictures/svg.hpp"

namespace yotta {

struct Milestone {
  // ns and MIPS of a processor, us and Mbit/s of a network, ms and MB/s of a disk, ns and MB/s of
  // memory, ns and GB/s of a GPU's.
  double latency, throughput;
};
struct Technology {
  const char *name, *years;
  std::vector<Milestone> milestones;  // from the oldest on

  double faster() const { return milestones.front().latency / milestones.back().latency; }
  double wider() const { return milestones.back().throughput / milestones.front().throughput; }
};

inline std::vector<Technology> latency_lags() {
  return {{"processor",
           "1982 to 2001",
           {{320, 2}, {313, 6}, {200, 25}, {76, 132}, {50, 600}, {15, 4500}}},
          {"Ethernet", "1978 to 2003", {{3000, 10}, {500, 100}, {340, 1000}, {190, 10'000}}},
          {"disk", "1983 to 2003", {{48.3, 0.6}, {17.1, 4}, {12.7, 9}, {8.8, 24}, {5.7, 86}}},
          {"memory",
           "1980 to 2000",
           {{225, 13}, {170, 40}, {125, 160}, {75, 267}, {62, 640}, {52, 1600}}},
          {"GPU memory", "2008 to 2022", {{440 / 1.296, 142}, {478.8 / 1.755, 2040}}}};
}

namespace latency_picture {

inline constexpr double left = 76, top = 64, wide = 480, high = 330;
inline constexpr const char* colors[] = {"#4477aa", "#228833", "#aa3377", "#ee6677", "#222222"};

// Both axes are logarithmic: 1 to 100 times less latency, 1 to 10,000 times the throughput.
inline double x_of(double times) { return left + wide * std::log10(times) / 2; }
inline double y_of(double times) { return top + high * (1 - std::log10(times) / 4); }

inline std::string grid() {
  std::string svg;
  for (const double times : {1.0, 10.0, 100.0})
    svg += fmt::format("<path d=\"M{0:.0f} {1:.0f}V{2:.0f}\" stroke=\"#ddd\"/>\n", x_of(times), top,
                       top + high) +
           svg::text(x_of(times), top + high + 20, fmt::format("{:g}x", times), "middle");
  for (const double times : {1.0, 10.0, 100.0, 1000.0, 10'000.0})
    svg += fmt::format("<path d=\"M{0:.0f} {1:.0f}H{2:.0f}\" stroke=\"#ddd\"/>\n", left,
                       y_of(times), left + wide) +
           svg::text(left - 8, y_of(times) + 4, fmt::format("{:g}x", times), "end");
  return svg;
}

inline std::string drawn(const Technology& technology, const char* color) {
  std::string line, dots;
  const Milestone& first = technology.milestones.front();
  for (const Milestone& each : technology.milestones) {
    const double x = x_of(first.latency / each.latency);
    const double y = y_of(each.throughput / first.throughput);
    line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x, y);
    dots +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x, y, color);
  }
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", line,
                     color) +
         dots;
}

}  // namespace latency_picture

inline std::string latency_svg() {
  using namespace latency_picture;
  std::string svg = svg::paper(880, 460, "Latency lags throughput");
  svg += svg::text(20, 32, "Latency lags throughput: what each got better by", "start", svg::ink,
                   16, true);
  svg += grid();
  svg += fmt::format(
      "<path d=\"M{:.0f} {:.0f}L{:.0f} {:.0f}\" stroke=\"#777\" stroke-dasharray=\"5 4\"/>\n",
      x_of(1), y_of(1), x_of(100), y_of(100));
  svg += svg::text(x_of(100) - 6, y_of(100) + 22, "both alike", "end", svg::quiet);
  const std::vector<Technology> all = latency_lags();
  for (size_t i = 0; i < all.size(); ++i) {
    const double y = top + 22 + 58 * static_cast<double>(i), x = left + wide + 26;
    svg += drawn(all[i], colors[i]) + svg::box(x, y - 10, 12, 12, colors[i]);
    svg += svg::text(x + 20, y, fmt::format("{}, {}", all[i].name, all[i].years), "start", svg::ink,
                     13, true);
    svg += svg::text(
        x + 20, y + 18,
        fmt::format("throughput {:.0f}x, latency {:.2g}x", all[i].wider(), all[i].faster()));
  }
  svg += svg::text(left - 8, top - 14, "throughput", "middle");
  svg += svg::text(left + wide / 2, top + high + 46, "latency: so many times less", "middle");
  return svg + "</svg>\n";
}

}  // namespace yotta
