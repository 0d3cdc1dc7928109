// The chips of machine/hardware_lottery.hpp on one roofline: for each the roof of its matrix units,
// and below it that of its other units.
//
//     FLOP/s              ________________  matrix units
//                        /
//                       /    ____________   other units: where everything runs that is no matmul
//                      /____/
//                     /
//
// Lesson 04 shows it. The file course/pictures/chip_roofs.svg is what
// `./yotta lesson 04 -- --measure 0 --draw 1` writes.
#pragma once

#include <string>

#include "course/pictures/svg.hpp"
#include "yotta/machine/hardware_lottery.hpp"
#include "yotta/machine/pictures/roofline_picture.hpp"

namespace yotta {

namespace chip_roofs {

inline constexpr double left = 76, top = 64, wide = 560, high = 330;
inline constexpr int shown[] = {1, 3, 4};  // an H100, a TPU v5e, a Trainium2
inline constexpr const char* colors[] = {"#4477aa", "#228833", "#ee6677"};  // Paul Tol's "bright"
inline constexpr Decades intensity{0, 4}, rate{11, 15};

inline double x_of(double flops_per_byte) { return left + wide * intensity.place(flops_per_byte); }
inline double y_of(double flops) { return top + high * (1 - rate.place(flops)); }

// Memory's slope from `from` FLOPs per byte up to the ridge, then flat.
inline std::string roof(double peak, double bandwidth, double from, const char* color,
                        const char* more) {
  return fmt::format(
      "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}\" fill=\"none\" stroke=\"{}\" "
      "stroke-width=\"2.5\"{}/>\n",
      x_of(from), y_of(from * bandwidth), x_of(peak / bandwidth), y_of(peak), x_of(intensity.at(1)),
      y_of(peak), color, more);
}

inline std::string grid() {
  std::string svg;
  const auto line = [&](double x0, double y0, double x1, double y1) {
    svg +=
        fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"#ddd\"/>\n", x0, y0, x1, y1);
  };
  for (int p = intensity.first; p <= intensity.last; ++p) {
    const double x = x_of(std::pow(10.0, p));
    line(x, top, x, top + high);
    svg += svg::text(x, top + high + 20, fmt::format("{:g}", std::pow(10.0, p)), "middle");
  }
  for (int p = rate.first; p <= rate.last; ++p) {
    const double y = y_of(std::pow(10.0, p));
    line(left, y, left + wide, y);
    svg += svg::text(left - 8, y + 4, rate_text(std::pow(10.0, p), ""), "end");
  }
  return svg;
}

}  // namespace chip_roofs

inline std::string chip_roofs_svg() {
  using namespace chip_roofs;
  std::string svg = svg::paper(880, 456, "Three chips on one roofline");
  svg += svg::text(20, 32, "Matrix units (solid) and all other units (dashed) of three chips",
                   "start", svg::ink, 16, true);
  svg += grid();
  for (size_t i = 0; i < std::size(shown); ++i) {
    const ChipUnits& chip = chip_units[static_cast<size_t>(shown[i])];
    svg += roof(chip.matrix, chip.bandwidth, intensity.at(0), colors[i], "");
    svg += roof(chip.others, chip.bandwidth, chip.others / chip.bandwidth, colors[i],
                " stroke-dasharray=\"6 4\"");
    const double right = left + wide + 8;
    svg += svg::text(right, y_of(chip.matrix) + (i == 2 ? 14 : 4),
                     fmt::format("{}, matrix: {}", chip.name,
                                 fmt::format("{:.3g} TFLOP/s", 1e-12 * chip.matrix)),
                     "start", colors[i], 12, true);
    svg += svg::text(right, y_of(chip.others) + (i == 1 ? 16 : 4),
                     fmt::format("{}, others: {}", chip.name,
                                 fmt::format("{:.2g} TFLOP/s", 1e-12 * chip.others)),
                     "start", colors[i]);
  }
  svg += svg::text(left - 8, top - 14, "FLOP/s", "end");
  svg += svg::text(left + wide / 2, top + high + 44, "intensity, FLOPs per byte", "middle");
  return svg + "</svg>\n";
}

}  // namespace yotta
