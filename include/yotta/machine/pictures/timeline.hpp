// Timelines: a trace as rows of bars, and as text for a terminal.
//
//     rank 0   compute  AAAAAAAAaaaaa····bb     A  matmul  61.2%   a letter per op or message label
//              world            CCCCcccc        B  adamw   ...     CAPITAL: on the critical path
//     rank 1   compute  aaaaaaaaAAAA····bb                         ·  waiting
//              world            ccccCCCC
//              0 s                   1.2 ms
//
// A row is a lane of a rank (trace.hpp). The pictures of timeline_file.hpp have the same rows,
// names and colours. Names are numbered by the time they take, the longest first, so the colours of
// one program stay the same from run to run.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "yotta/machine/trace.hpp"

namespace yotta {

// An event as drawn. On a communicator's lane messages go both ways at once.
struct TimelineBar {
  double begin, end;
  int name;  // of Timeline::names; -1: a wait
  bool critical;
  EventId event;
};

struct TimelineRow {
  int rank, lane;
  std::string name;  // of the lane
  std::vector<TimelineBar> bars;
};

struct Timeline {
  double seconds = 0;
  std::vector<std::string> names;  // of ops and messages
  std::vector<double> shares;     // of all ranks' time, by name; lanes overlap: may exceed 1 in all
  std::vector<TimelineRow> rows;  // by rank, then lane: compute, communicators, peers
  int ranks_left_out = 0;
};

// The rows of the first `most_ranks` ranks. first: names that come before all others, in this
// order, whether they happen or not: so letters and colours mean the same in several timelines.
Timeline make_timeline(const Trace& trace, int most_ranks = 8,
                       const std::vector<std::string>& first = {});

// The timeline as text, `width` cells from beginning to end. color: for a terminal.
std::string timeline_text(const Timeline& timeline, int width = 72, bool color = false);

// What each of the first ranks waited for: one line per rank with its three longest waits.
std::string waits_text(const Trace& trace, int most_ranks = 4);

// 0.00123 -> "1.23 ms"
std::string time_text(double seconds);

// Colours that people who cannot tell red from green can tell apart, and light enough to write on.
// Source: Paul Tol, "Colour schemes" (2021), light.
inline constexpr std::array<const char*, 9> timeline_colors = {"#77aadd", "#ee8866", "#eedd88",
                                                               "#ffaabb", "#99ddff", "#44bb99",
                                                               "#bbcc33", "#aaaa00", "#dddddd"};
constexpr const char* timeline_color(int name) {
  return timeline_colors[static_cast<size_t>(name) % timeline_colors.size()];
}

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/pictures/impl/timeline.ipp"
#endif
