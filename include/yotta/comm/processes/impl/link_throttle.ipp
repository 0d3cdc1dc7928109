// The bodies of comm/processes/link_throttle.hpp.
#pragma once

#include "yotta/comm/processes/link_throttle.hpp"

#include <charconv>
#include <cmath>

namespace yotta {

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

YOTTA_INLINE LinkSpeed parse_link(const std::string& text, Where where) {
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

}  // namespace yotta
