// Asynchronous SGD as SVG: ranks that fetch the server's weights, compute, and send a gradient that
// is some steps old by then; and what that does to the smallest descent.
//
//     server   | 0  | 1 | 2 | 3 | 4 ...          weights' number
//     rank 0   |  with 0       |  with 4 ...     arrives after 3 others: 3 steps old
//     rank 1      |  with 1 ...
//
// The file course/pictures/staleness.svg is what `./yotta lesson 13 -- --draw 1` writes.
#pragma once

#include <string>
#include <vector>

namespace yotta {

// One gradient: who computed it, from when to when, from which weights, and which the server had
// when it came.
struct StaleGradient {
  int rank;
  double begin, end;
  int computed_with, applied_to;

  int steps_old() const { return applied_to - computed_with; }
};

// The gradients that arrive in `seconds`, in the order of their arrival. Each takes a second; rank
// r of p begins at r / p.
std::vector<StaleGradient> stale_gradients(int p, double seconds);

// The weights of `steps` steps down the loss w^2 / 2, from 1, when each gradient is that of the
// weights `staleness` steps ago.
std::vector<double> stale_descent(double rate, int staleness, int steps);

std::string staleness_svg();

}  // namespace yotta
