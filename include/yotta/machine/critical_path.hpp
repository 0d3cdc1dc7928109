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

namespace yotta {

// The last event of a rank's own code; none if the rank has no events.
EventId last_event(const Trace& trace, int rank);

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
std::vector<EventId> critical_path(const Trace& trace);

// What rank `rank` did while another waited for it: it ran or sent `name` for so long.
struct WaitedFor {
  int rank;
  EventKind kind;
  std::string_view name;
  double seconds;
};

// What rank `rank` waited for on its compute lane, the longest first. (A rank whose code ends
// before the others' waits no more: that time is seconds(trace) - seconds(trace, rank).)
std::vector<WaitedFor> waited_for(const Trace& trace, int rank);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/impl/critical_path.ipp"
#endif
