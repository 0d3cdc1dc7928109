// DiLoCo as SVG: loss against tokens, bytes and seconds on cities; and the latency wall.
//
// course/pictures/diloco.svg is drawn from bench/results/diloco_curves.json, which bench/diloco_curves.cpp measured, and
// latency_wall.svg from plan/latency_wall.hpp. `./yotta lesson 31 -- --draw 1` writes both.
#pragma once

#include <string>

namespace yotta {

// `curves`: the text of diloco_curves.json.
std::string diloco_svg(const std::string& curves);

std::string latency_wall_svg();

// The table of diloco_grid.json, which bench/diloco_grid.cpp measured: losses, with their standard deviations.
std::string diloco_grid_text(const std::string& grid);

}  // namespace yotta
