// MLP walk: matrices that a rank of tp has a part of, and the feed-forward layer made of them.
//
//     columns     all tokens x a cut of the outputs     gather before, or in pieces beside
//     row         a cut of the inputs x all outputs     sum after, or in pieces beside
//     MLP         columns (up, and gate with SwiGLU), activation, row (down)
//
// They go through the code of nn/transformer.hpp, parallel/tensor_parallel.hpp and of what stands
// on them line by line.
// An attention layer's q k v and o are columns and a row too (block_walk.hpp); a mixture's shared
// expert is an MLP without biases (mixture_walk.hpp).
// Letters: as in layer_sizes.hpp.
#pragma once

#include <initializer_list>

#include "yotta/plan/layer_walk.hpp"

namespace yotta {

class MlpWalk : public LayerWalk {
 public:
  MlpWalk(const LayerSizes& z, const PlanGroups& groups, const StepWalk& walk)
      : LayerWalk(z, groups, walk), has_bias_(z.is_gpt2) {}

  // ---- layers that read one gathered x ----
  void columns(std::initializer_list<int64_t> outputs);
  void columns_input(std::initializer_list<int64_t> outputs);
  // For W, where x was dropped once it had been read.
  void gather_again(std::initializer_list<int64_t> outputs);
  void column_weight(int64_t outputs);

  // ---- a layer whose sums all ranks of tp have parts of ----
  void row(int64_t inputs);
  void row_input(int64_t inputs);

  // ---- MLP of width F, biases included where the layer has them ----
  void mlp_forward(int64_t F, bool has_bias);
  void mlp_input(int64_t F);
  void mlp_weight(int64_t F, bool has_bias);

 protected:
  double heads(int64_t size) const { return bytes(z_.N * size); }  // all tokens'
  bool drops_gathered() const { return z_.shares_tokens && !z_.keeps_gathered; }

  bool has_bias_;

 private:
  double matmul(const char* name, int64_t rows, int64_t outputs, int64_t inputs) const;
  double with_bias(int64_t outputs) const;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/mlp_walk.ipp"
#endif
