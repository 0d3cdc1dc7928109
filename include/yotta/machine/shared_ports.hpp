// Shared ports: messages that are under way at once on several lanes share the ports of a chip.
//
//     clock      lane -1  [════════]          every lane has the ports to itself
//                lane -2  [════════]
//     shared     lane -1  [── ── ── ──]       while both send by one port, each gets half of it
//                lane -2  [── ── ── ──]
//
// When a message arrives depends on messages that leave after it, on lanes whose turn on their
// thread has not come yet. So no rank can say it when it sends. The clock times every lane alone
// and records which event needed which. When the run has ended, an event simulation computes all
// times again from that record:
//
//     between lanes   a port out of a chip is divided equally among the lanes that send by it. So
//                     is a port into a chip, but nothing comes in faster than it is sent, and what
//                     one lane leaves of a port the others get (max-min fair)
//     in a lane       as on the clock: what one exchange sends by one port goes in order, N beta
//                     apart, and so does what it receives
//
// The record does not depend on when threads ran, so neither do the times. A port is never idle
// while it has work, and never carries more than its bandwidth. If no two lanes meet at a port, the
// recorded trace is the answer, bit for bit.
//
// What is left out: a sender is not slowed by a busy receiver (what has left waits before the
// receiver's port); the uplinks above the cards and the middle hops of a torus (contention.hpp
// replays those); and what a program reads from its clock while it runs is the time without
// sharing.
//
// Cost: for each message, as many steps as lanes meet at its two ports; none if nothing is shared.
// Reference: processor sharing (Kleinrock, "Queueing Systems", volume 2, 1976, chapter 4).
#pragma once

#include "yotta/machine/clock.hpp"

namespace yotta {

// Are the ports to be shared? Not for contention.hpp, which shares the wires itself.
constexpr bool shares_ports(const ClockOptions& options) { return options.share && !options.joins; }

// What the clocks of a run need to record for finished_trace.
ClockOptions recording_options(ClockOptions options);

// The trace of a run whose clocks had recording_options(options), its ports shared if they are to
// be.
Trace finished_trace(Trace recorded, const Cluster& cluster, const ClockOptions& options);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/impl/shared_ports.ipp"
#endif
