// Traces: what happened when on each rank, and why not earlier.
//
//     rank 0   lane  0 compute       [ matmul ][ matmul ]·····wait·····[ matmul ]
//              lane -1 world                   [send][send]      ▲
//                                              [recv][recv]──────┘ cause
//     rank 1   lane  0 compute       [ matmul          ][ matmul ]
//
// An event is a span of time on one lane of one rank. Its cause is the event that ended last before
// it could begin: the event before it on its lane, a message that it needed, or what a wait waited
// for. Causes lead from the end of a run back to its beginning: that is the critical path
// (critical_path.hpp).
//
// A wait is recorded on the compute lane and inside a collective. A gap on any other lane means
// that there was nothing to do.
//
// Lanes: 0 computes. -1, -2, ... are the rank's communicators, for their collectives; -1 is the
// world. Lanes above 0 carry single messages, one lane per peer and direction. The sends and
// receives of one exchange overlap on a lane: a link works in both directions at once.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "yotta/core/context.hpp"

#if YOTTA_BODIES_OF(machine)
#include <algorithm>
#include <numeric>
#endif  // YOTTA_BODIES

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

// In a mirrored run one rank stands for several chips, its images (comm/engine/mirrored.hpp). A
// peer of this number or above is an image, on chip peer - first_image.
inline constexpr int first_image = 1 << 24;

struct TraceEvent {
  EventKind kind = EventKind::op;
  int lane = 0;
  double begin = 0, end = 0;  // seconds since the start of the run
  std::string_view name;      // of the op, or the label of the message; kept (core/context.hpp)
  EventId cause;              // what had to end before this could begin
  int peer = -1;              // world rank at the other end of a message, or an image (first_image)
  int64_t bytes = 0;          // of the message; moved by the op
  double flops = 0;           // of the op
  EventId also = {};          // a second event that it needed, which ended earlier
  bool follows = false;       // a recv behind another one of its exchange, by the same port
  DType dtype = DType::f32;   // of the op

  double seconds() const { return end - begin; }
  bool operator==(const TraceEvent&) const = default;
};

// An op, as an event of the compute lane. `name`: the cost's, kept.
YOTTA_API TraceEvent op_event(const OpCost& cost, std::string_view name, double begin, double end,
                              EventId cause);

// The communicators whose messages each lane of a rank carried: {-2: {"tp"}}.
using LaneNames = std::map<int, std::set<std::string_view>>;

struct Trace {
  std::vector<std::vector<TraceEvent>> ranks;  // by rank; in order of begin, then lane
  std::vector<LaneNames> lanes = {};           // by rank; empty if no names are known

  const TraceEvent& at(EventId id) const {
    return ranks[static_cast<size_t>(id.rank)][static_cast<size_t>(id.index)];
  }
  YOTTA_API bool operator==(const Trace&) const;
};

// "rank 3", or for a mirrored rank "the image on chip 3".
YOTTA_API std::string peer_name(int peer);

// "compute", "world", "tp", "to rank 3", "from rank 3 (pp)". A communicator whose name is not known
// is "communicator 2".
YOTTA_API std::string lane_name(const Trace& trace, int rank, int lane);

// The recorded events in order of time, then lane, with causes renumbered. (The order in which
// events are recorded depends on threads.)
YOTTA_API Trace collect_trace(Trace recorded);

// The trace without some events. What had one of them as a cause has that one's cause instead.
YOTTA_API Trace without(Trace trace, bool (*gone)(const TraceEvent&));

// What happened between two times; times count from `begin`. Events that cross either end are cut
// there. An event that ended before `begin` is no longer a cause.
YOTTA_API Trace excerpt(const Trace& trace, double begin, double end);

// When a rank's own code ended; when the last rank's did.
YOTTA_API double seconds(const Trace& trace, int rank);
YOTTA_API double seconds(const Trace& trace);

// Seconds in which a rank computed.
YOTTA_API double busy_seconds(const Trace& trace, int rank);
// The share of the whole run, until the last rank ended, in which a rank computed, and did not.
YOTTA_API double busy_share(const Trace& trace, int rank);
YOTTA_API double idle_share(const Trace& trace, int rank);

#if YOTTA_BODIES_OF(machine)
bool Trace::operator==(const Trace& other) const {
  return ranks == other.ranks && lanes == other.lanes;
}

TraceEvent op_event(const OpCost& cost, std::string_view name, double begin, double end,
                    EventId cause) {
  TraceEvent event{EventKind::op, compute_lane, begin, end, name, cause};
  event.bytes = static_cast<int64_t>(cost.bytes_read + cost.bytes_written);
  event.flops = cost.flops;
  event.dtype = cost.dtype;
  return event;
}

std::string peer_name(int peer) {
  if (peer < first_image) return fmt::format("rank {}", peer);
  return fmt::format("the image on chip {}", peer - first_image);
}

namespace detail {
// "tp"; "pp, world" if a lane carried the messages of both; empty if none is known.
inline std::string communicator_names(const Trace& trace, int rank, int lane) {
  std::string names;
  if (static_cast<size_t>(rank) >= trace.lanes.size()) return names;
  const LaneNames& lanes = trace.lanes[static_cast<size_t>(rank)];
  const auto found = lanes.find(lane);
  if (found == lanes.end()) return names;
  for (const std::string_view name : found->second)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  return names;
}
}  // namespace detail

std::string lane_name(const Trace& trace, int rank, int lane) {
  if (lane == compute_lane) return "compute";
  const std::string names = detail::communicator_names(trace, rank, lane);
  if (lane < 0 && !names.empty()) return names;
  if (lane < 0) return lane == -1 ? "world" : fmt::format("communicator {}", -lane);
  const bool is_world = names.empty() || names == "world";
  return fmt::format("{} {}{}", lane % 2 == 1 ? "to" : "from", peer_name((lane - 1) / 2),
                     is_world ? "" : fmt::format(" ({})", names));
}

namespace detail {
// Causes follow their events: place[rank][old index] is the new index; -1: the event is gone.
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

Trace collect_trace(Trace trace) {
  std::vector<std::vector<int>> place(trace.ranks.size());  // by rank: an event's new index
  std::vector<TraceEvent> sorted;                           // of one rank after the other
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    std::vector<TraceEvent>& events = trace.ranks[rank];
    std::vector<int> order(events.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      const TraceEvent &x = events[static_cast<size_t>(a)], &y = events[static_cast<size_t>(b)];
      return x.begin != y.begin ? x.begin < y.begin : x.lane > y.lane;
    });
    place[rank].resize(events.size());
    sorted.clear();
    sorted.reserve(events.size());
    for (const int i : order) {
      place[rank][static_cast<size_t>(i)] = static_cast<int>(sorted.size());
      sorted.push_back(events[static_cast<size_t>(i)]);
    }
    events.swap(sorted);
  }
  detail::renumber(trace, place);
  return trace;
}

Trace without(Trace trace, bool (*gone)(const TraceEvent&)) {
  for (std::vector<TraceEvent>& events : trace.ranks)
    for (TraceEvent& event : events)
      for (EventId* id : {&event.cause, &event.also})
        while (id->rank >= 0 && gone(trace.at(*id))) *id = trace.at(*id).cause;
  std::vector<std::vector<int>> place(trace.ranks.size());
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    int left = 0;
    for (const TraceEvent& event : trace.ranks[rank])
      place[rank].push_back(gone(event) ? -1 : left++);
    std::erase_if(trace.ranks[rank], gone);
  }
  detail::renumber(trace, place);
  return trace;
}

Trace excerpt(const Trace& trace, double begin, double end) {
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
  return collect_trace(std::move(found));
}

double seconds(const Trace& trace, int rank) {
  double last = 0;
  for (const TraceEvent& event : trace.ranks[static_cast<size_t>(rank)])
    if (event.lane == compute_lane) last = std::max(last, event.end);
  return last;
}
double seconds(const Trace& trace) {
  double last = 0;
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank)
    last = std::max(last, seconds(trace, static_cast<int>(rank)));
  return last;
}

double busy_seconds(const Trace& trace, int rank) {
  double sum = 0;
  for (const TraceEvent& event : trace.ranks[static_cast<size_t>(rank)])
    if (event.kind == EventKind::op) sum += event.seconds();
  return sum;
}
double busy_share(const Trace& trace, int rank) {
  const double all = seconds(trace);
  return all > 0 ? busy_seconds(trace, rank) / all : 1;
}
double idle_share(const Trace& trace, int rank) { return 1 - busy_share(trace, rank); }
#endif  // YOTTA_BODIES

}  // namespace yotta
