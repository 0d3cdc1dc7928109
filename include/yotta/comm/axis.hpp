// An axis of the mesh as a layer sees it: a communicator that may be empty.
//
//     Communicator tp = mesh[Axis::tp];      axis_size 2, axis_rank 0 or 1
//     Communicator tp;                       axis_size 1, axis_rank 0: not split, nothing to send
//
// A layer takes the communicators of the axes that split it, empty ones by default. With size 1
// there is nobody to send to, and the same code is the serial layer.
#pragma once

#include <vector>

#include "yotta/comm/collectives_common.hpp"

namespace yotta {

// Ranks along an axis; 1 if the communicator is empty.
template <class Comm>
int axis_size(const Comm& axis) {
  return axis.is_member() ? axis.size() : 1;
}

// This rank's coordinate on it; 0 if the communicator is empty.
template <class Comm>
int axis_rank(const Comm& axis) {
  return axis.is_member() ? axis.rank() : 0;
}

// One number from each rank, summed for all: a loss, the squares of a norm. All ranks call. With
// one rank the result is `mine`.
template <class Comm>
double sum_over(Comm axis, double mine, const char* label, Where where = Where::current()) {
  if (axis_size(axis) == 1) return mine;
  std::vector<double> sum = {mine};
  axis.all_reduce(sum, ReduceOp::sum, {.label = label}, where);
  return sum[0];
}

}  // namespace yotta
