// Who holds which part of a matrix, as text and as SVG: lesson 11's pictures.
//
//     A[I_X, J_Y] on {X 2, Y 2}        J0      J1
//                               I0      0       2
//                               I1      1       3
//
// Blocks are asked of held_box, products of product_of, collectives of the planner. The files in
// course/pictures/ are what `./yotta lesson 11 -- --draw 1` writes.
#pragma once

#include <string>
#include <vector>

#include "yotta/sharding/sharded_matrices.hpp"

namespace yotta {

// A block of a matrix, cut as finely as the axes cut it, and the ranks that hold it.
struct HeldBlock {
  Box box;
  std::vector<int> ranks;
};
// Blocks in the order of their place. Each dim has as many numbers as parts.
std::vector<HeldBlock> held_blocks(const Spread& spread, const NamedMesh& mesh);

// A line for each part of the first dim: the ranks that hold each block.
std::string spread_text(const Spread& spread, const NamedMesh& mesh);

std::string spreads_svg();               // six spreads of one matrix on four ranks
std::string product_cases_svg();         // the four cases of a product on two ranks
std::string feed_forward_spreads_svg();  // four techniques, their spreads and their collectives

}  // namespace yotta
