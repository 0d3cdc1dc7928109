// Traces: what happened when on each rank, and why not earlier.
//
//     rank 0   lane  0 compute       [ matmul ][ matmul ]·····wait·····[ matmul ]
//              lane -1 world                   [send][send]      ▲
//                                              [recv][recv]──────┘ cause
//     rank 1   lane  0 compute       [ matmul          ][ matmul ]
//
// An event is a span of one lane of one rank. Its cause is the event that ended last before it could begin:
// the one before it on its lane, or the message that it had to wait for, or what a wait waited for. From the
// end of a run, causes lead back to its beginning: that is the critical path.
//
// A wait is recorded where somebody waits: on the compute lane, and inside a collective. Elsewhere a gap
// means that there was nothing to do.
//
// Lanes: 0 computes; -1, -2, ... are the rank's communicators (their collectives), -1 the world; above 0 is
// one a peer and direction. Sends and receives of one exchange lie over each other on a lane: links work
// both ways at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "yotta/core/context.hpp"

namespace yotta {

enum class EventKind : uint8_t { op, send, recv, reduce, wait };
constexpr const char* name(EventKind kind) {
  constexpr const char* names[] = {"op", "send", "recv", "reduce", "wait"};
  return names[static_cast<int>(kind)];
}

// Which event: trace.ranks[rank][index]. rank -1: none.
struct EventId {
  int rank = -1, index = -1;

  bool operator==(const EventId&) const = default;
};

struct TraceEvent {
  EventKind kind = EventKind::op;
  int lane = 0;
  double begin = 0, end = 0;  // seconds since the start of the run
  std::string_view name;      // of the op, or the label of the message; lives for ever
  EventId cause;              // what had to end before this could begin
  int peer = -1;              // world rank at the other end of a message, or an image (first_image)
  int64_t bytes = 0;          // of the message; moved by the op
  double flops = 0;           // of the op
  EventId also = {};          // what it needed too, but was there earlier

  double seconds() const { return end - begin; }
  bool operator==(const TraceEvent&) const = default;
};

// The communicators whose messages a lane of a rank carried: {-2: {"tp"}}.
using LaneNames = std::map<int, std::set<std::string_view>>;

struct Trace {
  std::vector<std::vector<TraceEvent>> ranks;  // by rank; in order of begin, then lane
  std::vector<LaneNames> lanes = {};           // by rank; may be shorter: none is known

  const TraceEvent& at(EventId id) const {
    return ranks[static_cast<size_t>(id.rank)][static_cast<size_t>(id.index)];
  }
  bool operator==(const Trace&) const = default;
};

// "rank 3", or of a mirrored rank "the image on chip 3".
inline std::string peer_name(int peer) {
  if (peer < first_image) return fmt::format("rank {}", peer);
  return fmt::format("the image on chip {}", peer - first_image);
}

// "compute", "world", "tp", "to rank 3", "from rank 3 (pp)". A communicator of which no name is known is
// "communicator 2".
inline std::string lane_name(const Trace& trace, int rank, int lane) {
  if (lane == compute_lane) return "compute";
  std::string names;
  if (const auto r = static_cast<size_t>(rank); r < trace.lanes.size())
    if (const auto known = trace.lanes[r].find(lane); known != trace.lanes[r].end())
      for (const std::string_view name : known->second)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  if (lane < 0 && !names.empty()) return names;
  if (lane < 0) return lane == -1 ? "world" : fmt::format("communicator {}", -lane);
  if (!names.empty() && names != "world")
    names = fmt::format(" ({})", names);
  else
    names.clear();
  return fmt::format("{} {}{}", lane % 2 == 1 ? "to" : "from", peer_name((lane - 1) / 2), names);
}

namespace detail {
// Causes follow their events: place[rank][old index] is the new one; -1: gone.
inline void renumber(Trace& trace, const std::vector<std::vector<int>>& place) {
  for (std::vector<TraceEvent>& events : trace.ranks)
    for (TraceEvent& event : events)
      for (EventId* id : {&event.cause, &event.also}) {
        if (id->rank < 0) continue;
        id->index = place[static_cast<size_t>(id->rank)][static_cast<size_t>(id->index)];
        if (id->index < 0) *id = {};
      }
}
}  // namespace detail

// What was recorded, in order of time, then lane, with causes renumbered. (It is recorded in an order that
// depends on threads.)
inline Trace collect_trace(const Trace& recorded) {
  Trace trace;
  trace.lanes = recorded.lanes;
  std::vector<std::vector<int>> place(recorded.ranks.size());  // by rank: the new index of an event
  for (size_t rank = 0; rank < recorded.ranks.size(); ++rank) {
    const std::vector<TraceEvent>& events = recorded.ranks[rank];
    std::vector<int> order(events.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      const TraceEvent &x = events[static_cast<size_t>(a)], &y = events[static_cast<size_t>(b)];
      if (x.begin != y.begin) return x.begin < y.begin;
      return x.lane != y.lane ? x.lane > y.lane : a < b;
    });
    place[rank].resize(events.size());
    std::vector<TraceEvent>& sorted = trace.ranks.emplace_back();
    for (const int i : order) {
      place[rank][static_cast<size_t>(i)] = static_cast<int>(sorted.size());
      sorted.push_back(events[static_cast<size_t>(i)]);
    }
  }
  detail::renumber(trace, place);
  return trace;
}

// What happened between two times, counted from the first. Events that were going on at either end are cut
// there; what had ended before is no cause any more.
inline Trace excerpt(const Trace& trace, double begin, double end) {
  Trace found;
  found.lanes = trace.lanes;
  std::vector<std::vector<int>> place(trace.ranks.size());
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    std::vector<TraceEvent>& events = found.ranks.emplace_back();
    for (TraceEvent event : trace.ranks[rank]) {
      const bool inside = event.end > begin && event.begin < end;
      place[rank].push_back(inside ? static_cast<int>(events.size()) : -1);
      if (!inside) continue;
      event.begin = std::max(event.begin, begin) - begin;
      event.end = std::min(event.end, end) - begin;
      events.push_back(event);
    }
  }
  detail::renumber(found, place);
  return collect_trace(found);
}

// When a rank's own code ended; when the last one did.
inline double seconds(const Trace& trace, int rank) {
  double last = 0;
  for (const TraceEvent& event : trace.ranks[static_cast<size_t>(rank)])
    if (event.lane == compute_lane) last = std::max(last, event.end);
  return last;
}
inline double seconds(const Trace& trace) {
  double last = 0;
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank)
    last = std::max(last, seconds(trace, static_cast<int>(rank)));
  return last;
}

// Seconds in which a rank computed.
inline double busy_seconds(const Trace& trace, int rank) {
  double sum = 0;
  for (const TraceEvent& event : trace.ranks[static_cast<size_t>(rank)])
    if (event.kind == EventKind::op) sum += event.seconds();
  return sum;
}
// The share of the whole run, until the last rank ended, in which a rank computed, and did not.
inline double busy_share(const Trace& trace, int rank) {
  const double all = seconds(trace);
  return all > 0 ? busy_seconds(trace, rank) / all : 1;
}
inline double idle_share(const Trace& trace, int rank) { return 1 - busy_share(trace, rank); }

}  // namespace yotta
