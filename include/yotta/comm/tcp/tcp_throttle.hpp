// A slow network card in software: what a process sends leaves at a given rate, after a given time.
//
//     put at 0 s       ready at 0.05 s     leaves, and the card is busy for bytes / rate
//     part 1  ├──────────┤████├
//     part 2  ├──────────┤    ████├        waits for the part before it, whoever it goes to
//
// So that a run over TCP on one machine feels a network between cities. Receiving is not slowed:
// what comes was slowed where it left.
#pragma once

#include <algorithm>
#include <string>

#include "yotta/core/error.hpp"
#if YOTTA_BODIES_OF(transports)
#include <charconv>
#include <cmath>
#endif  // YOTTA_BODIES

namespace yotta {

struct LinkSpeed {
  double bytes_per_second = 0;  // 0: as fast as it goes
  double latency = 0;           // seconds until a message begins to leave

  bool is_slow() const { return bytes_per_second > 0 || latency > 0; }
};

// "20Mbit/s", "1Gbit/s,50ms", "50ms". Errors: anything else; two rates or latencies; less than
// 1 kbit/s or more than a minute, with which a run would seem to hang.
YOTTA_API LinkSpeed parse_link(const std::string& text, Where where = Where::current());

// The card of one process. Times are seconds of a clock that the caller reads.
class TcpThrottle {
 public:
  TcpThrottle() = default;
  explicit TcpThrottle(LinkSpeed speed) : speed_(speed) {}

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

#if YOTTA_BODIES_OF(transports)
namespace detail {
// The number before a unit, if the text is a number and that unit.
inline double number_before(const std::string& text, const std::string& unit) {
  if (!text.ends_with(unit)) return -1;
  const std::string digits = text.substr(0, text.size() - unit.size());
  double number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && !digits.empty() && std::isfinite(number) && number > 0 ? number : -1;
}
}  // namespace detail

LinkSpeed parse_link(const std::string& text, Where where) {
  LinkSpeed speed;
  const auto set_once = [&](double& to, double value, const char* what) {
    if (to > 0) fail(where, "the link '{}' has two {}: give one", text, what);
    to = value;
  };
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    bool known = false;
    for (const auto& [unit, bits] : {std::pair{"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}})
      if (const double number = detail::number_before(word, unit); number > 0 && !known)
        set_once(speed.bytes_per_second, number * bits / 8, "rates"), known = true;
    if (const double number = detail::number_before(word, "ms"); number > 0)
      set_once(speed.latency, number / 1e3, "latencies"), known = true;
    if (!known)
      fail(where, "'{}' is not a link: give a rate, a latency or both, as 20Mbit/s or 1Gbit/s,50ms",
           text);
    begin = end + 1;
  }
  const double rate = speed.bytes_per_second * 8;
  if (rate > 0 && !(rate >= 1e3 && rate <= 1e15))
    fail(where, "the link '{}' has {} bit/s: give 1kbit/s to 1000000Gbit/s", text, rate);
  if (speed.latency > 60)
    fail(where, "the link '{}' has a latency of {} s: give 60000ms at most", text, speed.latency);
  return speed;
}
#endif  // YOTTA_BODIES

}  // namespace yotta
