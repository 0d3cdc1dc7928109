// A slow network card in software: what a process sends leaves at a given rate, after a given time.
//
//     put at 0 s       ready at 0.05 s     leaves, and the card is busy for bytes / rate
//     part 1  ├──────────┤████├
//     part 2  ├──────────┤    ████├        waits for the part before it, whoever it goes to
//
// So that a run on one machine feels a network between cities. Receiving is not slowed:
// what comes was slowed where it left.
#pragma once

#include <algorithm>
#include <string>

#include "yotta/core/error.hpp"

namespace yotta {

struct LinkSpeed {
  double bytes_per_second = 0;  // 0: as fast as it goes
  double latency = 0;           // seconds until a message begins to leave

  bool is_slow() const { return bytes_per_second > 0 || latency > 0; }
};

// "20Mbit/s", "1Gbit/s,50ms", "50ms". Errors: anything else; two rates or latencies; less than
// 1 kbit/s or more than a minute, with which a run would seem to hang.
LinkSpeed parse_link(const std::string& text, Where where = Where::current());

// The card of one process. Times are seconds of a clock that the caller reads.
class LinkThrottle {
 public:
  LinkThrottle() = default;
  explicit LinkThrottle(LinkSpeed speed) : speed_(speed) {}

  bool is_slow() const { return speed_.is_slow(); }
  // When a message that is handed over now is ready to leave.
  double ready_at(double now) const { return now + speed_.latency; }
  // When the next part of such a message may leave.
  double may_leave_at(double ready) const { return std::max(ready, free_at_); }
  void has_left(double now, double bytes) {
    if (speed_.bytes_per_second > 0)
      free_at_ = std::max(now, free_at_) + bytes / speed_.bytes_per_second;
  }

 private:
  LinkSpeed speed_;
  double free_at_ = 0;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/processes/impl/link_throttle.ipp"
#endif
