// The bodies of machine/trace.hpp.
#pragma once

#include "yotta/machine/trace.hpp"

#include <algorithm>
#include <numeric>

namespace yotta {

YOTTA_INLINE bool Trace::operator==(const Trace& other) const {
  return ranks == other.ranks && lanes == other.lanes;
}

YOTTA_INLINE TraceEvent op_event(const OpCost& cost, std::string_view name, double begin,
                                 double end, EventId cause) {
  TraceEvent event{EventKind::op, compute_lane, begin, end, name, cause};
  event.bytes = static_cast<int64_t>(cost.bytes_read + cost.bytes_written);
  event.flops = cost.flops;
  event.dtype = cost.dtype;
  event.phase = context().phase;
  event.step = context().step;
  return event;
}

YOTTA_INLINE TraceEvent message_event(EventKind kind, const MessageCost& message,
                                      std::string_view name, double begin, double end,
                                      EventId cause) {
  TraceEvent event{kind, message.lane, begin, end, name, cause, message.peer, message.bytes};
  event.communication = message.communication;
  return event;
}

YOTTA_INLINE std::string peer_name(int peer) {
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

YOTTA_INLINE std::string lane_name(const Trace& trace, int rank, int lane) {
  if (lane == compute_lane) return "compute";
  const std::string names = detail::communicator_names(trace, rank, lane);
  if (lane < 0 && !names.empty()) return names;
  if (lane < 0) return lane == -1 ? "world" : fmt::format("communicator {}", -lane);
  const bool is_world = names.empty() || names == "world";
  return fmt::format("{} {}{}", lane % 2 == 1 ? "to" : "from", peer_name((lane - 1) / 2),
                     is_world ? "" : fmt::format(" ({})", names));
}

namespace detail {
// What a lane carried, by label, most bytes first: "ddp.gradients, loss, 2 more".
inline std::string carried(const std::map<std::string_view, int64_t>& bytes) {
  std::vector<std::pair<int64_t, std::string_view>> sorted;
  for (const auto& [label, sum] : bytes) sorted.emplace_back(-sum, label);
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(2, sorted.size()); ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", sorted[i].second);
  return sorted.size() > 2 ? text + fmt::format(", {} more", sorted.size() - 2) : text;
}

// Appends to each name that others have too what more() says of its lane.
template <class More>
void tell_apart(std::map<int, std::string>& names, More more) {
  std::map<std::string, int> count;
  for (const auto& [lane, name] : names) ++count[name];
  for (auto& [lane, name] : names)
    if (count[name] > 1) name += more(lane, name);
}
}  // namespace detail

YOTTA_INLINE std::map<int, std::string> lane_names(const Trace& trace, int rank) {
  std::map<int, std::string> names;
  std::map<int, std::map<std::string_view, int64_t>> bytes;  // by lane and label
  for (const TraceEvent& event : trace.ranks[static_cast<size_t>(rank)]) {
    if (!names.contains(event.lane)) names[event.lane] = lane_name(trace, rank, event.lane);
    if (event.kind == EventKind::send || event.kind == EventKind::recv)
      bytes[event.lane][event.name] += event.bytes;
  }
  detail::tell_apart(names, [&](int lane, const std::string&) {
    return bytes[lane].empty() ? "" : ": " + detail::carried(bytes[lane]);
  });
  std::map<std::string, int> seen;
  for (auto i = names.rbegin(); i != names.rend(); ++i)  // in the order in which they were made
    if (const int number = ++seen[i->second]; number > 1) i->second += fmt::format(" #{}", number);
  return names;
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

YOTTA_INLINE Trace collect_trace(Trace trace) {
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

YOTTA_INLINE Trace without(Trace trace, bool (*gone)(const TraceEvent&)) {
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

YOTTA_INLINE Trace excerpt(const Trace& trace, double begin, double end) {
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

YOTTA_INLINE double seconds(const Trace& trace, int rank) {
  double last = 0;
  for (const TraceEvent& event : trace.ranks[static_cast<size_t>(rank)])
    if (event.lane == compute_lane) last = std::max(last, event.end);
  return last;
}
YOTTA_INLINE double seconds(const Trace& trace) {
  double last = 0;
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank)
    last = std::max(last, seconds(trace, static_cast<int>(rank)));
  return last;
}

YOTTA_INLINE double busy_seconds(const Trace& trace, int rank) {
  double sum = 0;
  for (const TraceEvent& event : trace.ranks[static_cast<size_t>(rank)])
    if (event.kind == EventKind::op) sum += event.seconds();
  return sum;
}
YOTTA_INLINE double busy_share(const Trace& trace, int rank) {
  const double all = seconds(trace);
  return all > 0 ? busy_seconds(trace, rank) / all : 1;
}
YOTTA_INLINE double idle_share(const Trace& trace, int rank) { return 1 - busy_share(trace, rank); }

}  // namespace yotta
