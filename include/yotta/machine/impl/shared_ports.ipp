// The bodies of machine/shared_ports.hpp.
#pragma once

#include "yotta/machine/shared_ports.hpp"

#include <deque>

#include "yotta/machine/port_rates.hpp"
#include "yotta/machine/ports.hpp"

namespace yotta {

YOTTA_INLINE ClockOptions recording_options(ClockOptions options) {
  if (shares_ports(options)) options.trace = options.joins = true;
  return options;
}

class PortSharing {
 public:
  PortSharing(Trace recorded, const Cluster& cluster, const std::vector<int>& chips)
      : trace_(std::move(recorded)), ports_(cluster, chips) {
    for (const auto& events : trace_.ranks) nodes_.emplace_back(events.size());
    each_event([&](EventId id, const TraceEvent& event) { add(id, event); });
    each_event([&](EventId id, const TraceEvent& event) {
      if (event.kind == EventKind::recv) add_recv(id, event);
    });
  }

  Trace run() {
    std::vector<EventId> first;
    each_event([&](EventId id, const TraceEvent&) {
      if (node(id).missing == 0) first.push_back(id);
    });
    for (const EventId id : first) begin(id);
    for (;;) {
      const double ends = ends_.empty() ? never : ends_.top().time, moves = rates_.next();
      if (ends == never && moves == never) break;
      now_ = std::min(ends, moves);
      ends <= moves ? end_next() : move_next();
    }
    each_event([&](EventId id, TraceEvent& event) { explain(id, event); });
    for (const auto& [key, gap] : gaps_)
      trace_.ranks[static_cast<size_t>(std::get<0>(key))].push_back(gap);
    return collect_trace(std::move(trace_));
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();
  struct Node {
    int missing = 0;            // what has to happen before it can begin
    int first = -1, last = -1;  // what needs its end: the ends of a list in followers_
    EventId sent, entry;        // recv: its message; what its lane did before
    EventId behind;             // what its lane's port did before, if it had to wait for that
    int message = -1;           // send: its number
    int queue = -1;             // send, recv: its queue's number
  };
  struct Follower {
    EventId event;
    int next = -1;  // in the list
  };
  struct Message {
    EventId send, recv;
    double latency = 0;
  };
  struct End {
    double time;
    EventId event;
    auto key() const { return std::tuple(time, event.rank, event.index); }
    bool operator<(const End& other) const { return key() > other.key(); }  // the earliest on top
  };
  // What one lane sends, or receives, by one of the clock's two ports.
  struct Queue {
    std::deque<EventId> waiting;
    EventId last;
    bool busy = false;
  };

  Node& node(EventId id) {
    return nodes_[static_cast<size_t>(id.rank)][static_cast<size_t>(id.index)];
  }
  TraceEvent& event_of(EventId id) {
    return trace_.ranks[static_cast<size_t>(id.rank)][static_cast<size_t>(id.index)];
  }
  Follower& follower(int number) { return followers_[static_cast<size_t>(number)]; }
  Message& message(int number) { return messages_[static_cast<size_t>(number)]; }
  template <class Visit>
  void each_event(Visit visit) {
    for (size_t rank = 0; rank < trace_.ranks.size(); ++rank)
      for (size_t i = 0; i < trace_.ranks[rank].size(); ++i)
        visit(EventId{static_cast<int>(rank), static_cast<int>(i)}, trace_.ranks[rank][i]);
  }

  // What needs what.
  void needs(EventId id, EventId before) {
    if (before.rank < 0) return;
    Node& earlier = node(before);
    const int number = static_cast<int>(followers_.size());
    followers_.push_back({id});
    (earlier.first < 0 ? earlier.first : follower(earlier.last).next) = number;
    earlier.last = number;
    ++node(id).missing;
  }
  void add(EventId id, const TraceEvent& event) {
    if (event.kind == EventKind::recv) return;
    needs(id, event.cause);
    if (event.also != event.cause) needs(id, event.also);
    if (event.kind != EventKind::send) return;
    join_queue(id, event);
    const double work = ports_.work(id.rank, event);
    node(id).message = rates_.add(ports_.of(id.rank, event), work);
    messages_.push_back({id, {}, event.seconds() - work});
  }
  void add_recv(EventId id, const TraceEvent& event) {
    Node& self = node(id);
    const bool by_cause = is_message_to(id.rank, event.cause, event.also);
    self.sent = by_cause ? event.cause : event.also;
    const EventId before = by_cause ? event.also : event.cause;
    self.entry = event.follows ? node(before).entry : before;
    ++self.missing;                             // its message has to be under way
    if (event.lane < 0) needs(id, self.entry);  // on other lanes messages come when they come
    const int number = node(self.sent).message;
    message(number).recv = id;
    rates_.enters_by(number, ports_.of(id.rank, event));
    join_queue(id, event);
  }
  void join_queue(EventId id, const TraceEvent& event) {
    const bool leads_out = ports_.leads_out(id.rank, event);
    const auto [found, is_new] = queue_numbers_.try_emplace(
        {id.rank, event.lane, event.kind, leads_out}, static_cast<int>(queues_.size()));
    if (is_new) queues_.emplace_back();
    node(id).queue = found->second;
  }
  // Which of a recv's causes is its message? The other one is an event of its own rank, and older.
  bool is_message_to(int rank, EventId one, EventId other) const {
    const auto sends = [&](EventId id) {
      return id.rank >= 0 && trace_.at(id).kind == EventKind::send;
    };
    if (!sends(one) || !sends(other)) return sends(one);
    return one.rank != rank || (other.rank == rank && one.index > other.index);
  }

  // An event begins when all that it needs has ended. A message also waits for its lane's port.
  void begin(EventId id) {
    TraceEvent& event = event_of(id);
    if (event.kind == EventKind::send || event.kind == EventKind::recv) return enqueue(id);
    const bool until = event.kind == EventKind::wait && event.cause.rank < 0;  // a given time
    const double takes = event.kind == EventKind::wait ? 0 : event.seconds();
    ends_.push({until ? std::max(now_, event.end) : now_ + takes, id});
    event.begin = now_;
  }
  void end_next() {
    const EventId id = ends_.top().event;
    ends_.pop();
    event_of(id).end = now_;
    for (int number = node(id).first; number >= 0; number = follower(number).next) {
      const EventId next = follower(number).event;
      if (--node(next).missing == 0) begin(next);
    }
  }
  Queue& queue_of(EventId id) { return queues_[static_cast<size_t>(node(id).queue)]; }
  void enqueue(EventId id) {
    Queue& queue = queue_of(id);
    if (queue.busy) node(id).behind = queue.waiting.empty() ? queue.last : queue.waiting.back();
    queue.waiting.push_back(id);
    if (!queue.busy) begin_next(queue);
  }
  void begin_next(Queue& queue) {
    queue.busy = !queue.waiting.empty();
    if (!queue.busy) return;
    const EventId id = queue.last = queue.waiting.front();
    queue.waiting.pop_front();
    event_of(id).begin = now_;
    if (event_of(id).kind == EventKind::recv)
      return rates_.begin_recv(node(node(id).sent).message, now_);
    rates_.begin_send(node(id).message, now_);
    const EventId recv = message(node(id).message).recv;
    if (recv.rank >= 0 && --node(recv).missing == 0) begin(recv);
  }
  void move_next() {
    const PortRates::Done done = rates_.finish_next();
    const Message moved = message(done.message);
    for (const auto& [has, id] : {std::pair{done.sent, moved.send}, {done.received, moved.recv}}) {
      if (!has) continue;
      ends_.push({now_ + moved.latency, id});
      begin_next(queue_of(id));
    }
  }

  // Which cause ended last, and what is a wait now.
  void explain(EventId id, TraceEvent& event) {
    if (event.kind == EventKind::recv) return explain_recv(id, event);
    if (event.cause.rank >= 0 && event.also.rank >= 0 &&
        event_of(event.also).end > event_of(event.cause).end)
      std::swap(event.cause, event.also);
    if (event.kind != EventKind::wait) return;
    event.begin = event.lane == compute_lane ? 0 : event.end;
    for (const EventId each : {event.cause, event.also})
      if (each.rank == id.rank && event_of(each).lane == compute_lane)
        event.begin = std::max(event.begin, event_of(each).end);
  }
  // A recv that its own port slowed began when its message could have: that is no cause then.
  void explain_recv(EventId id, TraceEvent& event) {
    const Node& self = node(id);
    const TraceEvent& sent = event_of(self.sent);
    const EventId before = self.behind.rank >= 0 ? self.behind : self.entry;
    const bool queued = event.begin > sent.begin, slowed = event.end > sent.end;
    event.cause = queued ? before : slowed ? sent.cause : self.sent;
    event.also = queued || slowed ? self.sent : before;
    const double idle = self.entry.rank < 0 ? 0 : event_of(self.entry).end;
    if (event.lane > 0 || sent.begin <= idle) return;
    TraceEvent& gap = gaps_[{id.rank, event.lane, idle}];
    if (gap.end == 0 || sent.begin < gap.end)
      gap = {EventKind::wait, event.lane, idle, sent.begin, "wait", self.sent};
  }

  Trace trace_;
  Ports ports_;
  PortRates rates_;
  std::vector<std::vector<Node>> nodes_;  // as the events of trace_
  std::vector<Message> messages_;         // as in rates_
  std::priority_queue<End> ends_;
  std::vector<Follower> followers_;
  std::map<std::tuple<int, int, EventKind, bool>, int> queue_numbers_;  // by rank, lane, way, port
  std::vector<Queue> queues_;
  std::map<std::tuple<int, int, double>, TraceEvent> gaps_;  // by rank, lane, begin
  double now_ = 0;
};

YOTTA_INLINE Trace finished_trace(Trace recorded, const Cluster& cluster,
                                  const ClockOptions& options) {
  Trace trace = collect_trace(std::move(recorded));
  const auto is_gap = [](const TraceEvent& event) {
    return event.kind == EventKind::wait && event.lane < 0 && event.begin < event.end;
  };
  const auto is_join = [](const TraceEvent& event) {
    return event.kind == EventKind::wait && event.begin == event.end;
  };
  if (options.joins) return without(std::move(trace), is_gap);
  if (shares_ports(options) && lanes_meet(trace, cluster, options.chips))
    trace = PortSharing(without(std::move(trace), is_gap), cluster, options.chips).run();
  return without(std::move(trace), is_join);
}

}  // namespace yotta
