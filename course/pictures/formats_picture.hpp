// Pi in six number formats, bit by bit, for the beginning of lesson 01. The file
// course/pictures/formats.svg is what `./yotta lesson 01 -- --draw 1` writes.
#pragma once

#include <string>

#include "course/pictures/svg.hpp"
#include "yotta/core/numbers.hpp"

namespace yotta {

namespace formats_picture {

inline constexpr double pi = 3.14159265358979, left = 100, cell = 17, row = 36, top = 74;
inline constexpr const char* colors[] = {"#ee8866", "#eedd88", "#77aadd"};  // sign, e, mantissa

// The bits stand below each other by their place: all mantissas begin at x_of(9).
inline double x_of(int place) { return left + cell * place + (place > 0) * 6 + (place > 8) * 6; }

inline std::string bit(double x, double y, char digit, int part) {
  return svg::box(x, y, cell, 22, colors[part]) +
         svg::text(x + cell / 2, y + 16, std::string(1, digit), "middle", svg::ink, 11);
}

inline std::string row_of(const NumberFormat& f, double y) {
  const double value = round_to(pi, f);
  std::string all = svg::text(left - 12, y + 16, f.name, "end", svg::ink, 13, true);
  int place = 0, part = 0;
  for (const char digit : draw_bits(value, f)) {
    if (digit == ' ')
      ++part, place = part == 1 ? 9 - f.exponent : 9;
    else
      all += bit(x_of(place++), y, digit, part);
  }
  return all + svg::text(x_of(32) + 16, y + 16, fmt::format("{:.8g}", value), "start") +
         svg::text(x_of(32) + 110, y + 16, fmt::format("{:.3g}", largest(f)), "start");
}

}  // namespace formats_picture

inline std::string formats_svg() {
  using namespace formats_picture;
  const char* const title = "Pi in six formats: the exponent says how far, the mantissa how fine";
  constexpr const char* parts[] = {"sign", "exponent", "mantissa"};
  constexpr int begins[] = {0, 1, 9};
  std::string all = svg::paper(890, 300, title) +
                    svg::text(20, 28, title, "start", svg::ink, 15, true) +
                    svg::text(x_of(32) + 16, top - 12, "its value", "start", svg::ink, 12, true) +
                    svg::text(x_of(32) + 110, top - 12, "the largest", "start", svg::ink, 12, true);
  for (int part = 0; part < 3; ++part)
    all += svg::text(x_of(begins[part]) - (part == 0 ? 12 : 0), top - 12, parts[part], "start",
                     svg::ink, 12, true);
  double y = top;
  for (const NumberFormat& f : formats::all) {
    all += row_of(f, y);
    y += row;
  }
  return all + "</svg>\n";
}

}  // namespace yotta
