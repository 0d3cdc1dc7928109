// Hiding latency: how much must be on its way at once, so that no multiplier waits.
//
// A number from memory takes some 300 ns. A chip that asked for one after the other would get 128
// bytes every 300 ns, not 3 TB/s. Latency cannot be bought away: it improves far more slowly than
// bandwidth (Patterson, "Latency Lags Bandwidth", 2004). So it is hidden, in four ways:
//
//                          on the chip                    on the host        between chips
//     1  do other work     another warp runs meanwhile    streams: queues    overlap with compute
//     2  ask early         cp.async, software pipelines   loaders, copies    prefetch in FSDP
//     3  ask for more      16-byte loads, several a lane  graphs, foreach    buckets
//     4  keep it near      registers, shared memory, L2   fusion             shards that stay
//
// Little's law says how much is needed (Little, 1961): what is under way = latency x rate.
//
//     bytes in flight = latency x bandwidth          of one SM: a share of it
//     warps needed    = bytes in flight / (32 lanes x bytes a load x loads in flight a lane)
//
// Contract: latency is that of an idle memory. A busy one answers later, so these numbers are the
// least.
// References: latencies in multiprocessors.hpp. Volkov, "Better Performance at Lower Occupancy"
// (2010): loads in flight count, not warps.
#pragma once

#include <algorithm>

#include "yotta/machine/chip.hpp"
#include "yotta/machine/multiprocessors.hpp"

namespace yotta {

inline constexpr double lanes_of_warp = 32;

// ---- Little's law ----
// Of requests of any kind: bytes on their way to a chip, kernels in a queue, cars on a road.
constexpr double in_flight(double latency, double rate) { return latency * rate; }
// The rate that so much in flight gives: with less than the law asks for, latency sets the rate.
constexpr double rate_of(double in_flight, double latency, double most) {
  return std::min(most, in_flight / latency);
}

// Seconds that a load from device memory takes. Errors: nobody has measured them.
inline double load_latency(const Multiprocessors& sm, Where where = Where::current()) {
  if (sm.latency == 0) fail(where, "the latency of {}'s memory is not known", sm.chip);
  return sm.latency;
}

// Bytes that an SM must have asked for and not yet received.
inline double bytes_in_flight(const Multiprocessors& sm, Where where = Where::current()) {
  return in_flight(load_latency(sm, where), chip_named(sm.chip).bandwidth) / sm.count;
}

// Warps of an SM that load all the time, if each lane has so many loads of so many bytes in flight.
inline double warps_needed(const Multiprocessors& sm, double bytes_a_load, double loads = 1,
                           Where where = Where::current()) {
  return bytes_in_flight(sm, where) / (lanes_of_warp * bytes_a_load * loads);
}

// Bytes/s that the chip gets with so many warps an SM.
inline double bandwidth_reached(const Multiprocessors& sm, double warps, double bytes_a_load,
                                double loads = 1, Where where = Where::current()) {
  const double asked = sm.count * warps * lanes_of_warp * bytes_a_load * loads;
  return rate_of(asked, load_latency(sm, where), chip_named(sm.chip).bandwidth);
}

}  // namespace yotta
