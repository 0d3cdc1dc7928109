// The pictures of lesson 28: memory against time of what the planner finds, the four cases as a map
// of batch and chips, and the techniques that it chooses by size.
//
// The files in course/pictures/ are what `./yotta lesson 28 -- --draw 1` writes.
#pragma once

#include <string>

#include "course/pictures/planner_recipe.hpp"
#include "yotta/plan/layout_limits.hpp"

namespace yotta {

// Llama 3 8B on 16 H100, 1M tokens per step.
PlanRequest planner_request();
// `what`: the title's words for what is planned.
std::string frontier_svg(
    const Plan& plan,
    const std::string& what = "layouts of Llama 3 8B on 16 H100, 1M tokens per step");

// Of H100: what a node's eight cards bring a chip, or what one card does.
BatchLimits h100_limits(double batch, double sequence, bool one_card = false);
// Of TPU v5p with FSDP on so many axes of its torus.
BatchLimits v5p_limits(double batch, double sequence, int axes);
std::string cases_svg();

std::string recipe_svg();

}  // namespace yotta
