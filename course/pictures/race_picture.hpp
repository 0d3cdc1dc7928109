// A race as SVG: the steps of two ranks on a counter, in two orders side by side, from play_race
// (comm/race.hpp).
//
//     step  rank 0     rank 1     counter
//        1  [reads 41]               41         one row per step; time runs downwards
//        2             [reads 41]    41
//
// Lesson 00 shows it. The file course/pictures/race.svg is what `./yotta lesson 00 -- --draw 1`
// writes.
#pragma once

#include <fmt/format.h>

#include <string>

#include "course/pictures/svg.hpp"
#include "yotta/comm/race.hpp"

namespace yotta {

namespace race_picture {

constexpr int width = 860, height = 346, panel = 430, first_row = 112, row = 30;

inline std::string text(int x, int y, const std::string& words, const char* anchor = "middle",
                        int size = 13, const char* color = "#222", bool bold = false) {
  return fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" font-size=\"{}\" fill=\"{}\"{}>{}</text>\n", x, y,
      anchor, size, color, bold ? " font-weight=\"bold\"" : "", words);
}

// "reads 41", "adds 1: 42", "writes 42".
inline std::string words(const RaceStep& step) {
  const char* names[] = {"reads", "adds 1:", "writes"};
  return fmt::format("{} {}", names[step.kind], step.held);
}

// One step: a box in its rank's column, and what the counter is after it.
inline std::string drawn(const RaceStep& step, int number, int left, int before) {
  const int y = first_row + row * (number - 1), x = left + 118 + 112 * step.rank;
  const char* fills[] = {"#cfe0f5", "#eeeeee", "#fbdcc8"};
  const bool changed = step.counter != before;
  return text(left + 40, y, fmt::format("{}", number)) +
         fmt::format(
             "<rect x=\"{}\" y=\"{}\" width=\"104\" height=\"24\" rx=\"3\" fill=\"{}\" "
             "stroke=\"#333\" stroke-width=\"0.8\"/>\n",
             x - 52, y - 17, fills[step.kind]) +
         text(x, y, words(step)) +
         text(left + 362, y, fmt::format("{}", step.counter), "middle", 13, "#222", changed);
}

// One order of the steps, with its title and what comes of it.
inline std::string panel_of(const std::string& order, int left, const std::string& title) {
  const int start = 41;
  const std::vector<RaceStep> steps = play_race(order, start);
  const bool lost = steps.back().counter != start + 2;
  std::string svg =
      text(left + 22, 62, title, "start", 14, "#222", true) +
      text(left + 40, 86, "step", "middle", 12, "#555") +
      text(left + 118, 86, "rank 0", "middle", 12, "#555") +
      text(left + 230, 86, "rank 1", "middle", 12, "#555") +
      text(left + 362, 86, fmt::format("counter, first {}", start), "middle", 12, "#555");
  int number = 0;
  int64_t before = start;
  for (const RaceStep& step : steps) {
    svg += drawn(step, ++number, left, static_cast<int>(before));
    before = step.counter;
  }
  const std::string result = lost ? fmt::format("{}: one addition is lost", before)
                                  : fmt::format("{}: both additions count", before);
  return svg + text(left + 22, first_row + row * 6 + 4, result, "start", 14,
                    lost ? "#b2182b" : "#1b6e2d", true);
}

// What the colours mean.
inline std::string legend() {
  std::string svg;
  const std::pair<const char*, const char*> colors[] = {{"#cfe0f5", "reads the counter"},
                                                        {"#eeeeee", "adds 1 to what it has read"},
                                                        {"#fbdcc8", "writes the counter"}};
  int x = 22;
  for (const auto& [color, meaning] : colors) {
    svg += fmt::format(
        "<rect x=\"{}\" y=\"319\" width=\"16\" height=\"12\" fill=\"{}\" stroke=\"#333\"/>\n", x,
        color);
    svg += text(x + 22, 330, meaning, "start", 12);
    x += 200;
  }
  return svg + text(x, 330, "time runs downwards, one step per row", "start", 12, "#555");
}

}  // namespace race_picture

inline std::string race_svg() {
  using namespace race_picture;
  return svg::head(width, height, "A race") + svg::sheet(width, height) +
         text(22, 30, "Two ranks add 1 to one counter", "start", 16, "#222", true) +
         panel_of("010101", 0, "Steps alternate") +
         panel_of("000111", panel, "Rank 0, then rank 1") + legend() + "</svg>\n";
}

}  // namespace yotta
