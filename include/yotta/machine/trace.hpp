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
  Phase phase = Phase::none;  // of the step that ran the op
  int64_t step = -1;          // its number; -1: none
  Communication communication = Communication::none;  // that the message is a part of

  double seconds() const { return end - begin; }
  bool operator==(const TraceEvent&) const = default;
};

// An op, as an event of the compute lane; its phase and step are the rank's (core/context.hpp).
// `name`: the cost's, kept.
TraceEvent op_event(const OpCost& cost, std::string_view name, double begin, double end,
                    EventId cause);
// A message that leaves or arrives. `name`: its label, kept.
TraceEvent message_event(EventKind kind, const MessageCost& message, std::string_view name,
                         double begin, double end, EventId cause);

// The communicators whose messages each lane of a rank carried: {-2: {"tp"}}.
using LaneNames = std::map<int, std::set<std::string_view>>;

struct Trace {
  std::vector<std::vector<TraceEvent>> ranks;  // by rank; in order of begin, then lane
  std::vector<LaneNames> lanes = {};           // by rank; empty if no names are known

  const TraceEvent& at(EventId id) const {
    return ranks[static_cast<size_t>(id.rank)][static_cast<size_t>(id.index)];
  }
  bool operator==(const Trace&) const;
};

// "rank 3", or for a mirrored rank "the image on chip 3".
std::string peer_name(int peer);

// "compute", "world", "tp", "to rank 3", "from rank 3 (pp)". A communicator whose name is not known
// is "communicator 2".
std::string lane_name(const Trace& trace, int rank, int lane);

// The names of the lanes on which a rank has events, no two alike. Communicators of one name are
// told apart by what they carried, most bytes first: "dp: ddp.gradients", "dp: loss". Those that
// carried the same are numbered: "dp", "dp #2".
std::map<int, std::string> lane_names(const Trace& trace, int rank);

// The recorded events in order of time, then lane, with causes renumbered. (The order in which
// events are recorded depends on threads.)
Trace collect_trace(Trace recorded);

// The trace without some events. What had one of them as a cause has that one's cause instead.
Trace without(Trace trace, bool (*gone)(const TraceEvent&));

// What happened between two times; times count from `begin`. Events that cross either end are cut
// there. An event that ended before `begin` is no longer a cause.
Trace excerpt(const Trace& trace, double begin, double end);

// When a rank's own code ended; when the last rank's did.
double seconds(const Trace& trace, int rank);
double seconds(const Trace& trace);

// Seconds in which a rank computed.
double busy_seconds(const Trace& trace, int rank);
// The share of the whole run, until the last rank ended, in which a rank computed, and did not.
double busy_share(const Trace& trace, int rank);
double idle_share(const Trace& trace, int rank);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/impl/trace.ipp"
#endif
