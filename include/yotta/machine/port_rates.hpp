// Port rates: how fast messages are sent and received while they share ports.
//
//     out of chip 0   a ── ── ── ──►        two leave by one port: each gets half of it
//                     b ── ── ── ──►
//     into chip 1     a ── ── ── ──►        a comes no faster than it is sent,
//                     c ═══ ─ ═══ ─►        so c gets the other half, and all of it when a is in
//
// A port out of a chip is divided equally. A port into a chip is divided max-min fair: what comes
// in as fast as it is sent takes no more, and what it leaves is divided among the others. A message
// that was sent faster than it came in waits before the port, and then comes in at the port's rate.
//
// Whenever a message begins or ends at a port, the rates of that port change, and those of the
// messages' other ports. All else stays as it is: an event costs as many steps as messages meet.
#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "yotta/core/system/build.hpp"

#include <limits>
#include <queue>

namespace yotta {

// Time only goes on: begin_* and finish_next are called in order of time.
class PortRates {
 public:
  // A message that will occupy port `out`, then `in`, for `work` seconds if it is alone there.
  int add(int out, double work);
  void enters_by(int message, int in);

  void begin_send(int message, double time);
  void begin_recv(int message, double time);  // not before begin_send

  // When something happens next if no message begins before; infinity: nothing does.
  double next();
  struct Done {
    int message;
    bool sent = false, received = false;  // the whole of it, now
  };
  Done finish_next();

 private:
  // Amounts are seconds of a whole port, rates are parts of one.
  struct Message {
    int out = -1, in = -1;
    double work = 0, sent = 0, received = 0;
    double out_rate = 0, in_rate = 0;
    double at = 0;  // when `sent` and `received` were so
    bool has_left = false, receiving = false;
    bool behind = false;  // more was sent than received
    int changes = 0;      // of its rates: what was due before is not any more
  };
  enum class What { sent, caught_up, received };
  struct Due {
    double time;
    int message;
    What what;
    int changes;
    auto key() const { return std::tuple(time, message, what); }
    bool operator<(const Due& other) const { return key() > other.key(); }  // the earliest on top
  };
  static constexpr double rounding = 1 + 1e-9;

  Message& at(int message) { return messages_[static_cast<size_t>(message)]; }
  void advance(Message& message);
  void share_out(int port);
  void share_in(int port);
  void expect(int message);

  std::vector<Message> messages_;
  std::map<int, std::vector<int>> users_;  // by port: the messages on it
  std::priority_queue<Due> agenda_;
  double now_ = 0;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/impl/port_rates.ipp"
#endif
