// Lesson 26's pictures: 16 GPUs as a mesh, and what FSDP and tp send when N chips are shared
// between them. The files in course/pictures/ are what `./yotta lesson 26 -- --draw 1` writes.
#pragma once

#include <string>

#include "yotta/parallel/fsdp_tp_mixture.hpp"

namespace yotta {

std::string mesh_svg();     // tp 2, cp 2, pp 2, dp 2 on two nodes, and the groups of GPU 0
std::string mixture_svg();  // seconds sent by either, against X

// What the second picture and the lesson's table show: v5p's rates, two axes for FSDP, one for tp.
FsdpTpMixture pictured_mixture(double tokens_per_chip);

}  // namespace yotta
