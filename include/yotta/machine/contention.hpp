// Contention: what happens when messages share a wire. An event simulator replays a recorded run.
//
//     alone      a ═══════►             every message has its wires to itself
//                b ═══════►
//     replay     a ── ── ── ── ►        on one wire, each gets half of it
//                b ── ── ── ── ►
//
// On the clock lanes share the ports of their chip (shared_ports.hpp), but of an uplink each chip
// has a fixed part, and nobody waits for a busy receiver. Here all wires are shared, and a message
// moves at one rate through all of its own: 3072 chips behind a thin uplink. The events of the
// clock's trace become a graph: each begins when its causes have ended, and operations take what
// they took. Messages become flows: after alpha a flow moves at the rate that its wires leave it.
// Rates are max-min fair: the tightest wire is shared equally among its flows, what they leave
// elsewhere is shared among the others, and so on. Whenever a flow begins or ends, the rates
// change.
//
//     chip ──port──► node ──uplink──► rack ──uplink──► pod ──uplink──┐       the wires of a message
//     chip ◄──port── node ◄─downlink─ rack ◄─downlink─ pod ◄─downlink┘
//
// A chip has two ports each way: one into its node (level 0), one out of it. A group of c chips
// goes up into the next level through one wire of c / beta bytes per second. With full bandwidth
// that is the most that its chips can send, so the wire is never tight; oversubscribed 1:7 it is.
// In a torus a message runs along one axis after the other, and each hop is a wire of its own.
//
// Cost: flows in flight times wires, at each begin and end of a message.
// Contract: the trace was recorded with ClockOptions::joins (a wait that took no time might take
// some here); all ranks are alive; links are not slowed. If nothing is shared, no time changes.
// Reference: Bertsekas & Gallager, "Data Networks", 6.5.2 (max-min fairness); flow-level simulation
// as in SimGrid (Casanova et al., 2014).
#pragma once

#include <tuple>

#include "yotta/machine/cluster.hpp"
#include "yotta/machine/trace.hpp"

#if YOTTA_BODIES_OF(machine)
#include <limits>
#include <queue>
#endif  // YOTTA_BODIES

namespace yotta {

// The run as it would be if messages shared wires. chips: as ClockOptions::chips. Errors: mirrored
// ranks.
YOTTA_API Trace replay(const Trace& recorded, const Cluster& cluster, std::vector<int> chips = {},
                       Where where = Where::current());

// The wires of a cluster by number, made as they are used.
class Wires {
 public:
  explicit Wires(const Cluster& cluster) : cluster_(cluster) {}

  double capacity(int wire) const { return capacities_[static_cast<size_t>(wire)]; }  // bytes/s
  int count() const { return static_cast<int>(capacities_.size()); }
  // The wires of a message from chip to chip; none to itself.
  YOTTA_API std::vector<int> route(int from, int to);

 private:
  YOTTA_API int wire(int kind, int place, int direction, double capacity);
  YOTTA_API std::vector<int> torus_route(int from, int to);

  const Cluster& cluster_;
  std::map<std::tuple<int, int, int>, int> numbers_;  // by kind, place and direction
  std::vector<double> capacities_;
};

struct Flow {
  EventId event;
  double left = 0;  // bytes
  std::vector<int> wires;
  double rate = 0;  // bytes/s
};

// Sets the max-min fair rates of all flows.
YOTTA_API void share_wires(std::vector<Flow>& flows, const Wires& wires);

#if YOTTA_BODIES_OF(machine)
std::vector<int> Wires::route(int from, int to) {
  const Link link = cluster_.link(from, to);
  std::vector<int> wires;
  if (link.level < 0) return wires;
  if (link.level == 0 && !cluster_.torus.empty()) return torus_route(from, to);
  const bool outside = link.level > 0;
  double port = 0;  // the fastest of the levels that it serves
  for (size_t i = outside ? 1 : 0; i < (outside ? cluster_.levels.size() : 1); ++i)
    port = std::max(port, 1 / cluster_.levels[i].beta);
  wires = {wire(outside ? 1 : 0, from, 0, port), wire(outside ? 1 : 0, to, 1, port)};
  for (int i = 1; i <= link.level; ++i) {
    const int chips = cluster_.levels[static_cast<size_t>(i) - 1].chips;
    const double shared = chips / cluster_.levels[static_cast<size_t>(i)].beta;
    wires.push_back(wire(1 + i, from / chips, 0, shared));
    wires.push_back(wire(1 + i, to / chips, 1, shared));
  }
  return wires;
}

int Wires::wire(int kind, int place, int direction, double capacity) {
  const auto [found, is_new] = numbers_.try_emplace({kind, place, direction}, count());
  if (is_new) capacities_.push_back(capacity);
  return found->second;
}

std::vector<int> Wires::torus_route(int from, int to) {
  std::vector<int> wires;
  int stride = 1, at = from;
  for (size_t axis = 0; axis < cluster_.torus.size(); ++axis) {
    const int length = cluster_.torus[axis];
    const int ahead = (to / stride % length - at / stride % length + length) % length;
    const bool forward = 2 * ahead <= length;
    for (int hop = forward ? ahead : length - ahead; hop > 0; --hop) {
      const int direction = 2 * static_cast<int>(axis) + (forward ? 0 : 1);
      wires.push_back(wire(0, at, direction, 1 / cluster_.levels[0].beta));
      const int here = at / stride % length;
      at += ((here + (forward ? 1 : length - 1)) % length - here) * stride;
    }
    stride *= length;
  }
  return wires;
}

void share_wires(std::vector<Flow>& flows, const Wires& wires) {
  std::vector<double> free(static_cast<size_t>(wires.count()));
  std::vector<int> users(free.size(), 0);
  for (size_t w = 0; w < free.size(); ++w) free[w] = wires.capacity(static_cast<int>(w));
  for (Flow& flow : flows) {
    flow.rate = 0;
    for (const int w : flow.wires) ++users[static_cast<size_t>(w)];
  }
  for (size_t open = flows.size(); open > 0;) {
    size_t tightest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t w = 0; w < free.size(); ++w)
      if (users[w] > 0 && free[w] / users[w] < least) least = free[tightest = w] / users[w];
    for (Flow& flow : flows) {
      const bool uses = std::find(flow.wires.begin(), flow.wires.end(),
                                  static_cast<int>(tightest)) != flow.wires.end();
      if (flow.rate > 0 || !uses) continue;
      flow.rate = least;
      --open;
      for (const int w : flow.wires) {
        --users[static_cast<size_t>(w)];
        free[static_cast<size_t>(w)] -= least;
      }
    }
  }
}

class WireReplay {
 public:
  WireReplay(const Trace& recorded, const Cluster& cluster, std::vector<int> chips, Where where)
      : trace_(recorded), cluster_(cluster), chips_(std::move(chips)), wires_(cluster) {
    nodes_.resize(trace_.ranks.size());
    for (size_t rank = 0; rank < nodes_.size(); ++rank)
      nodes_[rank].resize(trace_.ranks[rank].size());
    each_event([&](EventId id, const TraceEvent& event) {
      if (event.peer >= first_image)
        fail(where, "a replay needs all ranks alive; this trace has mirrored ones");
      for (const EventId cause : {event.cause, event.also}) {
        if (cause.rank < 0) continue;
        node(cause).next.push_back(id);
        ++node(id).missing;
      }
    });
  }

  Trace run() {
    each_event([&](EventId id, const TraceEvent&) {
      if (node(id).missing == 0) start(id, 0);
    });
    for (;;) {
      const double begins = timers_.empty() ? never : timers_.top().time;
      const size_t first = next_to_end();
      const double ends =
          first < flows_.size() ? now_ + flows_[first].left / flows_[first].rate : never;
      if (begins == never && ends == never) return collect_trace(std::move(trace_));
      move_to(std::min(begins, ends));
      if (ends <= begins) {
        const EventId done = flows_[first].event;
        flows_.erase(flows_.begin() + static_cast<std::ptrdiff_t>(first));
        share_wires(flows_, wires_);
        finish(done);
      } else {
        const Timer timer = timers_.top();
        timers_.pop();
        timer.starts_flow ? start_flow(timer.event) : finish(timer.event);
      }
    }
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();
  struct Node {
    int missing = 0;            // causes that have not ended
    std::vector<EventId> next;  // what it is a cause of
  };
  struct Timer {
    double time;
    EventId event;
    bool starts_flow;
    bool operator<(const Timer& other) const { return time > other.time; }  // the earliest on top
  };

  Node& node(EventId id) {
    return nodes_[static_cast<size_t>(id.rank)][static_cast<size_t>(id.index)];
  }
  TraceEvent& event_of(EventId id) {
    return trace_.ranks[static_cast<size_t>(id.rank)][static_cast<size_t>(id.index)];
  }
  int chip(int rank) const { return chips_.empty() ? rank : chips_[static_cast<size_t>(rank)]; }
  template <class Visit>
  void each_event(Visit visit) {
    for (size_t rank = 0; rank < trace_.ranks.size(); ++rank)
      for (size_t i = 0; i < trace_.ranks[rank].size(); ++i)
        visit(EventId{static_cast<int>(rank), static_cast<int>(i)}, trace_.ranks[rank][i]);
  }

  void start(EventId id, double time) {
    TraceEvent& event = event_of(id);
    const bool computes = event.kind == EventKind::op || event.kind == EventKind::reduce;
    const double takes = computes ? event.seconds() : 0;
    if (event.also.rank >= 0 && event_of(event.also).end > event_of(event.cause).end)
      std::swap(event.cause, event.also);
    event.begin = time;
    if (event.kind == EventKind::recv && event_of(event.cause).kind == EventKind::send)
      event.begin = event_of(event.cause).begin;  // it was under way while its message was
    if (event.kind == EventKind::wait && event.also.rank >= 0)
      event.begin = event_of(event.also).end;
    if (event.kind != EventKind::send) return timers_.push({time + takes, id, false});
    const Link link = cluster_.link(chip(id.rank), chip(event.peer));
    timers_.push({time + link.alpha, id, event.bytes > 0 && link.level >= 0});
  }
  void start_flow(EventId id) {
    const TraceEvent& event = event_of(id);
    flows_.push_back(
        {id, static_cast<double>(event.bytes), wires_.route(chip(id.rank), chip(event.peer))});
    share_wires(flows_, wires_);
  }
  void finish(EventId id) {
    event_of(id).end = now_;
    for (const EventId next : node(id).next)
      if (--node(next).missing == 0) start(next, now_);
  }
  size_t next_to_end() const {
    size_t first = flows_.size();
    double least = never;
    for (size_t i = 0; i < flows_.size(); ++i)
      if (flows_[i].left / flows_[i].rate < least) least = flows_[first = i].left / flows_[i].rate;
    return first;
  }
  void move_to(double time) {
    for (Flow& flow : flows_) flow.left = std::max(0.0, flow.left - flow.rate * (time - now_));
    now_ = time;
  }

  Trace trace_;
  const Cluster& cluster_;
  std::vector<int> chips_;
  Wires wires_;
  std::vector<std::vector<Node>> nodes_;  // as the events of trace_
  std::priority_queue<Timer> timers_;
  std::vector<Flow> flows_;
  double now_ = 0;
};

Trace replay(const Trace& recorded, const Cluster& cluster, std::vector<int> chips, Where where) {
  return WireReplay(recorded, cluster, std::move(chips), where).run();
}
#endif  // YOTTA_BODIES

}  // namespace yotta
