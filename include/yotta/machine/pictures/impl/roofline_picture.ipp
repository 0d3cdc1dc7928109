// The bodies of machine/pictures/roofline_picture.hpp.
#pragma once

#include "yotta/machine/pictures/roofline_picture.hpp"

namespace yotta {

YOTTA_INLINE std::string rate_text(double value, const char* unit) {
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  int prefix = 0;
  for (; value >= 999.95 && prefix < 6; ++prefix) value /= 1000;
  return fmt::format("{:.4g} {}{}", value, prefixes[prefix], unit);
}

YOTTA_INLINE std::string draw_roofline(const RooflinePicture& picture, int width, int height) {
  const RooflineAxes axes(picture);
  std::vector<std::string> rows(static_cast<size_t>(height),
                                std::string(static_cast<size_t>(width), ' '));
  const auto put = [&](double x, double y, char mark) {
    const auto column = static_cast<size_t>(std::lround(x * (width - 1)));
    const auto row = static_cast<size_t>(std::lround((1 - y) * (height - 1)));
    rows[row][column] = mark;
  };
  for (int column = 0; column < width; ++column) {
    const double x = static_cast<double>(column) / (width - 1), intensity = axes.intensity.at(x);
    const bool flat = intensity >= picture.roof.ridge();
    put(x, axes.rate.place(picture.roof.attainable(intensity)), flat ? '-' : '/');
  }
  std::string legend;
  for (size_t i = 0; i < picture.points.size(); ++i) {
    const RooflinePoint& point = picture.points[i];
    const char mark = static_cast<char>('A' + i % 26);
    put(axes.intensity.place(point.intensity), axes.rate.place(point.rate), mark);
    legend += fmt::format("  {} {:<28} {:>8.3g} FLOP/byte {:>16} {:>5.1f}% of the roof\n", mark,
                          point.name, point.intensity, rate_text(point.rate),
                          100 * point.rate / picture.roof.attainable(point.intensity));
  }
  std::string text = picture.title.empty() ? "" : "  " + picture.title + "\n";
  text += fmt::format("  {} at most\n", rate_text(picture.roof.peak));
  for (const std::string& row : rows)
    text += "  │" + row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  text += "  └";
  for (int i = 0; i < width; ++i) text += "─";
  return text +
         fmt::format(
             "\n  intensity from {:g} to {:g} FLOPs per byte, ridge at {:.1f}: memory-bound left "
             "of it, compute-bound right\n",
             axes.intensity.at(0), axes.intensity.at(1), picture.roof.ridge()) +
         legend;
}

namespace roofline_svg_parts {
inline constexpr double left = 80, top = 60, wide = 600, high = 300;
struct Spot {
  double x, y;
};
inline Spot spot(const RooflineAxes& axes, double intensity, double rate) {
  return {left + wide * axes.intensity.place(intensity), top + high * (1 - axes.rate.place(rate))};
}
inline std::string words(double x, double y, const std::string& text, const char* anchor,
                         const char* style = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, style, text);
}
inline std::string line(Spot a, Spot b, const char* style) {
  return fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", style, a.x, a.y,
                     b.x, b.y);
}
// A thin line and a label at each power of ten.
inline std::string grid(const RooflineAxes& axes) {
  std::string text;
  const double x0 = axes.intensity.at(0), x1 = axes.intensity.at(1);
  const double y0 = axes.rate.at(0), y1 = axes.rate.at(1);
  for (int p = axes.intensity.first; p <= axes.intensity.last; ++p) {
    const double x = std::pow(10.0, p);
    text += line(spot(axes, x, y0), spot(axes, x, y1), "grid");
    text += words(spot(axes, x, y0).x, top + high + 18, fmt::format("{:g}", x), "middle");
  }
  for (int p = axes.rate.first; p <= axes.rate.last; ++p) {
    const double y = std::pow(10.0, p);
    text += line(spot(axes, x0, y), spot(axes, x1, y), "grid");
    text += words(left - 6, spot(axes, x0, y).y + 4, rate_text(y, ""), "end");
  }
  return text;
}
// The halves left and right of the ridge, each with its name and what limits it there.
inline std::string halves(const RooflineAxes& axes, double ridge) {
  const double middle = left + wide * axes.intensity.place(ridge);
  const auto half = [](double x0, double x1, const char* fill, const char* name) {
    return fmt::format(
               "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
               "fill=\"{}\"/>\n",
               x0, top, x1 - x0, high, fill) +
           words((x0 + x1) / 2, top + high - 12, name, "middle", " font-weight=\"bold\"");
  };
  return half(left, middle, "#eef5fc", "memory-bound") +
         half(middle, left + wide, "#fdf3e7", "compute-bound");
}
// The points, each with its letter, and the legend below the axis.
inline std::string marks(const RooflinePicture& picture, const RooflineAxes& axes) {
  std::string text;
  for (size_t i = 0; i < picture.points.size(); ++i) {
    const RooflinePoint& point = picture.points[i];
    const Spot s = spot(axes, point.intensity, point.rate);
    const std::string letter(1, static_cast<char>('A' + i % 26));
    text += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"#27c\"/>\n", s.x, s.y);
    const bool at_the_edge = s.x > left + 0.95 * wide;
    text += words(s.x + (at_the_edge ? -7 : 7), s.y + 13, letter, at_the_edge ? "end" : "start",
                  " font-weight=\"bold\"");
    const double y = top + high + 68 + 18 * static_cast<double>(i);
    text += words(left, y, letter, "start", " font-weight=\"bold\"");
    text += words(left + 20, y, point.name, "start");
    text += words(left + 370, y, fmt::format("{:.4g} FLOPs per byte", point.intensity), "end");
    text += words(left + 475, y, rate_text(point.rate), "end");
    text += words(left + wide, y,
                  fmt::format("{:.1f}% of the roof",
                              100 * point.rate / picture.roof.attainable(point.intensity)),
                  "end");
  }
  return text;
}
}  // namespace roofline_svg_parts

YOTTA_INLINE std::string roofline_svg(const RooflinePicture& picture) {
  using namespace roofline_svg_parts;
  const RooflineAxes axes(picture);
  const Roofline& roof = picture.roof;
  const double x0 = axes.intensity.at(0), x1 = axes.intensity.at(1);
  const double height = top + high + 62 + 18 * static_cast<double>(picture.points.size());
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"{0:.0f}\" "
      "viewBox=\"0 0 720 {0:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<style>.grid{{stroke:#ddd}}.roof{{stroke:#c33;stroke-width:2}}"
      ".ridge{{stroke:#c33;stroke-dasharray:4}}path{{fill:none}}</style>\n"
      "<rect width=\"720\" height=\"{0:.0f}\" fill=\"white\"/>\n",
      height);
  text += words(left, 22, picture.title, "start", " font-size=\"15\" font-weight=\"bold\"");
  text += halves(axes, roof.ridge()) + grid(axes);
  text += line(spot(axes, x0, roof.attainable(x0)), spot(axes, roof.ridge(), roof.peak), "roof");
  text += line(spot(axes, roof.ridge(), roof.peak), spot(axes, x1, roof.peak), "roof");
  const Spot ridge = spot(axes, roof.ridge(), axes.rate.at(0));
  text += line(spot(axes, roof.ridge(), roof.peak), ridge, "ridge");
  text += words(ridge.x + 5, ridge.y - 30, fmt::format("ridge {:.0f}", roof.ridge()), "start");
  text += words(left + wide, spot(axes, x1, roof.peak).y - 6, rate_text(roof.peak), "end");
  text += words(left + 8, spot(axes, x0, roof.attainable(x0)).y - 50,
                rate_text(roof.bandwidth, "B/s"), "start");
  text += marks(picture, axes);
  text += words(left + wide / 2, top + high + 40, "intensity, FLOPs per byte", "middle");
  return text + words(left - 6, top - 14, "FLOP/s", "end") + "</svg>\n";
}

}  // namespace yotta
