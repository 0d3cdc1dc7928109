// The virtual clock: how long a run would take on a machine that is only described.
//
// Every rank has a clock, and the clock has lanes. What a rank does one after the other is on one lane, what
// it does side by side on several:
//
//     lane  0   compute        [ matmul ][ matmul ]·········[ matmul ]
//     lane -1   world                    [══ all_reduce ══]┘             one a communicator
//     lane 3, 4 to, from rank 1   [──]                                   one a peer and direction
//
//     op           compute lane += max(FLOPs / peak, bytes / bandwidth) + launch overhead
//     message      travels alpha + bytes beta from the moment its sender's lane is free, and says so in a
//                  time stamp that goes with it; the receiver's lane goes on when it has arrived
//     collective   its lane: no message of it is received faster than it travels, one at a time; sending
//                  and receiving go side by side (a link has two directions); reducing N bytes takes
//                  N gamma more (gamma is 0 unless the machine says otherwise)
//     wait         a lane joins another: it goes on when the other has got there
//
// So a ring all_reduce takes 2(p-1) alpha + 2(p-1)/p N beta because its messages were sent, and not because
// somebody typed the formula: the formula is the test. Nothing here depends on when threads run: a
// time is computed from the stamps of what the program itself ordered. Same program, same timeline.
//
// What is not modelled: messages of different lanes that share a wire do not slow each other down
// (contention.hpp replays a trace for that); memory is not shared between ops and messages.
#pragma once

#include <map>

#include "yotta/machine/cluster.hpp"
#include "yotta/machine/disturbance.hpp"
#include "yotta/machine/trace.hpp"

namespace yotta {

struct ClockOptions {
  bool trace = true;            // record every event
  std::vector<int> chips = {};  // of the ranks; empty: rank r is on chip r
  Disturbances disturbances = {};
};

// Seconds of an operation on a chip.
inline double op_seconds(const Chip& chip, const OpCost& cost) {
  const double compute = cost.flops > 0 ? cost.flops / peak(chip, cost.dtype) : 0;
  const double memory = (cost.bytes_read + cost.bytes_written) / chip.bandwidth;
  return std::max(compute, memory) + chip.launch_overhead;
}

// The clock of one rank. It is used by its rank's thread only.
class VirtualClock : public CostSink {
 public:
  VirtualClock(const Cluster& cluster, int rank, ClockOptions options = {})
      : cluster_(cluster),
        rank_(rank),
        options_(std::move(options)),
        slow_(rank_factor(options_.disturbances, rank)) {}

  void op(const OpCost& cost) override {
    Lane& lane = lanes_[compute_lane];
    const double end = lane.time + op_seconds(cluster_.chip, cost) * slow_ * jitter(compute_lane);
    const auto bytes = static_cast<int64_t>(cost.bytes_read + cost.bytes_written);
    lane.last = record({EventKind::op, compute_lane, lane.time, end, label(cost.name), lane.last,
                        -1, bytes, cost.flops});
    lane.time = end;
  }

  Moment send(const MessageCost& m) override {
    const Lane& lane = lanes_[m.lane];
    const double seconds = link_to(m.peer).seconds(static_cast<double>(m.bytes));
    const double slow = link_factor(options_.disturbances, chip_of(rank_), chip_of(m.peer));
    const double begin = lane.time, end = begin + seconds * slow * jitter(m.lane);
    const EventId id =
        record({EventKind::send, m.lane, begin, end, label(m.label), lane.last, m.peer, m.bytes});
    return {begin, end, id.rank, id.index};
  }

  void receive(const MessageCost& m, const Moment& travel) override {
    Lane& lane = lanes_[m.lane];
    // On a lane of its own a message arrives by itself; in a collective it may have to queue.
    const bool queues = m.lane < 0 && lane.time > travel.begin;
    const EventId sent{travel.rank, travel.event};
    if (m.lane < 0 && lane.time < travel.begin) record_wait(m.lane, travel.begin, sent);
    const double begin = queues ? lane.time : travel.begin;
    const double end = queues ? begin + (travel.end - travel.begin) : travel.end;
    const EventId cause = queues ? lane.last : sent;
    const EventId id =
        record({EventKind::recv, m.lane, begin, end, label(m.label), cause, m.peer, m.bytes});
    if (end < lane.time) return;  // waited for after one that came later
    lane.last = id;
    lane.time = end;
  }

  Moment now(int lane) override {
    const Lane& asked = lanes_[lane];
    return {asked.time, asked.time, asked.last.rank, asked.last.index};
  }

  void wait(int lane_number, const Moment& done) override {
    Lane& lane = lanes_[lane_number];
    if (done.end <= lane.time) return;
    lane.last = {done.rank, done.event};
    if (lane_number == compute_lane) lane.last = record_wait(lane_number, done.end, lane.last);
    lane.time = done.end;
  }

  void mirror(std::span<const int> chips, Where where) override {
    const int own = chip_of(rank_);
    if (chips[0] != own)
      fail(where, "rank {} is on chip {}, but its images are said to begin with chip {}", rank_,
           own, chips[0]);
    if (options_.disturbances.any())
      fail(where,
           "slow ranks, slow links and jitter are not the same for all images: do not mirror");
    const std::string difference = unequal_links(cluster_, chips, where);
    if (!difference.empty())
      fail(
          where,
          "these {} chips cannot be mirrored, they would not stay in step: {}. Mirror chips of one "
          "level of {}",
          chips.size(), difference, cluster_.name);
    for (const int chip : chips) images_.insert(chip - own);
    alike_.clear();
  }

  void reduce(int lane_number, int64_t bytes) override {
    Lane& lane = lanes_[lane_number];
    if (cluster_.gamma == 0) return;
    const double end = lane.time + static_cast<double>(bytes) * cluster_.gamma;
    lane.last = record(
        {EventKind::reduce, lane_number, lane.time, end, label("reduce"), lane.last, -1, bytes});
    lane.time = end;
  }

  // When the rank's own code has ended.
  double seconds() { return lanes_[compute_lane].time; }
  int rank() const { return rank_; }
  const std::vector<TraceEvent>& events() const { return events_; }

 private:
  struct Lane {
    double time = 0;
    EventId last;       // the event that brought it there
    int64_t drawn = 0;  // numbers, for jitter
  };

  double jitter(int lane) {
    return jitter_factor(options_.disturbances, rank_, lane, lanes_[lane].drawn++);
  }

  int chip_of(int peer) const {
    if (peer >= first_image) return peer - first_image;
    return options_.chips.empty() ? peer : options_.chips[static_cast<size_t>(peer)];
  }
  Link link_to(int peer) {
    const int from = chip_of(rank_), to = chip_of(peer);
    const Link link = cluster_.link(from, to);
    if (peer >= first_image || images_.empty() || !alike_.insert(peer).second) return link;
    for (const int offset : images_)
      if (cluster_.link(from + offset, to + offset) != link)
        fail(
            Where::current(),
            "rank {} on chip {} sends to chip {}, and its image on chip {} over a link that is not "
            "equal; mirrored ranks would not stay in step",
            rank_, from, to, from + offset);
    return link;
  }
  EventId record(const TraceEvent& event) {
    if (!options_.trace) return {};
    events_.push_back(event);
    return {rank_, static_cast<int>(events_.size()) - 1};
  }
  EventId record_wait(int lane, double until, EventId cause) {
    return record({EventKind::wait, lane, lanes_[lane].time, until, "wait", cause});
  }
  std::string_view label(std::string_view text) {
    if (!options_.trace) return {};
    const auto found = labels_.find(text);
    return found != labels_.end() ? *found : *labels_.insert(kept(text)).first;
  }

  const Cluster& cluster_;
  int rank_;
  ClockOptions options_;
  double slow_;  // its operations take so many times as long
  std::map<int, Lane> lanes_;
  std::vector<TraceEvent> events_;
  std::set<std::string_view> labels_;
  std::set<int> images_;  // how far away, in chips
  std::set<int> alike_;   // live ranks to which all images have links like this rank's
};

// The events of all ranks. They were recorded in an order that depends on threads; they are put in the
// order of time, then lane, and causes are renumbered.
inline Trace collect_trace(const std::vector<std::vector<TraceEvent>>& recorded) {
  Trace trace;
  std::vector<std::vector<int>> place(recorded.size());  // by rank: the new index of an event
  for (size_t rank = 0; rank < recorded.size(); ++rank) {
    const std::vector<TraceEvent>& events = recorded[rank];
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
  for (std::vector<TraceEvent>& events : trace.ranks)
    for (TraceEvent& event : events)
      if (event.cause.rank >= 0)
        event.cause.index =
            place[static_cast<size_t>(event.cause.rank)][static_cast<size_t>(event.cause.index)];
  return trace;
}

}  // namespace yotta
