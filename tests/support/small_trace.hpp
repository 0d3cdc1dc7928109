// A trace small enough to know by heart.
//
//     rank 0   compute     [ matmul 0-4 ][adamw 4-5]
//              to rank 1                 [ halo 4-6 ]
//     rank 1   compute     [matmul 0-2][ wait 2-6   ][matmul 6-8]
//              from rank 0               [ halo 4-6 ]
#pragma once

#include "yotta/machine/trace.hpp"

namespace yotta_test {

inline yotta::Trace small_trace() {
  using yotta::EventKind;
  constexpr int to_rank_1 = 3, from_rank_0 = 2;
  yotta::Trace trace;
  trace.ranks.push_back({{EventKind::op, 0, 0, 4, "matmul", {}, -1, 100, 1e9},
                         {EventKind::send, to_rank_1, 4, 6, "halo", {0, 0}, 1, 64},
                         {EventKind::op, 0, 4, 5, "adamw", {0, 0}, -1, 8, 0}});
  trace.ranks.push_back({{EventKind::op, 0, 0, 2, "matmul", {}, -1, 100, 1e9},
                         {EventKind::wait, 0, 2, 6, "wait", {1, 2}},
                         {EventKind::recv, from_rank_0, 4, 6, "halo", {0, 1}, 0, 64},
                         {EventKind::op, 0, 6, 8, "matmul", {1, 1}, -1, 100, 1e9}});
  return trace;
}

}  // namespace yotta_test
