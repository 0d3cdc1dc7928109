// The picture of a step of DDP on 4 ranks, as SVG: which sequences each rank takes, what it
// computes, and when its gradients travel. It is drawn from the timeline of Ddp itself, on a
// machine that is only described.
//
//     rank 0   sequences 0, 1   | F0 | F1 | ... | B3      | B2      | ...
//                                                   | all_reduce 3 | all_reduce 2 | ...
//
// The file in course/pictures/ is what `./yotta lesson 13 -- --draw 1` writes.
#pragma once

#include <string>

#include "yotta/machine/trace.hpp"

namespace yotta {

constexpr int ddp_picture_ranks = 4, ddp_picture_layers = 4, ddp_picture_sequences = 8;

// Forward takes 1 s per layer, backward 2 s, an all_reduce of a layer's gradient 1.5 s.
Trace ddp_picture_trace();

std::string ddp_svg();

}  // namespace yotta
