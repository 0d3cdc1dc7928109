// Timelines: a trace as rows of bars, and as text for a terminal.
//
//     rank 0   compute           FFFFiwiwiwIIWW···OO    F  forward     31.2%  linear 24.0, gelu 7.2
//              dp                        aaaa AAA       A  all_reduce  12.0%  ddp.gradients
//     rank 1   compute           ffffIWIWIWiiww···oo    CAPITAL: on the critical path
//              dp                        aaaa AAA       ·: waiting
//                                0             1.2 ms
//              steps of rank 0   |step 0
//              passes of rank 0  |F  |backward    |O
//
// A row is a lane of a rank (trace.hpp). A bar is drawn by its kind: an op by its phase in the
// training step, a message by the collective that it belongs to, and where neither is known by its
// own name. Each kind has a sign in text, and in pictures a colour and a pattern, so that colour is
// never the only difference: patterns alone tell phases apart in a compute row, and collectives in
// a communicator's. Signs, colours and patterns are the same in all timelines. The pictures of
// timeline_file.hpp have the same rows and kinds.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "yotta/machine/trace.hpp"

namespace yotta {

// Lines on a colour: rising /, falling \, both, level or upright ones; or dots.
enum class Pattern : uint8_t { solid, rising, falling, dots, crossed, level, upright };

// How a kind is drawn.
struct TimelineLook {
  char sign;  // in text; a capital
  int color;  // of timeline_colors
  Pattern pattern;

  bool operator==(const TimelineLook&) const = default;
};

struct TimelineKind {
  std::string name;  // "forward", "all_reduce", "matmul"
  TimelineLook look;
  double share = 0;  // of all ranks' time; lanes overlap, so all kinds together may exceed 1
  std::vector<std::pair<std::string, double>> parts;  // its ops or labels, the largest share first
};

// An event as drawn. On a communicator's lane messages go both ways at once.
struct TimelineBar {
  double begin, end;
  int kind;  // of Timeline::kinds; -1: a wait
  bool critical;
  EventId event;
};

struct TimelineRow {
  int rank, lane;
  std::string name;  // of the lane
  std::vector<TimelineBar> bars;
};

// On the axis: from when to when a rank is in a step, or in a pass of it.
struct TimelineMark {
  double begin, end;
  std::string name, brief;  // "step 3", "3"; "forward", "F"

  bool operator==(const TimelineMark&) const = default;
};

struct Timeline {
  double seconds = 0;
  std::vector<TimelineKind> kinds;          // phases, communication, then others by time
  std::vector<TimelineRow> rows;            // by rank, then lane: compute, communicators, peers
  std::vector<TimelineMark> steps, passes;  // of rank 0
  int ranks_left_out = 0;
};

// name: by ops' names and messages' labels alone, for runs that consist of one kind.
enum class TimelineBy : uint8_t { kind, name };

// The rows of the first `most_ranks` ranks.
Timeline make_timeline(const Trace& trace, int most_ranks = 8, TimelineBy by = TimelineBy::kind);

// When a rank computes the steps that have a number (StepScope), and their passes: forward,
// backward (recomputation is in it) and optimizer.
std::vector<TimelineMark> step_marks(const Trace& trace, int rank);
std::vector<TimelineMark> pass_marks(const Trace& trace, int rank);

// The timeline as text, `width` cells from beginning to end. color: for a terminal.
std::string timeline_text(const Timeline& timeline, int width = 72, bool color = false);

// What each of the first ranks waited for: one line per rank with its three longest waits.
std::string waits_text(const Trace& trace, int most_ranks = 4);
// What one wait of `rank` was for: "rank 2 to compute", "its own message to arrive".
struct WaitedFor;
std::string wait_words(const WaitedFor& wait, int rank);

// 0.00123 -> "1.23 ms"
std::string time_text(double seconds);

// Colours that people who cannot tell red from green can tell apart, and light enough to write on.
// Source: Paul Tol, "Colour schemes" (2021), light.
inline constexpr std::array<const char*, 9> timeline_colors = {"#77aadd", "#ee8866", "#eedd88",
                                                               "#ffaabb", "#99ddff", "#44bb99",
                                                               "#bbcc33", "#aaaa00", "#dddddd"};
constexpr const char* timeline_color(int number) {
  return timeline_colors[static_cast<size_t>(number) % timeline_colors.size()];
}
// Of text, frames and the lines of patterns.
inline constexpr const char* timeline_ink = "#222222";

// How kinds are drawn: of phases, of collectives, and of what has neither, the one that takes most
// time first. From the last of these on there is one kind for the rest.
inline constexpr std::array<TimelineLook, 5> phase_looks = {{{'F', 0, Pattern::solid},
                                                             {'I', 1, Pattern::rising},
                                                             {'W', 2, Pattern::falling},
                                                             {'R', 3, Pattern::dots},
                                                             {'O', 5, Pattern::crossed}}};
inline constexpr std::array<TimelineLook, 7> communication_looks = {{{'M', 5, Pattern::level},
                                                                     {'B', 0, Pattern::dots},
                                                                     {'A', 6, Pattern::solid},
                                                                     {'S', 7, Pattern::rising},
                                                                     {'G', 4, Pattern::falling},
                                                                     {'X', 3, Pattern::crossed},
                                                                     {'C', 1, Pattern::upright}}};
inline constexpr std::array<TimelineLook, 9> other_looks = {{{'E', 4, Pattern::solid},
                                                             {'H', 1, Pattern::solid},
                                                             {'J', 8, Pattern::level},
                                                             {'K', 2, Pattern::crossed},
                                                             {'N', 3, Pattern::upright},
                                                             {'P', 6, Pattern::dots},
                                                             {'Q', 0, Pattern::rising},
                                                             {'T', 7, Pattern::falling},
                                                             {'Z', 8, Pattern::solid}}};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/pictures/impl/timeline.ipp"
#endif
