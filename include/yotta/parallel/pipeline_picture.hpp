// Pictures of a pipeline's timeline: for the terminal, and as SVG.
//
//     rank 0   F0 F1 F2 F3 .. .. B0--- B1---        one column per unit of time; .. is the bubble
//     rank 1   .. F0 F1 F2 F3 B0--- B1---
//
// Colour says what is done: F, B, I or W, also to readers who tell no red from green. The number is
// the microbatch. F&B run together: "F3&B1---", one box in the drawing. There a rank's later chunks
// are paler and idle time is hatched. There are two kinds of idle time: inside the rank's own span,
// from its first action to its last, and outside. By one clock for all ranks both are the bubble.
// Steps that follow each other at once cost the longest span each.
#pragma once

#include "yotta/parallel/pipeline_timeline.hpp"

namespace yotta {

// One line per rank. `unit` seconds are one column, three characters wide or as wide as the longest
// name; a chunk is told by its stage: "4F1". With `colored`, F, B, I and W have colours.
std::string picture(const PipelineTimeline& timeline, double unit = 1, bool colored = false);

// Idle seconds of a rank between its first action's begin and its last one's end.
double idle_inside(const std::vector<PipelineEvent>& events);

// "1F1B, p = 4, m = 8: 72.7% busy by one clock; idle inside a rank's own span: at most 9 of 33"
std::string caption(const PipelineTimeline& timeline);

// The timeline as a drawing `width` pixels wide, with a title, a legend and an axis of time.
std::string svg(const PipelineTimeline& timeline, const std::string& title, double width = 900);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/parallel/impl/pipeline_picture.ipp"
#endif
