// A timeline as one SVG picture: for a page, a slide, a lesson.
//
// Rows and colours as in timeline.hpp. On a communicator's lane the upper half is what is sent, the lower half
// what is received. A dark line lies over what is on the critical path; waits are hatched. Bars that would be
// thinner than a third of a pixel are drawn together with the one before, so the file stays small for long runs.
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
  static constexpr double width = 800, top = 34, row = 20;
  double seconds;
  double left;  // where the bars begin, right of the lanes' names
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
    about += fmt::format(", {} {}", event.kind == EventKind::send ? "to" : "from",
                         peer_name(event.peer));
  if (event.bytes > 0) about += fmt::format(", {} bytes", event.bytes);
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" "
      "fill=\"{}\"><title>{}</title></rect>\n",
      x, top, width, height, bar.name < 0 ? "url(#wait)" : timeline_color(bar.name), about);
}

// The bars of a row, and the line over those on the critical path.
inline std::string svg_row(const Trace& trace, const Timeline& timeline, const TimelineRow& row,
                           const SvgLayout& layout, double y) {
  std::string bars, lines;
  double drawn[2] = {-1, -1};    // how far, sent and received
  double from = -1, until = -1;  // of the line so far
  const auto add_line = [&] {
    if (until > from)
      lines += fmt::format("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"2\"/>\n",
                           from, y, std::max(until - from, 0.5));
  };
  for (const TimelineBar& bar : row.bars) {
    const double x = layout.x(bar.begin), end = layout.x(bar.end);
    if (bar.critical && x - until > 0.33) add_line(), from = x;
    if (bar.critical) until = std::max(until, end);
    double& last = drawn[trace.at(bar.event).kind == EventKind::recv];
    if (end - last < 0.33) continue;
    bars += svg_bar(trace, timeline, bar, x, std::max(end - x, 0.5), y);
    last = end;
  }
  add_line();
  return bars + lines;
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
inline std::string svg_legend(const Timeline& timeline, double left, double top) {
  std::string svg;
  for (size_t i = 0; i < timeline.names.size(); ++i) {
    const double x = left + 210 * static_cast<double>(i % 4);
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

// The picture, some 1000 pixels wide.
inline std::string timeline_svg(const Trace& trace, int most_ranks = 8) {
  const Timeline timeline = make_timeline(trace, most_ranks);
  size_t longest = 0;
  for (const TimelineRow& row : timeline.rows) longest = std::max(longest, row.name.size());
  const detail::SvgLayout layout{timeline.seconds, 70 + 7.5 * static_cast<double>(longest)};
  const double bottom = layout.top + layout.row * static_cast<double>(timeline.rows.size());
  const double height = bottom + 42 + 20 * static_cast<double>((timeline.names.size() + 3) / 4);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" "
      "fill=\"#222\">\n"
      "<defs><pattern id=\"wait\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#f4f4f4\"/>"
      "<rect width=\"1.5\" height=\"5\" fill=\"#bbb\"/></pattern></defs>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      layout.left + layout.width + 30, height);
  svg += detail::svg_axis(layout, bottom);
  double y = layout.top;
  int rank = -1;
  for (const TimelineRow& row : timeline.rows) {
    svg += fmt::format(
        "<text x=\"8\" y=\"{0:.1f}\" font-weight=\"bold\">{1}</text><text x=\"62\" "
        "y=\"{0:.1f}\">{2}</text>\n",
        y + 14, row.rank != rank ? fmt::format("rank {}", row.rank) : "", xml_escaped(row.name));
    rank = row.rank;
    svg += detail::svg_row(trace, timeline, row, layout, y);
    y += layout.row;
  }
  svg += detail::svg_legend(timeline, layout.left, bottom + 14);
  svg += fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.0f}\">hatched: waits; dark line: critical path{}</text>\n",
      layout.left, height - 8,
      timeline.ranks_left_out > 0 ? fmt::format("; {} more ranks", timeline.ranks_left_out) : "");
  return svg + "</svg>\n";
}

}  // namespace yotta
