// The pictures of lesson 29, drawn from what ./yotta bench scaling measured.
#pragma once

#include <string>

namespace yotta {

// Losses of each budget over N, and the parabola through them.
std::string scaling_isoflop_svg();

// The best N of each budget, the line through them, and the run that no fit has seen.
std::string scaling_optimum_svg();

// Steps to one loss over the batch, and the curve of the critical batch.
std::string scaling_batch_svg();

// Loss over the learning rate for four widths: standard, and muP.
std::string scaling_width_svg();

}  // namespace yotta
