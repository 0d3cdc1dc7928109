// The bodies of machine/critical_path.hpp.
#pragma once

#include "yotta/machine/critical_path.hpp"

#include <tuple>

namespace yotta {

YOTTA_INLINE EventId last_event(const Trace& trace, int rank) {
  EventId last;
  const std::vector<TraceEvent>& events = trace.ranks[static_cast<size_t>(rank)];
  for (size_t i = 0; i < events.size(); ++i)
    if (events[i].lane == compute_lane && (last.rank < 0 || events[i].end >= trace.at(last).end))
      last = {rank, static_cast<int>(i)};
  return last;
}

YOTTA_INLINE std::vector<EventId> critical_path(const Trace& trace) {
  EventId last;
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    const EventId end = last_event(trace, static_cast<int>(rank));
    if (end.rank < 0) continue;
    if (last.rank < 0 || trace.at(end).end > trace.at(last).end) last = end;
  }
  std::vector<EventId> path;
  walk_back(trace, last, [&](EventId id, const TraceEvent&) {
    path.push_back(id);
    return true;
  });
  std::reverse(path.begin(), path.end());
  return path;
}

namespace detail {
// Adds to the entry of the same rank, kind and name, or makes one.
inline void add_wait(std::vector<WaitedFor>& all, const WaitedFor& part) {
  for (WaitedFor& each : all)
    if (each.rank == part.rank && each.kind == part.kind && each.name == part.name) {
      each.seconds += part.seconds;
      return;
    }
  all.push_back(part);
}
}  // namespace detail

YOTTA_INLINE std::vector<WaitedFor> waited_for(const Trace& trace, int rank) {
  std::vector<WaitedFor> all;
  for (const TraceEvent& wait : trace.ranks[static_cast<size_t>(rank)]) {
    if (wait.kind != EventKind::wait || wait.lane != compute_lane) continue;
    walk_back(trace, wait.cause, [&](EventId id, const TraceEvent& event) {
      const double begin = std::max(wait.begin, event.begin), end = std::min(wait.end, event.end);
      if (end > begin) detail::add_wait(all, {id.rank, event.kind, event.name, end - begin});
      return event.begin > wait.begin;
    });
  }
  std::sort(all.begin(), all.end(), [](const WaitedFor& a, const WaitedFor& b) {
    if (a.seconds != b.seconds) return a.seconds > b.seconds;
    return std::tie(a.rank, a.kind, a.name) < std::tie(b.rank, b.kind, b.name);
  });
  return all;
}

}  // namespace yotta
