// The bodies of machine/clock.hpp.
#pragma once

#include "yotta/machine/clock.hpp"

#include <algorithm>
#include <utility>

#include "yotta/core/options.hpp"

namespace yotta {

YOTTA_INLINE double op_seconds(const Chip& chip, const OpCost& cost) {
  const double compute = cost.flops > 0 ? cost.flops / peak(chip, cost.dtype) : 0;
  const double memory = (cost.bytes_read + cost.bytes_written) / chip.bandwidth;
  return std::max(compute, memory) + chip.launch_overhead;
}

YOTTA_INLINE VirtualClock::VirtualClock(const Cluster& cluster, int rank, ClockOptions options,
                                        Where where)
    : cluster_(cluster),
      rank_(rank),
      options_(std::move(options)),
      slow_(rank_factor(options_.stragglers, rank)) {
  check_stragglers(options_.stragglers, where);
  const NumberRange there{0, static_cast<double>(cluster.size() - 1)};
  for (const int chip : options_.chips)
    check_number(where, "a chip of ClockOptions::chips", chip, there, "; a cluster counts from 0");
}

YOTTA_INLINE double VirtualClock::seconds() { return lanes_[compute_lane].time; }

YOTTA_INLINE void VirtualClock::op(const OpCost& cost) {
  Lane& lane = lanes_[compute_lane];
  const double end = lane.time + op_seconds(cluster_.chip, cost) * slow_ * jitter(compute_lane);
  lane.last = record(op_event(cost, label(cost.name), lane.time, end, lane.last));
  lane.time = end;
}

YOTTA_INLINE EventStamp VirtualClock::send(const MessageCost& m) {
  Lane& lane = lane_of(m);
  const Link link = link_to(m.peer);
  const double slow = link_factor(options_.stragglers, chip_of(rank_), chip_of(m.peer));
  double& sent = lane.sent[port_of(link)];  // a lane above 0 is one message after the other
  const double begin = m.lane < 0 ? std::max(lane.time, sent) : lane.time;
  const double seconds = link.seconds(static_cast<double>(m.bytes)) * slow * jitter(m.lane);
  const double end = begin + seconds;
  sent = end - link.alpha;  // the last byte has left, and is on its way
  const EventId id =
      record(message_event(EventKind::send, m, label(m.label), begin, end, lane.last));
  return {begin, end, id.rank, id.index};
}

YOTTA_INLINE void VirtualClock::receive(const MessageCost& m, const EventStamp& travel) {
  Lane& lane = lane_of(m);
  // On a lane of its own a message arrives by itself; in a collective it may have to queue.
  const bool queues = m.lane < 0 && lane.time > travel.begin;
  const EventId sent{travel.rank, travel.event};
  if (m.lane < 0 && lane.time < travel.begin) record_wait(m.lane, lane.time, travel.begin, sent);
  const double begin = queues ? lane.time : travel.begin;
  const double end = queues ? begin + (travel.end - travel.begin) : travel.end;
  const EventId cause = queues ? lane.last : sent, also = queues ? sent : lane.last;
  TraceEvent event = message_event(EventKind::recv, m, label(m.label), begin, end, cause);
  event.also = also;
  const EventId id = record(event);
  if (end < lane.time) return join(m.lane, lane.last, id);  // waited for after one that came later
  lane.last = id;
  lane.time = end;
}

// In the order in which they were sent, port by port.
YOTTA_INLINE void VirtualClock::receive_all(std::span<const Arrival> arrivals) {
  if (arrivals.empty()) return;
  std::vector<const Arrival*> order;
  for (const Arrival& each : arrivals) order.push_back(&each);
  std::sort(order.begin(), order.end(), [](const Arrival* a, const Arrival* b) {
    return a->travel.begin != b->travel.begin ? a->travel.begin < b->travel.begin : a < b;
  });
  const auto& [message, first] = *order[0];
  const int number = message.lane;
  Lane& lane = lane_of(message);
  const EventId sent{first.rank, first.event};
  if (lane.time < first.begin) record_wait(number, lane.time, first.begin, sent);
  InPort ports[2] = {{lane.time, lane.last}, {lane.time, lane.last}};
  for (const Arrival* each : order) {
    const Link link = link_to(each->message.peer);
    InPort& port = ports[port_of(link)];
    const EventId id = arrive(*each, port);
    const EventId earlier = port.free >= lane.time ? std::exchange(lane.last, id) : id;
    lane.time = std::max(lane.time, port.free);
    join(number, lane.last, earlier);
    port = {port.free - link.alpha, id, true};
  }
}

// Receives a message by a port, which is free when it has come.
YOTTA_INLINE EventId VirtualClock::arrive(const Arrival& arrival, InPort& port) {
  const auto& [m, travel] = arrival;
  const EventId sent{travel.rank, travel.event};
  const bool queues = port.free > travel.begin;
  const double begin = queues ? port.free : travel.begin;
  port.free = queues ? begin + (travel.end - travel.begin) : travel.end;
  const EventId cause = queues ? port.last : sent, also = queues ? sent : port.last;
  TraceEvent event = message_event(EventKind::recv, m, label(m.label), begin, port.free, cause);
  event.also = also;
  event.follows = port.used;
  return record(event);
}

YOTTA_INLINE void VirtualClock::reduce(int lane_number, int64_t bytes) {
  Lane& lane = lanes_[lane_number];
  if (cluster_.gamma == 0) return;
  const double end = lane.time + static_cast<double>(bytes) * cluster_.gamma;
  const MessageCost sum{-1, bytes, lane_number, "reduce", {}, lane.communication};
  lane.last =
      record(message_event(EventKind::reduce, sum, label(sum.label), lane.time, end, lane.last));
  lane.time = end;
}

YOTTA_INLINE void VirtualClock::wait(int lane_number, const EventStamp& done) {
  Lane& lane = lanes_[lane_number];
  const EventId cause{done.rank, done.event};
  if (done.end <= lane.time) return join(lane_number, lane.last, cause);
  const EventId before = std::exchange(lane.last, cause);
  if (lane_number == compute_lane)
    lane.last = record_wait(lane_number, lane.time, done.end, cause, before);
  lane.time = done.end;
  if (lane_number != compute_lane) join(lane_number, cause, before);
}

// Records that the lane goes on after `also` too, which has ended by now.
YOTTA_INLINE void VirtualClock::join(int lane_number, EventId cause, EventId also) {
  if (!options_.joins || also.rank < 0 || cause == also) return;
  Lane& lane = lanes_[lane_number];
  lane.last = record_wait(lane_number, lane.time, lane.time, cause, also);
}

YOTTA_INLINE EventStamp VirtualClock::now(int lane) {
  const Lane& asked = lanes_[lane];
  return {asked.time, asked.time, asked.last.rank, asked.last.index};
}

YOTTA_INLINE void VirtualClock::mirror(std::span<const int> chips, Where where) {
  const int own = chip_of(rank_);
  if (chips[0] != own)
    fail(where, "rank {} is on chip {}, but its list of chips begins with chip {}", rank_, own,
         chips[0]);
  if (options_.stragglers.any())
    fail(where,
         "slow ranks, slow links and jitter are not the same for all images: leave out "
         "ClockOptions::stragglers, or run every rank instead of mirroring");
  const std::string difference = unequal_links(cluster_, chips, where);
  if (!difference.empty() && group_network(cluster_, chips, where).inner.empty())
    fail(where,
         "these {} chips cannot be mirrored, because they would not stay in step: {}. Mirror chips "
         "of one level of {}, or as many of each node",
         chips.size(), difference, cluster_.name);
  for (const int chip : chips) images_.insert(chip - own);
  alike_.clear();
}

YOTTA_INLINE std::shared_ptr<const GroupNetwork> VirtualClock::network(std::span<const int> peers) {
  std::vector<int> chips;
  for (const int peer : peers) chips.push_back(chip_of(peer));
  return std::make_shared<const GroupNetwork>(group_network(cluster_, chips));
}

YOTTA_INLINE auto VirtualClock::lane_of(const MessageCost& m) -> Lane& {
  Lane& lane = lanes_[m.lane];
  lane.communication = m.communication;
  if (options_.trace && m.communicator != lane.communicator)
    lane_names_[m.lane].insert(lane.communicator = m.communicator);
  return lane;
}

YOTTA_INLINE double VirtualClock::jitter(int lane) {
  return jitter_factor(options_.stragglers, rank_, lane, lanes_[lane].drawn++);
}

YOTTA_INLINE int VirtualClock::chip_of(int peer) const {
  if (peer >= first_image) return peer - first_image;
  return options_.chips.empty() ? peer : options_.chips[static_cast<size_t>(peer)];
}

// Errors: the images' links to their peers differ from this rank's.
YOTTA_INLINE Link VirtualClock::link_to(int peer) {
  const int from = chip_of(rank_), to = chip_of(peer);
  const Link link = cluster_.link(from, to);
  if (peer >= first_image || images_.empty() || !alike_.insert(peer).second) return link;
  for (const int offset : images_)
    if (cluster_.link(from + offset, to + offset) != link)
      fail(
          Where::current(),
          "rank {} on chip {} sends to chip {}, but its image on chip {} sends over a link that is "
          "not equal; mirrored ranks would not stay in step",
          rank_, from, to, from + offset);
  return link;
}

YOTTA_INLINE EventId VirtualClock::record(const TraceEvent& event) {
  if (!options_.trace) return {};
  events_.push_back(event);
  return {rank_, static_cast<int>(events_.size()) - 1};
}

YOTTA_INLINE EventId VirtualClock::record_wait(int lane, double from, double until, EventId cause,
                                               EventId also) {
  return record({EventKind::wait, lane, from, until, "wait", cause, -1, 0, 0, also});
}

YOTTA_INLINE std::string_view VirtualClock::label(std::string_view text) {
  if (!options_.trace) return {};
  const auto found = labels_.find(text);
  return found != labels_.end() ? *found : *labels_.insert(kept(text)).first;
}

}  // namespace yotta
