// The bodies of device/profile.hpp.
#pragma once

#include "yotta/device/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

namespace yotta {

YOTTA_INLINE Profile*& Profile::current() {
  static thread_local Profile* profile = nullptr;
  return profile;
}

YOTTA_INLINE LineCounts Profile::global_reads() const {
  return sum([](auto& x) { return !x.shared && !x.write; });
}

YOTTA_INLINE LineCounts Profile::global_writes() const {
  return sum([](auto& x) { return !x.shared && x.write; });
}

YOTTA_INLINE LineCounts Profile::shared_reads() const {
  return sum([](auto& x) { return x.shared && !x.write; });
}

YOTTA_INLINE LineCounts Profile::shared_writes() const {
  return sum([](auto& x) { return x.shared && x.write; });
}

YOTTA_INLINE int64_t Profile::global_bytes() const {
  return 32 * (global_reads().sectors + global_writes().sectors);
}

YOTTA_INLINE int64_t Profile::flops() const {
  return sum([](auto&) { return true; }).flops;
}

YOTTA_INLINE int64_t Profile::instructions(const std::string& name) const {
  const auto found = instructions_.find(name);
  return found == instructions_.end() ? 0 : found->second;
}

inline std::string row_of(const LineCounts& x) {
  const auto number = [](double value, bool has) {
    return has ? fmt::format("{:.1f}", value) : std::string("-");
  };
  const auto count = [](int64_t value) {
    return value > 0 ? fmt::format("{}", value) : std::string("-");
  };
  const bool memory = x.requests > 0;
  const std::string access =
      memory ? fmt::format("{:<5} {}", x.write ? "write" : "read", x.shared ? "shared" : "global")
             : "";
  return fmt::format(
      "{:<24} {:<13} {:>9} {:>15} {:>18} {:>10} {:>10}\n", fmt::format("{}:{}", x.file, x.line),
      access, count(x.requests), number(x.sectors_per_request(), memory && !x.shared),
      number(x.wavefronts_per_request(), memory && x.shared), count(x.bytes), count(x.flops));
}

YOTTA_INLINE std::string Profile::table() const {
  std::string text =
      fmt::format("{:<24} {:<13} {:>9} {:>15} {:>18} {:>10} {:>10}\n", "line", "access", "requests",
                  "sectors/request", "wavefronts/request", "bytes", "FLOPs");
  for (const LineCounts& each : lines_) text += row_of(each);
  for (const auto& [name, count] : instructions_)
    text += fmt::format("{:<38} {:>9}\n", name, count);
  return text;
}

// The order of a profile.
inline auto key(const LineCounts& x) {
  return std::tuple(std::string_view(x.file), x.line, x.shared, x.write);
}

YOTTA_INLINE void Profile::add(const LineCounts& counts) {
  const auto before = [](const LineCounts& a, const LineCounts& b) { return key(a) < key(b); };
  const auto at = std::lower_bound(lines_.begin(), lines_.end(), counts, before);
  if (at != lines_.end() && key(*at) == key(counts)) return add(*at, counts);
  lines_.insert(at, counts);
}

YOTTA_INLINE void Profile::add(LineCounts& to, const LineCounts& from) {
  to.requests += from.requests;
  to.accesses += from.accesses;
  to.bytes += from.bytes;
  to.sectors += from.sectors;
  to.wavefronts += from.wavefronts;
  to.ideal_wavefronts += from.ideal_wavefronts;
  to.flops += from.flops;
}

}  // namespace yotta
