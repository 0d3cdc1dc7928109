// A timeline as one SVG picture: for a page, a slide, a lesson.
//
// Rows and colours as in timeline.hpp. On a communicator's lane the upper half is what is sent, the lower half
// what is received. Bars of the critical path have a dark frame; waits are hatched. Bars that would be thinner
// than a third of a pixel are drawn together with the one before, so the file stays small for long runs.
#pragma once

#include "yotta/machine/timeline.hpp"

namespace yotta {

// Text between tags.
inline std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

namespace detail {
struct SvgLayout {
  static constexpr double left = 150, width = 800, top = 34, row = 20;
  double seconds;
  double x(double time) const { return left + (seconds > 0 ? width * time / seconds : 0); }
};

inline std::string svg_bar(const Trace& trace, const Timeline& timeline, const TimelineBar& bar,
                           double x, double width, double y) {
  const TraceEvent& event = trace.at(bar.event);
  const bool half =
      event.lane < 0 && (event.kind == EventKind::send || event.kind == EventKind::recv);
  const double height = half ? 7 : 14,
               top = y + (half && event.kind == EventKind::recv ? 9.5 : 2.5);
  std::string about =
      bar.name < 0 ? "wait" : xml_escaped(timeline.names[static_cast<size_t>(bar.name)]);
  about += fmt::format(", {} to {}", time_text(event.begin), time_text(event.end));
  if (event.peer >= 0)
    about += fmt::format(", {} rank {}", event.kind == EventKind::send ? "to" : "from", event.peer);
  if (event.bytes > 0) about += fmt::format(", {} bytes", event.bytes);
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" "
      "fill=\"{}\"{}><title>{}</title></rect>\n",
      x, top, width, height, bar.name < 0 ? "url(#wait)" : timeline_color(bar.name),
      bar.critical ? " stroke=\"#222\" stroke-width=\"1.2\"" : "", about);
}

inline std::string svg_axis(const SvgLayout& layout, double bottom) {
  std::string svg;
  for (int tick = 0; tick <= 4; ++tick) {
    const double time = layout.seconds * tick / 4, x = layout.x(time);
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#ccc\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"{4}\">{5}</text>\n",
        x, layout.top - 6, bottom, layout.top - 12, tick < 4 ? "middle" : "end", time_text(time));
  }
  return svg;
}

// Names with their colours, four in a row.
inline std::string svg_legend(const Timeline& timeline, double top) {
  std::string svg;
  for (size_t i = 0; i < timeline.names.size(); ++i) {
    const double x = SvgLayout::left + 200 * static_cast<double>(i % 4);
    const double y = top + 20 * static_cast<double>(i / 4);
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" fill=\"{}\"/><text "
        "x=\"{:.0f}\" "
        "y=\"{:.0f}\">{}</text>\n",
        x, y, timeline_color(static_cast<int>(i)), x + 18, y + 10, xml_escaped(timeline.names[i]));
  }
  return svg;
}
}  // namespace detail

// The picture, 970 pixels wide.
inline std::string timeline_svg(const Trace& trace, int most_ranks = 8) {
  const Timeline timeline = make_timeline(trace, most_ranks);
  const detail::SvgLayout layout{timeline.seconds};
  const double bottom = layout.top + layout.row * static_cast<double>(timeline.rows.size());
  const double height = bottom + 26 + 20 * static_cast<double>((timeline.names.size() + 3) / 4);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 970 {0:.0f}\" width=\"970\" "
      "height=\"{0:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
      "<defs><pattern id=\"wait\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#f4f4f4\"/>"
      "<rect width=\"1.5\" height=\"5\" fill=\"#bbb\"/></pattern></defs>\n"
      "<rect width=\"970\" height=\"{0:.0f}\" fill=\"white\"/>\n",
      height);
  svg += detail::svg_axis(layout, bottom);
  double y = layout.top;
  int rank = -1;
  for (const TimelineRow& row : timeline.rows) {
    svg += fmt::format(
        "<text x=\"8\" y=\"{0:.1f}\" font-weight=\"bold\">{1}</text><text x=\"62\" "
        "y=\"{0:.1f}\">{2}</text>\n",
        y + 14, row.rank != rank ? fmt::format("rank {}", row.rank) : "", lane_name(row.lane));
    rank = row.rank;
    double drawn[2] = {-1, -1};  // how far, sent and received
    for (const TimelineBar& bar : row.bars) {
      double& until = drawn[trace.at(bar.event).kind == EventKind::recv];
      const double x = layout.x(bar.begin), end = layout.x(bar.end);
      if (end - until < 0.33) continue;
      svg += detail::svg_bar(trace, timeline, bar, x, std::max(end - x, 0.5), y);
      until = end;
    }
    y += layout.row;
  }
  return svg + detail::svg_legend(timeline, bottom + 14) + "</svg>\n";
}

}  // namespace yotta
