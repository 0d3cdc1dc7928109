// Who holds which block of a feed-forward layer's matrices on two ranks, and where f and g send, as
// SVG.
//
//     forward   x ─ f ─┬─ rank 0:  x  A0  h0  act  B0  y0 ─┬─ g ─ y   the upper half of the picture
//                      └─ rank 1:  x  A1  h1  act  B1  y1 ─┘
//     backward  the same blocks, from dy to dx                        the lower half
//
// Every block and every number of bytes is asked of the layer itself: cut_by_columns, cut_by_rows,
// and what Mlp sends. The file in course/pictures/ is what `./yotta lesson 20 -- --draw 1` writes.
#pragma once

#include <cstdint>
#include <string>

namespace yotta {

// What one of the two ranks holds and sends.
struct TensorParallelShare {
  int64_t first_column = 0, columns = 0;        // of A (C, F)
  int64_t first_row = 0, rows = 0;              // of B (F, C)
  int64_t sent_forward = 0, sent_backward = 0;  // numbers, in g and in f
};

// Of rank `rank` of two, from the library's layer, run forward and backward on two ranks.
TensorParallelShare tensor_parallel_share(int rank);

std::string tensor_parallel_svg();

}  // namespace yotta
