// The critical path of a run, and what a rank waited for.
//
//     rank 0   [ matmul ][ matmul ]·············[ matmul ]     critical: rank 1's two matmuls, the
//     rank 1   [ matmul          ][ matmul ]─┐  ▲              message, rank 0's last matmul
//                                            └──┘ message
//
// An event begins when its cause ends. So the causes, followed from the end of a run to its
// beginning, leave no gap, and their times add up to the time of the run. To make the run shorter,
// one of these events must become shorter; nothing else helps. What a rank waited for is found in
// the same way: the part of that chain that lies within the wait is what the other ranks did
// meanwhile.
//
// Cost: one step per event of the chain. A message is in the chain once, as its send.
// Reference: Yang & Miller, "Critical path analysis for the execution of parallel and distributed
// programs", 1988.
#pragma once

#include "yotta/machine/trace.hpp"

#if YOTTA_BODIES_OF(machine)
#include <tuple>
#endif  // YOTTA_BODIES

namespace yotta {

// The last event of a rank's own code; none if the rank has no events.
YOTTA_API EventId last_event(const Trace& trace, int rank);

// Follows causes back from `id` and calls visit(id, event) for each that took time itself: not for
// waits, and once per message. Stops when visit returns false.
template <class Visit>
void walk_back(const Trace& trace, EventId id, Visit visit) {
  for (; id.rank >= 0; id = trace.at(id).cause) {
    const TraceEvent& event = trace.at(id);
    if (event.kind == EventKind::wait) continue;
    const EventId cause = event.cause;  // of a recv that did not queue: its send, the same span
    if (event.kind == EventKind::recv && cause.rank >= 0 && trace.at(cause).end == event.end)
      continue;
    if (!visit(id, event)) return;
  }
}

// The events that the time of the run consists of, from the first to the last.
YOTTA_API std::vector<EventId> critical_path(const Trace& trace);

// What rank `rank` did while another waited for it: it ran or sent `name` for so long.
struct WaitedFor {
  int rank;
  EventKind kind;
  std::string_view name;
  double seconds;
};

// What rank `rank` waited for on its compute lane, the longest first. (A rank whose code ends
// before the others' waits no more: that time is seconds(trace) - seconds(trace, rank).)
YOTTA_API std::vector<WaitedFor> waited_for(const Trace& trace, int rank);

#if YOTTA_BODIES_OF(machine)
EventId last_event(const Trace& trace, int rank) {
  EventId last;
  const std::vector<TraceEvent>& events = trace.ranks[static_cast<size_t>(rank)];
  for (size_t i = 0; i < events.size(); ++i)
    if (events[i].lane == compute_lane && (last.rank < 0 || events[i].end >= trace.at(last).end))
      last = {rank, static_cast<int>(i)};
  return last;
}

std::vector<EventId> critical_path(const Trace& trace) {
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

std::vector<WaitedFor> waited_for(const Trace& trace, int rank) {
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
#endif  // YOTTA_BODIES

}  // namespace yotta
