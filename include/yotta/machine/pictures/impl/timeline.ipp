// The bodies of machine/pictures/timeline.hpp.
#pragma once

#include "yotta/machine/pictures/timeline.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "yotta/machine/critical_path.hpp"

namespace yotta {

namespace detail {
// Compute first, then communicators in the order in which they were made, then peers.
constexpr int lane_order(int lane) { return lane <= 0 ? -lane : lane + (1 << 20); }

// An event's family: its phase, its collective behind these, or the last of all.
constexpr int first_communication = static_cast<int>(phase_looks.size());
constexpr int no_family = first_communication + static_cast<int>(communication_looks.size());
constexpr int family_of(const TraceEvent& event, TimelineBy by) {
  if (by == TimelineBy::name) return no_family;
  if (event.phase != Phase::none) return static_cast<int>(event.phase) - 1;
  if (event.communication == Communication::none) return no_family;
  return first_communication + static_cast<int>(event.communication) - 1;
}
inline std::string family_name(int family) {
  if (family >= first_communication)
    return name(static_cast<Communication>(family - first_communication + 1));
  const auto phase = static_cast<Phase>(family + 1);
  const char* const also = phase == Phase::backward_input    ? " (dgrad)"
                           : phase == Phase::backward_weight ? " (wgrad)"
                                                             : "";
  return fmt::format("{}{}", name(phase), also);
}
constexpr TimelineLook family_look(int family) {
  return family < first_communication
             ? phase_looks[static_cast<size_t>(family)]
             : communication_looks[static_cast<size_t>(family - first_communication)];
}

using NamedTimes = std::vector<std::pair<std::string, double>>;

// Ops and labels by family, those that take most time first. A message counts once, where it
// arrives.
inline std::map<int, NamedTimes> times_by_family(const Trace& trace, TimelineBy by) {
  std::map<int, std::map<std::string_view, double>> times;
  for (const std::vector<TraceEvent>& events : trace.ranks)
    for (const TraceEvent& event : events)
      if (event.kind != EventKind::wait)
        times[family_of(event, by)][event.name] +=
            event.kind == EventKind::send ? 0 : event.seconds();
  std::map<int, NamedTimes> sorted;
  for (const auto& [family, of_family] : times) {
    NamedTimes& all = sorted[family];
    all.assign(of_family.begin(), of_family.end());
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
  }
  return sorted;
}

// The kinds of a trace, and which one an event is of.
class KindsOf {
 public:
  KindsOf(const Trace& trace, TimelineBy by, double seconds)
      : by_(by), all_(seconds * static_cast<double>(trace.ranks.size())) {
    for (const auto& [family, times] : times_by_family(trace, by))
      if (family != no_family) {
        kinds_.push_back({family_name(family), family_look(family), 0, {}});
        for (const auto& part : times) add(family, part);
      } else {
        add_others(times);
      }
  }
  std::vector<TimelineKind>& kinds() { return kinds_; }
  int of(const TraceEvent& event) const {
    if (event.kind == EventKind::wait) return -1;
    return numbers_.find({family_of(event, by_), std::string(event.name)})->second;
  }

 private:
  // To the last kind.
  void add(int family, const std::pair<std::string, double>& part) {
    TimelineKind& kind = kinds_.back();
    const double share = all_ > 0 ? part.second / all_ : 0;
    kind.share += share;
    kind.parts.emplace_back(part.first, share);
    numbers_[{family, part.first}] = static_cast<int>(kinds_.size()) - 1;
  }
  void add_others(const NamedTimes& times) {
    for (size_t i = 0; i < times.size(); ++i) {
      const bool is_rest = i + 1 >= other_looks.size(), joins = i >= other_looks.size();
      if (!joins) kinds_.push_back({times[i].first, other_looks[i], 0, {}});
      if (is_rest && times.size() > other_looks.size()) kinds_.back().name = "other operations";
      add(no_family, times[i]);
    }
  }

  TimelineBy by_;
  double all_;
  std::vector<TimelineKind> kinds_;
  std::map<std::pair<int, std::string>, int> numbers_;  // by family and name
};

// By rank and event: is it on the critical path?
inline std::vector<std::vector<bool>> critical_events(const Trace& trace) {
  std::vector<std::vector<bool>> critical;
  for (const std::vector<TraceEvent>& events : trace.ranks) critical.emplace_back(events.size());
  for (const EventId id : critical_path(trace))
    critical[static_cast<size_t>(id.rank)][static_cast<size_t>(id.index)] = true;
  return critical;
}

inline void add_rows(Timeline& to, const Trace& trace, int rank, const KindsOf& kinds,
                     const std::vector<bool>& critical) {
  std::map<int, TimelineRow> rows;  // by order of the lane
  const std::map<int, std::string> names = lane_names(trace, rank);
  const std::vector<TraceEvent>& events = trace.ranks[static_cast<size_t>(rank)];
  for (size_t i = 0; i < events.size(); ++i) {
    const TraceEvent& event = events[i];
    TimelineRow& row = rows[lane_order(event.lane)];
    if (row.bars.empty()) row = {rank, event.lane, names.at(event.lane), {}};
    row.bars.push_back(
        {event.begin, event.end, kinds.of(event), critical[i], {rank, static_cast<int>(i)}});
  }
  for (auto& [order, row] : rows) to.rows.push_back(std::move(row));
}
}  // namespace detail

YOTTA_INLINE Timeline make_timeline(const Trace& trace, int most_ranks, TimelineBy by) {
  Timeline made;
  for (const std::vector<TraceEvent>& events : trace.ranks)
    for (const TraceEvent& event : events) made.seconds = std::max(made.seconds, event.end);
  detail::KindsOf kinds(trace, by, made.seconds);
  const std::vector<std::vector<bool>> critical = detail::critical_events(trace);
  const int ranks = static_cast<int>(trace.ranks.size()), shown = std::min(ranks, most_ranks);
  made.ranks_left_out = ranks - shown;
  for (int rank = 0; rank < shown; ++rank)
    detail::add_rows(made, trace, rank, kinds, critical[static_cast<size_t>(rank)]);
  made.kinds = std::move(kinds.kinds());
  if (shown > 0) made.steps = step_marks(trace, 0), made.passes = pass_marks(trace, 0);
  return made;
}

namespace detail {
// A rank's ops in runs of the same mark(event); ops without one are skipped.
template <class Mark>
std::vector<TimelineMark> marks(const Trace& trace, int rank, Mark mark) {
  std::vector<TimelineMark> all;
  int64_t step = -1;
  for (const TraceEvent& event : trace.ranks[static_cast<size_t>(rank)]) {
    if (event.kind != EventKind::op) continue;
    const std::optional<TimelineMark> made = mark(event);
    if (!made) continue;
    const bool goes_on = !all.empty() && all.back().name == made->name && step == event.step;
    if (!goes_on) all.push_back(*made);
    all.back().end = event.end;
    step = event.step;
  }
  return all;
}
}  // namespace detail

YOTTA_INLINE std::vector<TimelineMark> step_marks(const Trace& trace, int rank) {
  return detail::marks(trace, rank, [](const TraceEvent& op) -> std::optional<TimelineMark> {
    if (op.step < 0) return std::nullopt;
    return TimelineMark{op.begin, op.end, fmt::format("step {}", op.step), std::to_string(op.step)};
  });
}

YOTTA_INLINE std::vector<TimelineMark> pass_marks(const Trace& trace, int rank) {
  return detail::marks(trace, rank, [](const TraceEvent& op) -> std::optional<TimelineMark> {
    if (op.phase == Phase::none) return std::nullopt;
    if (op.phase == Phase::forward) return TimelineMark{op.begin, op.end, "forward", "F"};
    if (op.phase == Phase::optimizer) return TimelineMark{op.begin, op.end, "optimizer", "O"};
    return TimelineMark{op.begin, op.end, "backward", "B"};
  });
}

YOTTA_INLINE std::string time_text(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 1e-6) return fmt::format("{:.4g} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.4g} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.4g} ms", seconds * 1e3) : fmt::format("{:.4g} s", seconds);
}

namespace detail {
// One cell of a row of text: the kind that takes most of its time. Kind -2: nothing.
struct TextCell {
  int kind = -2;
  bool critical = false;  // at least half of that kind's time is on the critical path
};

// How long each kind takes in a cell, waits too, and how much of that is critical.
struct TextCellTimes {
  std::map<int, std::pair<double, double>> by_kind;

  // A wait beside a message that takes as long is not shown.
  TextCell most() const {
    TextCell cell;
    double longest = 0;
    for (const auto& [kind, time] : by_kind)
      if (time.first > longest || (cell.kind == -1 && time.first >= longest * (1 - 1e-9))) {
        longest = time.first;
        cell = {kind, time.second > 0 && 2 * time.second >= time.first};
      }
    return cell;
  }
};

inline std::vector<TextCell> text_cells(const TimelineRow& row, double seconds, int width) {
  std::vector<TextCellTimes> times(static_cast<size_t>(width));
  const double each = seconds / width;
  for (const TimelineBar& bar : row.bars) {
    const int first = std::clamp(static_cast<int>(bar.begin / each), 0, width - 1);
    for (int i = first; i < width && i * each < bar.end; ++i) {
      const double inside = std::min(bar.end, (i + 1) * each) - std::max(bar.begin, i * each);
      auto& [all, critical] = times[static_cast<size_t>(i)].by_kind[bar.kind];
      all += inside;
      critical += bar.critical ? inside : 0;
    }
  }
  std::vector<TextCell> cells;
  for (const TextCellTimes& cell : times) cells.push_back(cell.most());
  return cells;
}

inline char sign_of(const TimelineKind& kind, bool capital) {
  return static_cast<char>(capital ? kind.look.sign : kind.look.sign - 'A' + 'a');
}

// A sign on its colour, as a terminal of 24 bits understands it.
inline std::string painted(char sign, int color_number) {
  const char* color = timeline_color(color_number);
  const auto part = [&](int i) { return std::stoi(std::string(color + i, 2), nullptr, 16); };
  return fmt::format("\033[30;48;2;{};{};{}m{}\033[0m", part(1), part(3), part(5), sign);
}
inline std::string shown_sign(const TimelineKind& kind, bool capital, bool color) {
  const char sign = sign_of(kind, capital);
  return color ? painted(sign, kind.look.color) : std::string(1, sign);
}

inline std::string row_text(const Timeline& timeline, const TimelineRow& row, int width,
                            bool color) {
  std::string line;
  for (const TextCell cell : text_cells(row, timeline.seconds, width))
    line += cell.kind == -2 ? " "
            : cell.kind == -1
                ? "·"
                : shown_sign(timeline.kinds[static_cast<size_t>(cell.kind)], cell.critical, color);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// Marks below the axis, each as long as there is room for it: "|forward  |backward |O".
inline std::string marks_text(const std::vector<TimelineMark>& marks, double seconds, int width) {
  std::string line(static_cast<size_t>(width), ' ');
  const auto cell = [&](double time) {
    return std::clamp(static_cast<int>(time / seconds * width), 0, width - 1);
  };
  for (size_t i = 0; i < marks.size(); ++i) {
    const int begin = cell(marks[i].begin);
    const int end = i + 1 < marks.size() ? cell(marks[i + 1].begin) : width;
    if (end <= begin) continue;
    const auto room = static_cast<size_t>(end - begin);
    for (const std::string& text : {"|" + marks[i].name, "|" + marks[i].brief, marks[i].brief})
      if (text.size() <= room) {
        line.replace(static_cast<size_t>(begin), text.size(), text);
        break;
      }
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

// "F  forward   36.6%  linear 20.1, gelu 9.0, 5 more": the largest parts of a kind.
inline std::string legend_line(const TimelineKind& kind, bool color) {
  std::string line = fmt::format("    {}  {:<28} {:5.1f}%", shown_sign(kind, true, color),
                                 kind.name, 100 * kind.share);
  if (kind.parts.size() == 1)
    return line + (kind.parts[0].first == kind.name ? "" : "  " + kind.parts[0].first) + "\n";
  for (size_t i = 0; i < 2; ++i)
    line += fmt::format("{} {} {:.1f}", i > 0 ? "," : " ", kind.parts[i].first,
                        100 * kind.parts[i].second);
  if (kind.parts.size() > 2) line += fmt::format(", {} more", kind.parts.size() - 2);
  return line + "\n";
}
}  // namespace detail

YOTTA_INLINE std::string timeline_text(const Timeline& timeline, int width, bool color) {
  std::string text;
  int rank = -1;
  size_t wide = 16;  // the column of lanes
  for (const TimelineRow& row : timeline.rows) wide = std::max(wide, row.name.size());
  const auto add = [&](const std::string& first, const std::string& second,
                       const std::string& line) {
    text += fmt::format("{:<8} {:<{}} {}", first, second, wide, line);
  };
  for (const TimelineRow& row : timeline.rows) {
    add(row.rank != rank ? fmt::format("rank {}", row.rank) : "", row.name,
        detail::row_text(timeline, row, width, color));
    rank = row.rank;
  }
  if (timeline.ranks_left_out > 0)
    text += fmt::format("... and {} more ranks\n", timeline.ranks_left_out);
  add("", "", fmt::format("0{:>{}}\n", time_text(timeline.seconds), width - 1));
  if (!timeline.steps.empty())
    add("", "steps of rank 0", detail::marks_text(timeline.steps, timeline.seconds, width));
  if (!timeline.passes.empty())
    add("", "passes of rank 0", detail::marks_text(timeline.passes, timeline.seconds, width));
  for (const TimelineKind& kind : timeline.kinds) text += detail::legend_line(kind, color);
  return text + "    %: of all ranks' time   CAPITAL: on the critical path   ·: waiting\n";
}

// What a rank waits for of its own is under way: a message that it has sent, or that another rank
// needs before it can answer; messages that come one after the other; sums of what came.
YOTTA_INLINE std::string wait_words(const WaitedFor& wait, int rank) {
  const bool own = wait.rank == rank;
  const std::string other = fmt::format("rank {}", wait.rank);
  switch (wait.kind) {
    case EventKind::send: return own ? "its own message to arrive" : other + " to send";
    case EventKind::recv: return own ? "messages that queued at its port" : other + " to receive";
    case EventKind::reduce: return own ? "its own sums" : other + " to add up";
    case EventKind::op:
    case EventKind::wait: break;
  }
  return other + " to compute";
}

YOTTA_INLINE std::string waits_text(const Trace& trace, int most_ranks) {
  const double all = seconds(trace);
  std::string text;
  for (int rank = 0; rank < std::min(most_ranks, static_cast<int>(trace.ranks.size())); ++rank) {
    const std::vector<WaitedFor> waits = waited_for(trace, rank);
    std::string line;
    for (size_t i = 0; i < std::min<size_t>(3, waits.size()); ++i)
      line += fmt::format("{} {:.1f}% for {} ({})", i > 0 ? "," : "", 100 * waits[i].seconds / all,
                          wait_words(waits[i], rank), waits[i].name);
    if (!waits.empty()) text += fmt::format("    rank {} waited{}\n", rank, line);
  }
  return text;
}

}  // namespace yotta
