// The pictures of lesson 30: goodput for every interval between snapshots, with Young's and Daly's,
// and simulated runs beside the formula; which detector finds which flipped bit; a pipeline that
// reroutes. The fourth, of a run in which ranks die, is drawn by survival_picture.hpp from
// lessons/30_failures/run.json.
//
// The files in course/pictures/ are what `./yotta lesson 30 -- --draw 1` writes.
#pragma once

#include <string>

#include "yotta/resilience/rerouted_pipeline.hpp"

namespace yotta {

// A snapshot of 10 s, and 60 s down after a failure.
inline constexpr double picture_save = 10, picture_down = 60;
std::string intervals_svg();
std::string flips_svg();

inline constexpr PipelineReplicas rerouted_job{3, 3, 4};
inline constexpr StageOfReplica rerouted_dead[] = {{1, 1}};
std::string reroute_svg();

}  // namespace yotta
