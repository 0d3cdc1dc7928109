// The bodies of machine/port_rates.hpp.
#pragma once

#include "yotta/machine/port_rates.hpp"

#include <algorithm>

namespace yotta {

YOTTA_INLINE int PortRates::add(int out, double work) {
  messages_.push_back({});
  messages_.back().out = out;
  messages_.back().work = work;
  return static_cast<int>(messages_.size()) - 1;
}
YOTTA_INLINE void PortRates::enters_by(int message, int in) { at(message).in = in; }

YOTTA_INLINE void PortRates::begin_send(int message, double time) {
  Message& m = at(message);
  m.at = now_ = time;
  if (m.work == 0) return expect(message);
  users_[m.out].push_back(message);
  share_out(m.out);
}

YOTTA_INLINE void PortRates::begin_recv(int message, double time) {
  Message& m = at(message);
  now_ = time;
  advance(m);
  m.receiving = true;
  m.behind = m.sent > 0;
  if (m.work == 0) return expect(message);
  users_[m.in].push_back(message);
  share_in(m.in);
}

YOTTA_INLINE double PortRates::next() {
  while (!agenda_.empty() && agenda_.top().changes != at(agenda_.top().message).changes)
    agenda_.pop();
  return agenda_.empty() ? std::numeric_limits<double>::infinity() : agenda_.top().time;
}

YOTTA_INLINE auto PortRates::finish_next() -> Done {
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

YOTTA_INLINE void PortRates::advance(Message& m) {
  const double passed = now_ - m.at;
  if (!m.has_left) m.sent = std::min(m.work, m.sent + m.out_rate * passed);
  if (m.receiving)
    m.received = m.behind ? std::min(m.sent, m.received + m.in_rate * passed) : m.sent;
  m.at = now_;
}

YOTTA_INLINE void PortRates::share_out(int port) {
  const std::vector<int>& users = users_[port];
  for (const int each : users) {
    advance(at(each));
    at(each).out_rate = 1.0 / static_cast<double>(users.size());
  }
  for (const int each : users) at(each).receiving ? share_in(at(each).in) : expect(each);
}

YOTTA_INLINE void PortRates::share_in(int port) {
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

YOTTA_INLINE void PortRates::expect(int message) {
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

}  // namespace yotta
