// The virtual clock: how long a run would take on a machine that is only described.
//
// Every rank has a clock, and the clock has lanes. What a rank does one after the other is on one
// lane; what it does side by side is on several:
//
//     lane  0   compute        [ matmul ][ matmul ]·········[ matmul ]
//     lane -1   world                    [══ all_reduce ══]┘             one per communicator
//     lane 3, 4 to, from rank 1   [──]                                   one per peer and direction
//
//     op           compute lane += max(FLOPs / peak, bytes / bandwidth) + launch overhead
//     message      travels for alpha + bytes beta from the moment its sender's lane is free. A time
//                  stamp travels with it; the receiver's lane goes on when the message has arrived
//     collective   has a lane. It receives one message at a time, none faster than it travels.
//                  Sending and receiving go side by side. Reducing N bytes takes N gamma more
//     exchange     what a collective sends or receives at once shares the chip's two ports: one
//                  into the node, one, its network card, out of it. Messages of one port follow
//                  each other, N beta apart; those of two ports go side by side
//     wait         a lane joins another: it goes on when the other has got there
//
// So a ring all_reduce takes 2(p-1) alpha + 2(p-1)/p N beta because its messages were sent. Nobody
// typed the formula: the formula is the test. Nothing depends on when threads run.
//
// While the program runs, every lane is timed alone. When it has ended, messages that lanes of a
// chip had under way at once share its ports, and all times are computed again (shared_ports.hpp).
// What is not modelled: sharing in the times that a program reads while it runs; the uplinks above
// the cards (contention.hpp replays them); ops and messages that share memory bandwidth; and the
// links of a torus chip are one port for what one exchange sends at once.
#pragma once

#include <map>

#include "yotta/machine/group_network.hpp"
#include "yotta/machine/stragglers.hpp"
#include "yotta/machine/trace.hpp"

namespace yotta {

struct ClockOptions {
  bool trace = true;            // record every event
  bool joins = false;           // for contention.hpp: record waits of no time, share no ports
  std::vector<int> chips = {};  // of the ranks; empty: rank r is on chip r
  Stragglers stragglers = {};
  bool share = true;     // lanes share the ports of their chip: shared_ports.hpp
  bool observed = true;  // a recorder may show the run (comm/recording/)
};

// Which of a chip's ports leads over a link: 0 into its node, 1 out of it.
constexpr int port_of(const Link& link) { return link.level > 0 ? 1 : 0; }

// Seconds of an operation on a chip.
double op_seconds(const Chip& chip, const OpCost& cost);

// The clock of one rank, used only by the rank's thread.
class VirtualClock : public CostSink {
 public:
  // Errors: a chip that the cluster does not have; stragglers that cannot be.
  VirtualClock(const Cluster& cluster, int rank, ClockOptions options = {},
               Where where = Where::current());

  void op(const OpCost& cost) override;
  EventStamp send(const MessageCost& m) override;
  void receive(const MessageCost& m, const EventStamp& travel) override;
  void receive_all(std::span<const Arrival> arrivals) override;
  void reduce(int lane_number, int64_t bytes) override;
  void wait(int lane_number, const EventStamp& done) override;
  EventStamp now(int lane) override;
  void mirror(std::span<const int> chips, Where where) override;
  std::shared_ptr<const GroupNetwork> network(std::span<const int> peers) override;

  // When the rank's own code has ended: its time, and its events, which can be taken once.
  double seconds();
  std::vector<TraceEvent> take_events() { return std::move(events_); }
  const LaneNames& lane_names() const { return lane_names_; }

 private:
  struct Lane {
    double time = 0;
    EventId last;                                       // the event that brought it there
    int64_t drawn = 0;                                  // random numbers, for jitter
    std::string_view communicator;                      // of the last message
    Communication communication = Communication::none;  // that it was a part of
    double sent[2] = {};  // by port: until when its last message occupies it
  };
  struct InPort {
    double free;   // from when on it receives
    EventId last;  // what it received before
    bool used = false;
  };

  Lane& lane_of(const MessageCost& m);
  EventId arrive(const Arrival& arrival, InPort& port);
  double jitter(int lane);
  int chip_of(int peer) const;
  Link link_to(int peer);
  EventId record(const TraceEvent& event);
  EventId record_wait(int lane, double from, double until, EventId cause, EventId also = {});
  void join(int lane_number, EventId cause, EventId also);
  std::string_view label(std::string_view text);

  const Cluster& cluster_;
  int rank_;
  ClockOptions options_;
  double slow_;  // its operations take so many times as long
  std::map<int, Lane> lanes_;
  std::vector<TraceEvent> events_;
  LaneNames lane_names_;
  std::set<std::string_view> labels_;
  std::set<int> images_;  // how far away, in chips
  std::set<int> alike_;   // live ranks to which all images have links like this rank's
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/impl/clock.ipp"
#endif
