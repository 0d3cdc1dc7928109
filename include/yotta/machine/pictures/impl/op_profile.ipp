// The bodies of machine/pictures/op_profile.hpp.
#pragma once

#include "yotta/machine/pictures/op_profile.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace yotta {

namespace detail {

// The row of an op and pass; a new one if there is none.
inline OpRow& row_of(std::vector<OpRow>& rows, const TraceEvent& op) {
  for (OpRow& row : rows)
    if (row.op == op.name && row.phase == op.phase) return row;
  return rows.emplace_back(OpRow{op.name, op.phase});
}

inline void add_event(OpProfile& profile, const TraceEvent& event, const OpRoof& roof) {
  if (event.kind != EventKind::op) {
    profile.wait_seconds += event.seconds();
    return;
  }
  OpRow& row = row_of(profile.rows, event);
  ++row.calls;
  row.flops += event.flops;
  row.bytes += static_cast<double>(event.bytes);
  row.seconds += event.seconds();
  row.roof_seconds += roof(event);
}

inline std::string op_line(const OpProfile& profile, const OpRow& row, std::string_view pass) {
  const double each = profile.ranks * static_cast<double>(profile.steps);
  const double share = 100 * row.seconds / profile.seconds;
  std::string line =
      fmt::format("  {:<26} {:<15} {:>7.4g} {:>9.4g} {:>7.1f}%", row.op, pass,
                  static_cast<double>(row.calls) / each, 1e3 * row.seconds / each, share);
  if (row.roof_seconds > 0)
    line += fmt::format(" {:>9.1f} {:>7.1f} {:>11.0f}%", row.flops / row.seconds / 1e9,
                        row.bytes / row.seconds / 1e9, 100 * row.roof_seconds / row.seconds);
  return line + "\n";
}

}  // namespace detail

YOTTA_INLINE OpProfile op_profile(const Trace& trace, double begin, double end, int64_t steps,
                                  const OpRoof& roof, Where where) {
  if (!(end > begin)) fail(where, "there is no time from {} s to {} s", begin, end);
  OpProfile profile;
  profile.ranks = static_cast<int>(trace.ranks.size());
  profile.steps = steps;
  profile.seconds = (end - begin) * profile.ranks;
  for (const std::vector<TraceEvent>& rank : trace.ranks)
    for (const TraceEvent& event : rank)
      if (event.lane == compute_lane && event.begin >= begin && event.end <= end)
        detail::add_event(profile, event, roof);
  profile.between_seconds = profile.seconds - profile.wait_seconds;
  for (const OpRow& row : profile.rows) profile.between_seconds -= row.seconds;
  std::stable_sort(profile.rows.begin(), profile.rows.end(),
                   [](const OpRow& a, const OpRow& b) { return a.seconds > b.seconds; });
  return profile;
}

YOTTA_INLINE std::string op_profile_text(const OpProfile& profile, double least) {
  std::string text =
      fmt::format("  {:<26} {:<15} {:>7} {:>9} {:>8} {:>9} {:>7} {:>12}\n", "op", "pass", "calls",
                  "ms", "of time", "GFLOP/s", "GB/s", "of its roof");
  OpRow others{"other ops"};
  for (const OpRow& row : profile.rows) {
    if (row.seconds >= least * profile.seconds) {
      text += detail::op_line(profile, row, name(row.phase));
      continue;
    }
    others.calls += row.calls;
    others.seconds += row.seconds;
  }
  if (others.calls > 0) text += detail::op_line(profile, others, "");
  const auto line = [&](const char* what, double seconds) {
    if (seconds < 5e-4 * profile.seconds) return;
    const double each = 1e3 / profile.ranks / static_cast<double>(profile.steps);
    text += fmt::format("  {:<50} {:>9.4g} {:>7.1f}%\n", what, each * seconds,
                        100 * seconds / profile.seconds);
  };
  line("waiting for other ranks", profile.wait_seconds);
  line("between ops", profile.between_seconds);
  return text;
}

}  // namespace yotta
