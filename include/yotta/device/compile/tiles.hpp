// One operation of a graph on a tile of numbers, and on whole tensors.
//
//     operand 0   [ . . . . . . . . ]     step 1: neighbours in memory
//     operand 1   [ . ]                   step 0: one number for all
//     result      [ . . . . . . . . ]
//
// This is how operations run one at a time, and what a fused kernel consists of where there is no
// compiler: the same loops, on tiles that stay in the cache.
#pragma once

#include "yotta/device/graph.hpp"

namespace yotta {

template <class Real>
struct Tile {
  const Real* data = nullptr;
  int64_t step = 1;
};

// Where a tile begins in its value: what made nodes depend on.
struct TilePlace {
  int64_t row = 0, column = 0, columns = 1;
};

// out[i] = op(in[0][i], ...) for i < count, an elementwise or a made operation.
void compute_tile(const Node& node, const std::vector<Tile<float>>& in, TilePlace place,
                  int64_t count, float* out);
void compute_tile(const Node& node, const std::vector<Tile<double>>& in, TilePlace place,
                  int64_t count, double* out);
// The sum or the largest of the row x.
float reduce_tile(Op op, Tile<float> x, int64_t count);
double reduce_tile(Op op, Tile<double> x, int64_t count);

// The result of a node, from its operands, in a new tensor of the node's size. Charges nothing.
// Errors: a type other than f32 and f64; all_reduce, which needs ranks.
Tensor run_node(const Node& node, DType dtype, const std::vector<Tensor>& in, Where where);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/compile/impl/tiles.ipp"
#endif
