// The bodies of machine/pictures/timeline_file.hpp.
#pragma once

#include "yotta/machine/pictures/timeline_file.hpp"

#include <cmath>

#include "yotta/core/system/files.hpp"

namespace yotta {

YOTTA_INLINE std::string json_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out;
}

YOTTA_INLINE std::string xml_escaped(std::string_view text) {
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

// ---- JSON for Perfetto ----
namespace detail {
// Seconds as whole nanoseconds, the finest that viewers know; so two events that touch never
// overlap.
inline int64_t nanoseconds(double time) { return std::llround(time * 1e9); }
// Nanoseconds as the format's microseconds.
inline std::string json_time(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

// A thread of a process: sending or receiving on a lane, and which of several at once.
struct JsonThread {
  int64_t row = 0, at_once = 0;
  constexpr int64_t number() const {
    return 64 * row + at_once;
  }  // in the order in which they are shown
};
// Threads above the lanes: the steps of a rank, and their passes. (Nothing arrives on the compute
// lane, so its second row is free.)
constexpr int64_t steps_thread = JsonThread{1, 0}.number(), passes_thread = steps_thread + 1;

// By rank and event.
inline std::vector<std::vector<JsonThread>> json_threads(const Trace& trace) {
  std::vector<std::vector<JsonThread>> threads;
  for (const std::vector<TraceEvent>& events : trace.ranks) {
    std::map<int64_t, std::vector<int64_t>> ends;  // by row, of what goes on at once
    std::vector<JsonThread>& of_rank = threads.emplace_back();
    for (const TraceEvent& event : events) {
      const bool arrives = event.lane < 0 && event.kind == EventKind::recv;
      const int64_t row = 2 * int64_t{lane_order(event.lane)} + (arrives ? 1 : 0);
      std::vector<int64_t>& busy = ends[row];
      const int64_t begin = nanoseconds(event.begin);
      const auto free =
          std::find_if(busy.begin(), busy.end(), [=](auto end) { return end <= begin; });
      of_rank.push_back({row, free - busy.begin()});
      if (free == busy.end()) busy.push_back(0);
      busy[static_cast<size_t>(of_rank.back().at_once)] = nanoseconds(event.end);
    }
  }
  return threads;
}

inline std::string json_thread(size_t rank, int64_t thread, int64_t place,
                               const std::string& name) {
  return fmt::format(
      "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{0},\"tid\":{1},\"args\":{{\"name\":\"{3}\"}"
      "}}},\n"
      "{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{0},\"tid\":{1},\"args\":{{\"sort_"
      "index\":{2}}}}},\n",
      rank, thread, place, json_escaped(name));
}

// A thread of its own for what is marked on the axis.
inline void add_json_marks(std::string& json, size_t rank, int64_t thread, int64_t place,
                           const char* name, const std::vector<TimelineMark>& marks) {
  if (marks.empty()) return;
  json += json_thread(rank, thread, place, name);
  for (const TimelineMark& mark : marks) {
    const int64_t begin = nanoseconds(mark.begin), end = nanoseconds(mark.end);
    json += fmt::format(
        "{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}}}"
        ",\n",
        mark.name, name, rank, thread, json_time(begin), json_time(end - begin));
  }
}

inline void add_json_names(std::string& json, const Trace& trace,
                           const std::vector<std::vector<JsonThread>>& places) {
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    json += fmt::format(
        "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"args\":{{\"name\":\"rank "
        "{0}\"}}}},\n",
        rank);
    std::map<int64_t, std::string> threads;
    const std::map<int, std::string> lanes = lane_names(trace, static_cast<int>(rank));
    for (size_t i = 0; i < places[rank].size(); ++i) {
      const JsonThread thread = places[rank][i];
      std::string& name = threads[thread.number()];
      if (!name.empty()) continue;
      name = lanes.at(trace.ranks[rank][i].lane) + (thread.row % 2 == 1 ? ", arriving" : "") +
             (thread.at_once > 0 ? fmt::format(" ({})", thread.at_once + 1) : "");
    }
    for (const auto& [thread, name] : threads) json += json_thread(rank, thread, thread, name);
    const int own = static_cast<int>(rank);
    add_json_marks(json, rank, steps_thread, -2, "steps", step_marks(trace, own));
    add_json_marks(json, rank, passes_thread, -1, "passes", pass_marks(trace, own));
  }
}
}  // namespace detail

namespace detail {
// "forward", "all_reduce"; of what has neither phase nor collective: op, send, recv, wait.
inline std::string json_category(const TraceEvent& event) {
  const int family = family_of(event, TimelineBy::kind);
  return family == no_family ? name(event.kind) : family_name(family);
}
}  // namespace detail

YOTTA_INLINE std::string timeline_json(const Trace& trace) {
  std::string json = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  const std::vector<std::vector<detail::JsonThread>> threads = detail::json_threads(trace);
  const auto thread_of = [&](EventId id) {
    return threads[static_cast<size_t>(id.rank)][static_cast<size_t>(id.index)].number();
  };
  detail::add_json_names(json, trace, threads);
  int64_t arrow = 0;
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank)
    for (size_t i = 0; i < trace.ranks[rank].size(); ++i) {
      const TraceEvent& event = trace.ranks[rank][i];
      const int64_t thread = threads[rank][i].number();
      const int64_t begin = detail::nanoseconds(event.begin), end = detail::nanoseconds(event.end);
      json += fmt::format(
          "{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},"
          "\"dur\":{},"
          "\"args\":{{\"is\":\"{}\",\"bytes\":{},\"flops\":{:.17g}{}}}}},\n",
          json_escaped(event.name), detail::json_category(event), rank, thread,
          detail::json_time(begin), detail::json_time(end - begin), name(event.kind), event.bytes,
          event.flops,
          event.peer >= 0 ? fmt::format(",\"peer\":\"{}\"", peer_name(event.peer)) : "");
      if (event.kind != EventKind::recv || event.cause.rank < 0) continue;
      const TraceEvent& sent = trace.at(event.cause);
      if (sent.kind != EventKind::send) continue;
      json += fmt::format(
          "{{\"ph\":\"s\",\"id\":{0},\"name\":\"message\",\"cat\":\"message\",\"pid\":{1},\"tid\":{"
          "2},\"ts\":{3}}},\n"
          "{{\"ph\":\"f\",\"bp\":\"e\",\"id\":{0},\"name\":\"message\",\"cat\":\"message\",\"pid\":"
          "{4},\"tid\":{5},\"ts\":{6}}},\n",
          arrow++, event.cause.rank, thread_of(event.cause),
          detail::json_time(detail::nanoseconds(sent.begin)), rank, thread, detail::json_time(end));
    }
  json.erase(json.rfind(','));  // JSON has no comma at the end
  return json + "\n]}\n";
}

// ---- SVG ----
namespace detail {
struct SvgLayout {
  static constexpr double width = 800, row = 20, axis = 34, marks = 17;
  double seconds;
  double left;  // where the bars begin, right of the lanes' names
  double top;   // below the axis, and below the marks if there are any
  double x(double time) const { return left + (seconds > 0 ? width * time / seconds : 0); }
};

// The lines of a pattern, in a square of 6 by 6.
constexpr const char* pattern_path(Pattern pattern) {
  switch (pattern) {
    case Pattern::solid: return "";
    case Pattern::rising: return "M-1 1L1 -1M0 6L6 0M5 7L7 5";
    case Pattern::falling: return "M5 -1L7 1M0 0L6 6M-1 5L1 7";
    case Pattern::dots: return "M2 3H4";
    case Pattern::crossed: return "M0 0L6 6M0 6L6 0";
    case Pattern::level: return "M0 3H6";
    case Pattern::upright: break;
  }
  return "M3 0V6";
}
constexpr double pattern_width(Pattern pattern) { return pattern == Pattern::dots ? 2 : 0.8; }
// A name for what is drawn so: pictures on one page may share it.
inline std::string look_id(TimelineLook look) {
  return fmt::format("yotta-{}-{}", look.color, static_cast<int>(look.pattern));
}
inline std::string svg_fill(TimelineLook look) {
  return look.pattern == Pattern::solid ? timeline_color(look.color)
                                        : fmt::format("url(#{})", look_id(look));
}
inline std::string svg_patterns(const Timeline& timeline) {
  std::string svg = "<defs>";
  for (const TimelineKind& kind : timeline.kinds)
    if (kind.look.pattern != Pattern::solid)
      svg += fmt::format(
          "<pattern id=\"{}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><rect "
          "width=\"6\" height=\"6\" fill=\"{}\"/><path d=\"{}\" stroke=\"{}\" "
          "stroke-width=\"{}\"/></pattern>",
          look_id(kind.look), timeline_color(kind.look.color), pattern_path(kind.look.pattern),
          timeline_ink, pattern_width(kind.look.pattern));
  return svg + "</defs>\n";
}

// "linear (forward)"; of what is named by its kind, the name alone.
inline std::string event_words(const Timeline& timeline, const TimelineBar& bar,
                               const TraceEvent& event) {
  if (bar.kind < 0) return "wait";
  const std::string& kind = timeline.kinds[static_cast<size_t>(bar.kind)].name;
  return kind == event.name ? kind : fmt::format("{} ({})", event.name, kind);
}

inline std::string svg_bar(const Trace& trace, const Timeline& timeline, const TimelineBar& bar,
                           double x, double width, double y) {
  const TraceEvent& event = trace.at(bar.event);
  const bool half =
      event.lane < 0 && (event.kind == EventKind::send || event.kind == EventKind::recv);
  const double height = half ? 7 : 14,
               top = y + (half && event.kind == EventKind::recv ? 9.5 : 2.5);
  std::string about = xml_escaped(event_words(timeline, bar, event));
  about += fmt::format(", {} to {}", time_text(event.begin), time_text(event.end));
  if (event.peer >= 0)
    about += fmt::format(", {} {}", event.kind == EventKind::send ? "to" : "from",
                         peer_name(event.peer));
  if (event.bytes > 0) about += fmt::format(", {} bytes", event.bytes);
  if (bar.kind < 0)
    return fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"2\" fill=\"#888888\">"
        "<title>{}</title></rect>\n",
        x, y + 8.5, width, about);
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"{}>"
      "<title>{}</title></rect>\n",
      x, top, width, height, svg_fill(timeline.kinds[static_cast<size_t>(bar.kind)].look),
      width > 3 ? fmt::format(" stroke=\"{}\" stroke-width=\"0.5\"", timeline_ink) : "", about);
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
        x, layout.axis - 6, bottom, layout.axis - 12, tick < 4 ? "middle" : "end", time_text(time));
  }
  return svg;
}

// A row of marks: a line down to `bottom` where each begins, and its name if there is room.
inline std::string svg_marks(const std::vector<TimelineMark>& marks, const std::string& title,
                             const SvgLayout& layout, double y, double bottom) {
  if (marks.empty()) return "";
  std::string svg =
      fmt::format("<text x=\"62\" y=\"{:.1f}\" fill=\"#555555\">{}</text>\n", y + 12, title);
  double last = -1;
  for (size_t i = 0; i < marks.size(); ++i) {
    const double x = layout.x(marks[i].begin);
    const double next =
        i + 1 < marks.size() ? layout.x(marks[i + 1].begin) : layout.x(layout.seconds);
    if (x - last < 3) continue;  // too close to be seen
    last = x;
    const double whole = 7 * static_cast<double>(marks[i].name.size()) + 6;
    const double brief = 7 * static_cast<double>(marks[i].brief.size()) + 6;
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#555555\" "
        "stroke-dasharray=\"4 3\"/><text x=\"{3:.1f}\" y=\"{4:.1f}\">{5}</text>\n",
        x, y + 2, bottom, x + 3, y + 12,
        next - x >= whole   ? marks[i].name
        : next - x >= brief ? marks[i].brief
                            : "");
  }
  return svg;
}

// Names with their colours and patterns, four in a row.
inline std::string svg_legend(const Timeline& timeline, double left, double top) {
  std::string svg;
  for (size_t i = 0; i < timeline.kinds.size(); ++i) {
    const double x = left + 210 * static_cast<double>(i % 4);
    const double y = top + 20 * static_cast<double>(i / 4);
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"18\" height=\"12\" fill=\"{}\" stroke=\"{}\" "
        "stroke-width=\"0.5\"/><text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
        x, y, svg_fill(timeline.kinds[i].look), timeline_ink, x + 24, y + 10,
        xml_escaped(timeline.kinds[i].name));
  }
  return svg;
}
}  // namespace detail

YOTTA_INLINE std::string timeline_svg(const Trace& trace, int most_ranks) {
  const Timeline timeline = make_timeline(trace, most_ranks);
  const bool has_marks = !timeline.steps.empty() || !timeline.passes.empty();
  size_t longest = has_marks ? std::string_view("passes of rank 0").size() : 0;
  for (const TimelineRow& row : timeline.rows) longest = std::max(longest, row.name.size());
  double top = detail::SvgLayout::axis;
  if (!timeline.steps.empty()) top += detail::SvgLayout::marks;
  if (!timeline.passes.empty()) top += detail::SvgLayout::marks;
  const detail::SvgLayout layout{timeline.seconds, 70 + 7.5 * static_cast<double>(longest), top};
  const double bottom = layout.top + layout.row * static_cast<double>(timeline.rows.size());
  const double height = bottom + 42 + 20 * static_cast<double>((timeline.kinds.size() + 3) / 4);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" "
      "fill=\"{2}\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      layout.left + layout.width + 30, height, timeline_ink);
  svg += detail::svg_patterns(timeline) + detail::svg_axis(layout, bottom);
  svg += detail::svg_marks(timeline.steps, "steps of rank 0", layout, layout.axis, bottom);
  svg += detail::svg_marks(timeline.passes, "passes of rank 0", layout, top - layout.marks, top);
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
      "<text x=\"{:.0f}\" y=\"{:.0f}\">grey line: waits; dark line: critical path{}</text>\n",
      layout.left, height - 8,
      timeline.ranks_left_out > 0 ? fmt::format("; {} more ranks", timeline.ranks_left_out) : "");
  return svg + "</svg>\n";
}

// ---- The page ----
namespace detail {

template <class Each, class Add>
std::string json_list(const std::vector<Each>& all, Add add) {
  std::string list = "[";
  for (const Each& each : all) list += (list.size() > 1 ? "," : "") + add(each);
  return list + "]";
}
inline std::string marks_data(const std::vector<TimelineMark>& marks) {
  return json_list(marks, [](const TimelineMark& mark) {
    return fmt::format("[{:.12g},{:.12g},\"{}\",\"{}\"]", mark.begin, mark.end, mark.name,
                       mark.brief);
  });
}
inline std::string kinds_data(const Timeline& timeline) {
  return json_list(timeline.kinds, [](const TimelineKind& kind) {
    return fmt::format("{{\"name\":\"{}\",\"color\":\"{}\",\"lines\":\"{}\",\"wide\":{}}}",
                       json_escaped(kind.name), timeline_color(kind.look.color),
                       pattern_path(kind.look.pattern), pattern_width(kind.look.pattern));
  });
}

// {"seconds": s, "left_out": ranks, "first_image": i, "ink": c, "steps": marks, "passes": marks,
//    "kinds": [{"name": n, "color": c, "lines": of its pattern, "wide": they are}, ...],
//    "rows": [{"rank": r, "lane": "tp", "both": does it carry messages both ways, "bars":
//    [[begin, end, its kind, critical, what happens, peer, bytes, flops, its cause's row and bar,
//    its words], ...]}, ...], "words": [...]}. A mark is [begin, end, name, brief].
inline std::string page_data(const Trace& trace, const Timeline& timeline) {
  std::map<std::pair<int, int>, std::pair<size_t, size_t>> place;  // event -> row, bar
  for (size_t r = 0; r < timeline.rows.size(); ++r)
    for (size_t b = 0; b < timeline.rows[r].bars.size(); ++b) {
      const EventId id = timeline.rows[r].bars[b].event;
      place[{id.rank, id.index}] = {r, b};
    }
  std::map<std::string, size_t> numbers;  // of what bars say
  std::vector<std::string> words;
  std::string data = fmt::format(
      "{{\"seconds\":{:.17g},\"left_out\":{},\"first_image\":{},\"ink\":\"{}\",\"steps\":{},"
      "\"passes\":{},\"kinds\":{},\"rows\":[",
      timeline.seconds, timeline.ranks_left_out, first_image, timeline_ink,
      marks_data(timeline.steps), marks_data(timeline.passes), kinds_data(timeline));
  for (size_t r = 0; r < timeline.rows.size(); ++r) {
    const TimelineRow& row = timeline.rows[r];
    data += fmt::format("{}\n{{\"rank\":{},\"lane\":\"{}\",\"both\":{},\"bars\":[",
                        r > 0 ? "," : "", row.rank, json_escaped(row.name), row.lane < 0);
    for (size_t b = 0; b < row.bars.size(); ++b) {
      const TimelineBar& bar = row.bars[b];
      const TraceEvent& event = trace.at(bar.event);
      const auto cause = place.find({event.cause.rank, event.cause.index});
      const bool known = cause != place.end();
      const auto [said, is_new] = numbers.emplace(event_words(timeline, bar, event), words.size());
      if (is_new) words.push_back(said->first);
      data += fmt::format("{}[{:.12g},{:.12g},{},{},{},{},{},{:.6g},{},{},{}]", b > 0 ? "," : "",
                          bar.begin, bar.end, bar.kind, bar.critical ? 1 : 0,
                          static_cast<int>(event.kind), event.peer, event.bytes, event.flops,
                          known ? static_cast<int64_t>(cause->second.first) : -1,
                          known ? static_cast<int64_t>(cause->second.second) : -1, said->second);
    }
    data += "]}";
  }
  return data + "],\"words\":" +
         json_list(
             words,
             [](const std::string& text) { return fmt::format("\"{}\"", json_escaped(text)); }) +
         "}";
}

inline constexpr const char* page_head = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Timeline</title>
<meta name="viewport" content="width=device-width">
<style>
body { font: 14px -apple-system, BlinkMacSystemFont, Helvetica, Arial, sans-serif; margin: 0 16px 16px; color: #222; background: #fff }
header { background: #4051b5; color: #fff; font-weight: bold; margin: 0 -16px; padding: 11px 16px }
h1 { font-size: 24px; font-weight: 300; margin: 16px 0 8px }
#view { width: 100%; border: 1px solid #ccc; cursor: grab; display: block }
#about { min-height: 3.6em; white-space: pre-line; margin: 8px 0 }
#legend span { display: inline-block; margin-right: 16px }
#legend canvas { margin-right: 5px; vertical-align: middle }
</style></head><body>
<header>Yotta</header>
<h1>Timeline</h1>
<p>Wheel: zoom. Drag: move. Point at a bar to read it; click on it for the chain of what it waited for. A dark line
lies over the critical path, a grey one is a wait.
<label><input type="checkbox" id="critical"> critical path only</label> <button id="all">whole run</button>
What its lines mean is in the book, lessons )html";

inline constexpr const char* page_places = R"html(.</p>
<div id="legend"></div><canvas id="view"></canvas><div id="about"></div>
<script>const data = )html";

inline constexpr const char* page_script = R"html(;
const canvas = document.getElementById("view"), g = canvas.getContext("2d");
const about = document.getElementById("about"), critical = document.getElementById("critical");
const marks = [[data.steps, "steps of rank 0"], [data.passes, "passes of rank 0"]].filter(each => each[0].length > 0);
const axis = 28, markHeight = 17, top0 = axis + marks.length * markHeight, rowHeight = 22;
const does = ["computes", "sends", "receives", "reduces", "waits"];
g.font = "12px sans-serif";
const left = 72 + Math.max(...data.rows.map(row => g.measureText(row.lane).width), 100);
function tile(kind, scale) {  // a square of its colour and pattern
  const made = document.createElement("canvas");
  made.width = made.height = 6 * scale;
  const t = made.getContext("2d");
  t.scale(scale, scale);
  t.fillStyle = kind.color; t.fillRect(0, 0, 6, 6);
  t.strokeStyle = data.ink; t.lineWidth = kind.wide; t.stroke(new Path2D(kind.lines));
  return made;
}
function fill(kind) {
  const scale = window.devicePixelRatio || 1, made = g.createPattern(tile(kind, scale), "repeat");
  made.setTransform(new DOMMatrix().scale(1 / scale));
  return made;
}
const fills = data.kinds.map(fill);
let from = 0, to = data.seconds || 1, chain = new Set(), drag = null;
const x = t => left + (t - from) / (to - from) * (canvas.clientWidth - left - 10);
const timeAt = px => from + (px - left) / (canvas.clientWidth - left - 10) * (to - from);
function text(t) {
  const a = Math.abs(t);
  if (a === 0) return "0";
  const [size, unit] = a < 1e-6 ? [1e-9, " ns"] : a < 1e-3 ? [1e-6, " us"] : a < 1 ? [1e-3, " ms"] : [1, " s"];
  return Number((t / size).toPrecision(4)) + unit;
}
function box(row, bar, r) {  // top and height: messages both ways share a row
  const y = top0 + r * rowHeight;
  if (!row.both || (bar[4] !== 1 && bar[4] !== 2)) return [y + 4, rowHeight - 6];
  return bar[4] === 1 ? [y + 4, 7.5] : [y + 12.5, 7.5];
}
function ticks() {  // some eight round times in view
  const least = (to - from) / 8, power = Math.pow(10, Math.floor(Math.log10(least)));
  const step = power * [1, 2, 5, 10].find(each => each * power >= least);
  const times = [];
  for (let i = Math.ceil(from / step); i * step <= to * (1 + 1e-12); ++i) times.push(i * step);
  return times;
}
function drawMarks(all, title, y, bottom) {
  g.fillStyle = "#555"; g.fillText(title, 62, y + 12);
  let last = -9;
  all.forEach((mark, i) => {
    const at = x(mark[0]), room = x(i + 1 < all.length ? all[i + 1][0] : data.seconds) - at - 6;
    if (at < left - 1 || at > canvas.clientWidth - 10 || at - last < 3) return;
    last = at;
    g.strokeStyle = "#555"; g.lineWidth = 1; g.setLineDash([4, 3]);
    g.beginPath(); g.moveTo(at, y + 2); g.lineTo(at, bottom); g.stroke(); g.setLineDash([]);
    const fits = [mark[2], mark[3]].find(each => g.measureText(each).width <= room);
    g.fillStyle = data.ink; if (fits) g.fillText(fits, at + 3, y + 12);
  });
}
function draw() {
  const scale = window.devicePixelRatio || 1, height = top0 + data.rows.length * rowHeight + 6;
  canvas.style.height = height + "px";
  canvas.width = canvas.clientWidth * scale; canvas.height = height * scale;
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, canvas.clientWidth, height);
  g.font = "12px sans-serif"; g.fillStyle = "#222";
  for (const t of ticks()) {
    g.fillStyle = "#ddd"; g.fillRect(x(t), axis - 6, 1, height);
    g.fillStyle = "#222"; g.textAlign = x(t) > canvas.clientWidth - 40 ? "right" : "center";
    g.fillText(text(t), x(t), 14);
  }
  g.textAlign = "left";
  marks.forEach(([all, title], i) => drawMarks(all, title, axis + i * markHeight, i === 0 ? height : top0));
  data.rows.forEach((row, r) => {
    const y = top0 + r * rowHeight;
    if (r === 0 || data.rows[r - 1].rank !== row.rank) {
      g.fillStyle = "#999"; g.fillRect(0, y - 0.5, canvas.clientWidth, 1);
      g.fillStyle = "#222"; g.font = "bold 12px sans-serif"; g.fillText("rank " + row.rank, 4, y + 15);
      g.font = "12px sans-serif";
    }
    g.fillStyle = "#222"; g.fillText(row.lane, 62, y + 15);
    row.bars.forEach((bar, b) => {
      if (bar[1] < from || bar[0] > to || (critical.checked && !bar[3])) return;
      const a = Math.max(x(bar[0]), left), w = Math.max(Math.min(x(bar[1]), canvas.clientWidth - 10) - a, 0.7);
      const [top, h] = box(row, bar, r);
      g.fillStyle = bar[2] < 0 ? "#888" : fills[bar[2]];
      if (bar[2] < 0) g.fillRect(a, y + 10, w, 2); else g.fillRect(a, top, w, h);
      if (bar[2] >= 0 && w > 3) { g.strokeStyle = data.ink; g.lineWidth = 0.5; g.strokeRect(a, top, w, h); }
      if (chain.has(r + "," + b)) { g.strokeStyle = "#c00"; g.lineWidth = 2; g.strokeRect(a, top, w, h); }
      if (bar[3]) { g.fillStyle = "#222"; g.fillRect(a, y + 1.5, w, 2); }
      if (bar[2] >= 0 && w > 60) {
        g.save(); g.beginPath(); g.rect(a, top, w, h); g.clip();
        g.font = (h < 10 ? "8" : "12") + "px sans-serif";
        const base = top + h / 2 + (h < 10 ? 3 : 4);
        g.strokeStyle = data.kinds[bar[2]].color; g.lineWidth = 4; g.strokeText(data.words[bar[10]], a + 4, base);
        g.fillStyle = data.ink; g.fillText(data.words[bar[10]], a + 4, base); g.restore();
      }
    });
  });
}
function find(event) {
  const place = canvas.getBoundingClientRect(), px = event.clientX - place.left, py = event.clientY - place.top;
  const r = Math.floor((py - top0) / rowHeight), row = data.rows[r];
  if (!row || px < left) return null;
  const t = timeAt(px), margin = (to - from) / canvas.clientWidth * 2;
  let best = null;
  row.bars.forEach((bar, b) => {
    const [top, h] = box(row, bar, r);
    if (bar[0] - margin <= t && t <= bar[1] + margin && py >= top - 2 && py <= top + h + 2) best = [r, b];
  });
  return best;
}
function say([r, b]) {
  const row = data.rows[r], bar = data.rows[r].bars[b];
  let line = "rank " + row.rank + ", " + row.lane + ": " + does[bar[4]] + " " + (bar[2] < 0 ? "" : data.words[bar[10]]) +
    ", " + text(bar[1] - bar[0]) + " (" + text(bar[0]) + " to " + text(bar[1]) + ")";
  if (bar[5] >= 0) line += (bar[4] === 1 ? ", to " : ", from ") +
    (bar[5] < data.first_image ? "rank " + bar[5] : "the image on chip " + (bar[5] - data.first_image));
  if (bar[6] > 0) line += ", " + bar[6].toLocaleString("en") + " bytes";
  if (bar[7] > 0) line += ", " + bar[7].toExponential(3) + " FLOPs";
  if (bar[3]) line += ", on the critical path";
  if (bar[8] >= 0) {
    const why = data.rows[bar[8]], cause = why.bars[bar[9]];
    line += "\nnot earlier because of: rank " + why.rank + ", " + why.lane + ", " +
      data.words[cause[10]] + ", until " + text(cause[1]);
  }
  return line;
}
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const t = timeAt(event.clientX - canvas.getBoundingClientRect().left), factor = Math.exp(event.deltaY * 0.0015);
  from = Math.max(0, t - (t - from) * factor); to = Math.min(data.seconds, t + (to - t) * factor);
  draw();
}, { passive: false });
canvas.addEventListener("mousedown", event => { drag = { at: event.clientX, from, to, moved: false }; });
window.addEventListener("mouseup", event => {
  if (drag && !drag.moved) {
    chain = new Set();
    for (let next = find(event); next && next[0] >= 0; ) {
      chain.add(next[0] + "," + next[1]);
      const bar = data.rows[next[0]].bars[next[1]];
      next = [bar[8], bar[9]];
    }
    draw();
  }
  drag = null;
});
canvas.addEventListener("mousemove", event => {
  if (drag) {
    const moved = (event.clientX - drag.at) / (canvas.clientWidth - left - 10) * (drag.to - drag.from);
    const shift = Math.max(Math.min(moved, drag.from), drag.to - data.seconds);
    if (Math.abs(event.clientX - drag.at) > 3) drag.moved = true;
    from = drag.from - shift; to = drag.to - shift;
    return draw();
  }
  const found = find(event);
  about.textContent = found ? say(found) : "";
});
critical.addEventListener("change", draw);
document.getElementById("all").addEventListener("click", () => { from = 0; to = data.seconds || 1; draw(); });
window.addEventListener("resize", draw);
for (const kind of data.kinds) {
  const span = document.createElement("span"), swatch = document.createElement("canvas");
  swatch.width = 20; swatch.height = 12;
  const s = swatch.getContext("2d");
  s.fillStyle = s.createPattern(tile(kind, 1), "repeat"); s.fillRect(0, 0, 20, 12);
  s.strokeStyle = data.ink; s.strokeRect(0, 0, 20, 12);
  span.append(swatch, kind.name);
  document.getElementById("legend").append(span);
}
document.querySelector("h1").textContent = "Timeline: " + text(data.seconds) +
  (data.left_out ? " (" + data.left_out + " more ranks are not shown)" : "");
draw();
</script></body></html>
)html";

// "09 and 27", linked if there is a book, or with the command that makes one.
YOTTA_INLINE std::string lessons_of_page(const std::string& book) {
  if (book.empty()) return "09 and 27: <code>./yotta book</code>";
  const std::string at = xml_escaped(book);
  return fmt::format(
      "<a href=\"{0}/lessons/09_cluster.html\">09</a> and <a "
      "href=\"{0}/lessons/27_mfu.html\">27</a>",
      at);
}

}  // namespace detail

YOTTA_INLINE std::string timeline_page(const Trace& trace, int most_ranks,
                                       const std::string& book) {
  std::string data = detail::page_data(trace, make_timeline(trace, most_ranks));
  for (size_t at = 0; (at = data.find("</", at)) != data.npos;)
    data.replace(at, 2, "<\\/");  // ends no script
  return detail::page_head + detail::lessons_of_page(book) + detail::page_places + data +
         detail::page_script;
}

// ---- Files ----
YOTTA_INLINE void check_timeline_name(const std::string& path, Where where) {
  bool known = false;
  for (const std::string_view ending : {".html", ".json", ".svg", ".txt"})
    known = known || path.ends_with(ending);
  if (!known)
    fail(where,
         "'{}' does not say which kind of timeline to write: end it in .html (a page), .json (for "
         "Perfetto), .svg (a picture) or .txt",
         path);
  expect_writable(path, where);
}

YOTTA_INLINE void write_timeline(const std::string& path, const Trace& trace,
                                 const std::string& book, Where where) {
  check_timeline_name(path, where);
  std::string text;
  if (path.ends_with(".html")) text = timeline_page(trace, 64, book);
  if (path.ends_with(".json")) text = timeline_json(trace);
  if (path.ends_with(".svg")) text = timeline_svg(trace);
  if (path.ends_with(".txt")) text = timeline_text(make_timeline(trace), 100);
  write_file(path, text, where);
}

}  // namespace yotta
