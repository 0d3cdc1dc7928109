// Figures of real runs: ranks do not run in a page, so every setting is run when the site is made.
#pragma once

#include "course/book/figures/figure.hpp"

namespace book {

// In the files of their names. Their code is part of a program, and not one by itself.
Figure steps_figure();
Figure buckets_figure();
Figure breathing_figure();
Figure cuts_figure();
Figure tokens_figure();
Figure waterfall_figure();
Figure measured_figure();

// {about, answers by request}, for every setting: what a page looks up.
std::string record(const Figure& figure);

}  // namespace book
