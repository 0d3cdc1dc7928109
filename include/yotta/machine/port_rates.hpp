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

#if YOTTA_BODIES_OF(machine)
#include <algorithm>
#endif  // YOTTA_BODIES

#include <limits>
#include <queue>

namespace yotta {

// Time only goes on: begin_* and finish_next are called in order of time.
class PortRates {
 public:
  // A message that will occupy port `out`, then `in`, for `work` seconds if it is alone there.
  YOTTA_API int add(int out, double work);
  YOTTA_API void enters_by(int message, int in);

  YOTTA_API void begin_send(int message, double time);
  YOTTA_API void begin_recv(int message, double time);  // not before begin_send

  // When something happens next if no message begins before; infinity: nothing does.
  YOTTA_API double next();
  struct Done {
    int message;
    bool sent = false, received = false;  // the whole of it, now
  };
  YOTTA_API Done finish_next();

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
  YOTTA_API void advance(Message& message);
  YOTTA_API void share_out(int port);
  YOTTA_API void share_in(int port);
  YOTTA_API void expect(int message);

  std::vector<Message> messages_;
  std::map<int, std::vector<int>> users_;  // by port: the messages on it
  std::priority_queue<Due> agenda_;
  double now_ = 0;
};

#if YOTTA_BODIES_OF(machine)
int PortRates::add(int out, double work) {
  messages_.push_back({});
  messages_.back().out = out;
  messages_.back().work = work;
  return static_cast<int>(messages_.size()) - 1;
}
void PortRates::enters_by(int message, int in) { at(message).in = in; }

void PortRates::begin_send(int message, double time) {
  Message& m = at(message);
  m.at = now_ = time;
  if (m.work == 0) return expect(message);
  users_[m.out].push_back(message);
  share_out(m.out);
}

void PortRates::begin_recv(int message, double time) {
  Message& m = at(message);
  now_ = time;
  advance(m);
  m.receiving = true;
  m.behind = m.sent > 0;
  if (m.work == 0) return expect(message);
  users_[m.in].push_back(message);
  share_in(m.in);
}

double PortRates::next() {
  while (!agenda_.empty() && agenda_.top().changes != at(agenda_.top().message).changes)
    agenda_.pop();
  return agenda_.empty() ? std::numeric_limits<double>::infinity() : agenda_.top().time;
}

auto PortRates::finish_next() -> Done {
  const Due due = agenda_.top();
  agenda_.pop();
  now_ = due.time;
  Message& m = at(due.message);
  advance(m);
  ++m.changes;
  Done done{due.message, due.what == What::sent, due.what == What::received};
  if (due.what == What::caught_up) {
    m.received = m.sent;
    m.behind = false;
  }
  if (done.sent) {
    m.has_left = true;
    done.received = m.receiving && !m.behind;
  }
  if (done.received) m.receiving = false;
  if (m.work == 0) return done;
  if (done.sent) std::erase(users_[m.out], due.message);
  if (done.received) std::erase(users_[m.in], due.message);
  if (done.sent) share_out(m.out);
  if (done.received || m.receiving) share_in(m.in);
  return done;
}

void PortRates::advance(Message& m) {
  const double passed = now_ - m.at;
  if (!m.has_left) m.sent = std::min(m.work, m.sent + m.out_rate * passed);
  if (m.receiving)
    m.received = m.behind ? std::min(m.sent, m.received + m.in_rate * passed) : m.sent;
  m.at = now_;
}

void PortRates::share_out(int port) {
  const std::vector<int>& users = users_[port];
  for (const int each : users) {
    advance(at(each));
    at(each).out_rate = 1.0 / static_cast<double>(users.size());
  }
  for (const int each : users) at(each).receiving ? share_in(at(each).in) : expect(each);
}

void PortRates::share_in(int port) {
  std::vector<int> open = users_[port];
  double left = 1, fair = 0;
  for (size_t before = 0; before != open.size();) {
    before = open.size();
    fair = left / static_cast<double>(before);
    std::erase_if(open, [&](int each) {
      Message& m = at(each);
      advance(m);
      const double most = m.behind ? 1 : m.out_rate;
      if (most > fair * rounding) return false;
      left -= m.in_rate = most;
      return true;
    });
  }
  for (const int each : open) {
    at(each).in_rate = fair;
    at(each).behind = true;
  }
  for (const int each : users_[port]) expect(each);
}

void PortRates::expect(int message) {
  Message& m = at(message);
  Due due{std::numeric_limits<double>::infinity(), message, What::sent, ++m.changes};
  const auto consider = [&](double work, double rate, What what) {
    const double time = work > 0 ? m.at + work / rate : m.at;
    if (time < due.time) due.time = time, due.what = what;
  };
  if (!m.has_left) consider(m.work - m.sent, m.out_rate, What::sent);
  if (m.receiving && m.has_left)
    consider(m.work - m.received, m.in_rate, What::received);
  else if (m.receiving && m.behind && m.in_rate > m.out_rate * rounding)
    consider(m.sent - m.received, m.in_rate - m.out_rate, What::caught_up);
  if (due.time < std::numeric_limits<double>::infinity()) agenda_.push(due);
}
#endif  // YOTTA_BODIES

}  // namespace yotta
