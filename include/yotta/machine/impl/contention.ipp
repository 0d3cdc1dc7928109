// The bodies of machine/contention.hpp.
#pragma once

#include "yotta/machine/contention.hpp"

#include <limits>
#include <queue>

namespace yotta {

YOTTA_INLINE std::vector<int> Wires::route(int from, int to) {
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

YOTTA_INLINE int Wires::wire(int kind, int place, int direction, double capacity) {
  const auto [found, is_new] = numbers_.try_emplace({kind, place, direction}, count());
  if (is_new) capacities_.push_back(capacity);
  return found->second;
}

YOTTA_INLINE std::vector<int> Wires::torus_route(int from, int to) {
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

YOTTA_INLINE void share_wires(std::vector<Flow>& flows, const Wires& wires) {
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

YOTTA_INLINE Trace replay(const Trace& recorded, const Cluster& cluster, std::vector<int> chips,
                          Where where) {
  return WireReplay(recorded, cluster, std::move(chips), where).run();
}

}  // namespace yotta
