// The bodies of machine/pictures/timeline.hpp.
#pragma once

#include "yotta/machine/pictures/timeline.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "yotta/machine/critical_path.hpp"

namespace yotta {

namespace detail {
// Compute first, then communicators in the order in which they were made, then peers.
constexpr int lane_order(int lane) { return lane <= 0 ? -lane : lane + (1 << 20); }

// Names of events: those of `first`, then the others by the time they take; a message counts once,
// where it arrives.
inline std::vector<std::pair<double, std::string>> names_by_time(
    const Trace& trace, const std::vector<std::string>& first) {
  std::map<std::string_view, double> times;
  for (const std::string& name : first) times[name] = 0;
  for (const std::vector<TraceEvent>& events : trace.ranks)
    for (const TraceEvent& event : events)
      if (event.kind != EventKind::wait)
        times[event.name] += event.kind == EventKind::send ? 0 : event.seconds();
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [name, time] : times) sorted.emplace_back(time, name);
  const auto place = [&](const std::string& name) {
    return std::find(first.begin(), first.end(), name) - first.begin();
  };
  std::sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) {
    if (const auto x = place(a.second), y = place(b.second); x != y) return x < y;
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  return sorted;
}

// Is a row's name this one, or this one with a number ("dp #2")? Two communicators may be called
// the same.
inline bool is_numbered(std::string_view name, std::string_view plain) {
  return name == plain || (name.starts_with(plain) && name.substr(plain.size()).starts_with(" #"));
}

// By rank and event: is it on the critical path?
inline std::vector<std::vector<bool>> critical_events(const Trace& trace) {
  std::vector<std::vector<bool>> critical;
  for (const std::vector<TraceEvent>& events : trace.ranks) critical.emplace_back(events.size());
  for (const EventId id : critical_path(trace))
    critical[static_cast<size_t>(id.rank)][static_cast<size_t>(id.index)] = true;
  return critical;
}
}  // namespace detail

YOTTA_INLINE Timeline make_timeline(const Trace& trace, int most_ranks,
                                    const std::vector<std::string>& first) {
  Timeline made;
  for (const std::vector<TraceEvent>& events : trace.ranks)
    for (const TraceEvent& event : events) made.seconds = std::max(made.seconds, event.end);
  std::map<std::string_view, int> numbers;
  const std::vector<std::pair<double, std::string>> names = detail::names_by_time(trace, first);
  const double all = made.seconds * static_cast<double>(trace.ranks.size());
  for (const auto& [time, name] : names) {
    made.names.push_back(name);
    made.shares.push_back(all > 0 ? time / all : 0);
  }
  for (size_t i = 0; i < names.size(); ++i) numbers[names[i].second] = static_cast<int>(i);
  const std::vector<std::vector<bool>> critical = detail::critical_events(trace);
  const int ranks = static_cast<int>(trace.ranks.size()), shown = std::min(ranks, most_ranks);
  made.ranks_left_out = ranks - shown;
  for (int rank = 0; rank < shown; ++rank) {
    std::map<int, TimelineRow> rows;  // by order of the lane
    const std::vector<TraceEvent>& events = trace.ranks[static_cast<size_t>(rank)];
    for (size_t i = 0; i < events.size(); ++i) {
      const TraceEvent& event = events[i];
      TimelineRow& row = rows[detail::lane_order(event.lane)];
      if (row.bars.empty()) row = {rank, event.lane, lane_name(trace, rank, event.lane), {}};
      const int name = event.kind == EventKind::wait ? -1 : numbers[event.name];
      row.bars.push_back({event.begin,
                          event.end,
                          name,
                          critical[static_cast<size_t>(rank)][i],
                          {rank, static_cast<int>(i)}});
    }
    for (auto& [order, row] : rows) {
      const auto same = std::count_if(made.rows.begin(), made.rows.end(), [&](auto& other) {
        return other.rank == rank && detail::is_numbered(other.name, row.name);
      });
      if (same > 0) row.name += fmt::format(" #{}", same + 1);
      made.rows.push_back(std::move(row));
    }
  }
  return made;
}

YOTTA_INLINE std::string time_text(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 1e-6) return fmt::format("{:.4g} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.4g} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.4g} ms", seconds * 1e3) : fmt::format("{:.4g} s", seconds);
}

namespace detail {
// One cell of a row of text: what takes most of its time. Name -2: nothing.
struct TextCell {
  int name = -2;
  bool critical = false;
};

inline std::vector<TextCell> text_cells(const TimelineRow& row, double seconds, int width) {
  std::vector<TextCell> cells(static_cast<size_t>(width));
  std::vector<double> most(cells.size());
  const double each = seconds / width;
  for (const TimelineBar& bar : row.bars) {
    const int first = std::clamp(static_cast<int>(bar.begin / each), 0, width - 1);
    for (int i = first; i < width && i * each < bar.end; ++i) {
      const double inside = std::min(bar.end, (i + 1) * each) - std::max(bar.begin, i * each);
      const auto at = static_cast<size_t>(i);
      if (inside <= most[at] && !(inside == most[at] && bar.critical)) continue;
      most[at] = inside;
      cells[at] = {bar.name, bar.critical};
    }
  }
  return cells;
}

// The signs of operations beyond the 26 letters, small and capital: Greek and Cyrillic letters that
// look like no Latin one.
constexpr std::array<std::array<const char*, 2>, 26> more_letters = {
    {{"γ", "Γ"}, {"δ", "Δ"}, {"θ", "Θ"}, {"λ", "Λ"}, {"ξ", "Ξ"}, {"π", "Π"}, {"σ", "Σ"},
     {"φ", "Φ"}, {"ψ", "Ψ"}, {"ω", "Ω"}, {"б", "Б"}, {"д", "Д"}, {"ж", "Ж"}, {"и", "И"},
     {"л", "Л"}, {"ц", "Ц"}, {"ч", "Ч"}, {"ш", "Ш"}, {"ъ", "Ъ"}, {"ы", "Ы"}, {"э", "Э"},
     {"ю", "Ю"}, {"я", "Я"}, {"й", "Й"}, {"є", "Є"}, {"ђ", "Ђ"}}};

// One sign for each operation, a capital where it is on the critical path; '#' from the 53rd on.
inline std::string letter(int name, bool capital) {
  if (name < 26) return std::string(1, static_cast<char>((capital ? 'A' : 'a') + name));
  const auto more = static_cast<size_t>(name - 26);
  return more < more_letters.size() ? more_letters[more][capital ? 1 : 0] : "#";
}

// A letter on its colour, as a terminal of 24 bits understands it.
inline std::string painted(const std::string& letter, int name) {
  const char* color = timeline_color(name);
  const auto part = [&](int i) { return std::stoi(std::string(color + i, 2), nullptr, 16); };
  return fmt::format("\033[30;48;2;{};{};{}m{}\033[0m", part(1), part(3), part(5), letter);
}
}  // namespace detail

YOTTA_INLINE std::string timeline_text(const Timeline& timeline, int width, bool color) {
  std::string text;
  int rank = -1;
  size_t wide = 16;  // the column of lanes
  for (const TimelineRow& row : timeline.rows) wide = std::max(wide, row.name.size());
  for (const TimelineRow& row : timeline.rows) {
    text += fmt::format("{:<8} {:<{}} ", row.rank != rank ? fmt::format("rank {}", row.rank) : "",
                        row.name, wide);
    rank = row.rank;
    std::string line;
    for (const detail::TextCell cell : detail::text_cells(row, timeline.seconds, width)) {
      if (cell.name < 0) {
        line += cell.name == -1 ? "·" : " ";
        continue;
      }
      const std::string letter = detail::letter(cell.name, cell.critical);
      line += color ? detail::painted(letter, cell.name) : letter;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (timeline.ranks_left_out > 0)
    text += fmt::format("... and {} more ranks\n", timeline.ranks_left_out);
  const std::string end = time_text(timeline.seconds);
  text += fmt::format("{:<{}} 0{:>{}}\n", "", wide + 9, end, width - 1);
  for (size_t i = 0; i < timeline.names.size(); ++i) {
    const std::string letter = detail::letter(static_cast<int>(i), true);
    text += fmt::format("    {}  {:<28} {:5.1f}% of all ranks' time\n",
                        color ? detail::painted(letter, static_cast<int>(i)) : letter,
                        timeline.names[i], 100 * timeline.shares[i]);
  }
  return text + "    CAPITAL: on the critical path   ·: waiting\n";
}

namespace detail {
// "rank 2 to send (halo)"; what a rank waits for of its own is a message that has not left.
inline std::string wait_words(const WaitedFor& wait, int rank) {
  const bool computes = wait.kind == EventKind::op;
  if (wait.rank == rank && !computes) return fmt::format("its own send to end ({})", wait.name);
  return fmt::format("{} to {} ({})",
                     wait.rank == rank ? "its own work" : fmt::format("rank {}", wait.rank),
                     wait.rank == rank ? "end"
                     : computes        ? "compute"
                                       : "send",
                     wait.name);
}
}  // namespace detail

YOTTA_INLINE std::string waits_text(const Trace& trace, int most_ranks) {
  const double all = seconds(trace);
  std::string text;
  for (int rank = 0; rank < std::min(most_ranks, static_cast<int>(trace.ranks.size())); ++rank) {
    const std::vector<WaitedFor> waits = waited_for(trace, rank);
    std::string line;
    for (size_t i = 0; i < std::min<size_t>(3, waits.size()); ++i)
      line += fmt::format("{} {:.1f}% for {}", i > 0 ? "," : "", 100 * waits[i].seconds / all,
                          detail::wait_words(waits[i], rank));
    if (!waits.empty()) text += fmt::format("    rank {} waited{}\n", rank, line);
  }
  return text;
}

}  // namespace yotta
