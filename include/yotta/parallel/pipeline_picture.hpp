// Pictures of a pipeline's timeline: for the terminal, and as SVG.
//
//     rank 0   F0 F1 F2 F3 .. .. B0--- B1---        one column per unit of time; .. is the bubble
//     rank 1   .. F0 F1 F2 F3 B0--- B1---
//
// Each microbatch has a colour and a pattern, so that it can be followed down and back up, also in
// print and by readers who tell no red from green. F is light, B and its halves I and W are dark,
// and the number stands in the box.
#pragma once

#include "yotta/parallel/pipeline_timeline.hpp"
#if YOTTA_BODIES_OF(parallel_pipeline)
#include <cmath>
#endif  // YOTTA_BODIES

namespace yotta {

// One line per rank. `unit` seconds are one column, three characters wide or as wide as the longest
// name; a chunk is told by its stage: "4F1". With `colored`, microbatches are told apart by
// terminal colors.
YOTTA_API std::string picture(const PipelineTimeline& timeline, double unit = 1,
                              bool colored = false);

// The timeline as a drawing `width` pixels wide, with a title.
YOTTA_API std::string svg(const PipelineTimeline& timeline, const std::string& title,
                          double width = 900);

#if YOTTA_BODIES_OF(parallel_pipeline)

std::string picture(const PipelineTimeline& timeline, double unit, bool colored) {
  const bool chunks = timeline.schedule.stages > timeline.schedule.ranks;
  constexpr int colors[] = {31, 32, 33, 34, 35, 36};
  const auto name = [&](const PipelineAction& action) {
    const std::string whole = str(action);
    return chunks ? whole : whole.substr(whole.find_first_of("FBIW"));
  };
  size_t width = 3;
  for (const std::vector<PipelineEvent>& events : timeline.by_rank)
    for (const PipelineEvent& each : events) width = std::max(width, name(each.action).size() + 1);
  const auto column = [&](double time) {
    return width * static_cast<size_t>(std::lround(time / unit));
  };
  std::string text;
  for (size_t rank = 0; rank < timeline.by_rank.size(); ++rank) {
    std::string line;
    size_t at = 0;  // characters that can be seen
    const auto idle = [&](size_t until) {
      for (; at < until; at += width) line += std::string(width - 1, '.') + " ";
    };
    for (const PipelineEvent& each : timeline.by_rank[rank]) {
      idle(column(each.begin));
      std::string box = name(each.action);
      const size_t wide = column(each.end) - column(each.begin);
      if (wide < 1) continue;
      box.resize(std::max<size_t>(1, wide - 1), '-');
      at += wide;
      const int color = colors[static_cast<size_t>(each.action.microbatch) % std::size(colors)];
      line += colored ? fmt::format("\033[{}m{}\033[0m ", color, box) : box + " ";
    }
    idle(column(timeline.length));
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("rank {:<3} {}\n", rank, line);
  }
  return text;
}

namespace detail {

inline constexpr const char* pipeline_colors[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44",
                                                  "#66ccee", "#aa3377", "#bbbbbb", "#ee8866"};
// What is drawn over the colour: nothing, stripes, dots, lines, lines the other way.
inline constexpr const char* pipeline_patterns[] = {
    "", "<path d='M0,8 L8,0' stroke='#000' stroke-opacity='.45'/>",
    "<circle cx='4' cy='4' r='1.4' fill-opacity='.45'/>",
    "<path d='M0,4 H8' stroke='#000' stroke-opacity='.45'/>",
    "<path d='M4,0 V8' stroke='#000' stroke-opacity='.45'/>"};

inline std::string pipeline_box(const PipelineEvent& each, bool chunks, double x, double y,
                                double width, double height) {
  const size_t number = static_cast<size_t>(each.action.microbatch);
  const bool forward = each.action.op == PipelineOp::F;
  const auto rectangle = [&](const std::string& fill, double opacity) {
    return fmt::format(
        "<rect x='{:.2f}' y='{:.2f}' width='{:.2f}' height='{:.2f}' fill='{}' fill-opacity='{}' "
        "stroke='#333' stroke-width='{}'/>\n",
        x, y, width, height, fill, opacity, forward ? 0.6 : 1.2);
  };
  std::string svg =
      rectangle(pipeline_colors[number % std::size(pipeline_colors)], forward ? 0.45 : 1);
  const size_t pattern = number % std::size(pipeline_patterns);
  if (pattern > 0) svg += rectangle(fmt::format("url(#p{})", pattern), 1);
  const std::string name = str(each.action);
  return svg + fmt::format("<text x='{:.2f}' y='{:.2f}'>{}</text>\n", x + width / 2,
                           y + height / 2 + 4,
                           chunks ? name : name.substr(name.find_first_of("FBIW")));
}

}  // namespace detail

std::string svg(const PipelineTimeline& timeline, const std::string& title, double width) {
  const double left = 60, row = 30, top = 34, ranks = static_cast<double>(timeline.by_rank.size());
  const double scale = timeline.length > 0 ? (width - left - 10) / timeline.length : 0;
  std::string text = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "font-family='sans-serif' font-size='11' text-anchor='middle'>\n<title>{2}</title>\n<rect "
      "width='{0}' height='{1}' fill='#fff'/>\n<defs>\n",
      width, top + row * ranks + 10, title);
  for (size_t i = 1; i < std::size(detail::pipeline_patterns); ++i)
    text += fmt::format(
        "<pattern id='p{}' width='8' height='8' patternUnits='userSpaceOnUse'>{}</pattern>\n", i,
        detail::pipeline_patterns[i]);
  text += fmt::format(
      "</defs>\n<text x='{}' y='20' text-anchor='start' font-size='13'>{}: {:.1f}% busy</text>\n",
      left, title, 100 * timeline.busy());
  for (size_t rank = 0; rank < timeline.by_rank.size(); ++rank) {
    const double y = top + row * static_cast<double>(rank);
    text += fmt::format(
        "<text x='{}' y='{}' text-anchor='end'>rank {}</text>\n<rect x='{}' y='{}' width='{:.2f}' "
        "height='{}' fill='#f2f2f2'/>\n",
        left - 8, y + row / 2 + 2, rank, left, y, scale * timeline.length, row - 4);
    for (const PipelineEvent& each : timeline.by_rank[rank])
      text += detail::pipeline_box(each, timeline.schedule.stages > timeline.schedule.ranks,
                                   left + scale * each.begin, y, scale * (each.end - each.begin),
                                   row - 4);
  }
  return text + "</svg>\n";
}

#endif  // YOTTA_BODIES

}  // namespace yotta
