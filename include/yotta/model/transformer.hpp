// The transformer: a stack of layers, in one of two dialects.
//
//     entry          0            1 ... L                 L + 1
//                    embedding    layers.0 ... L-1        head
//     takes          ids (B, T)   x (B, T, C)             x (B, T, C)
//     gives          (B, T, C)    (B, T, C)               logits (B, T, V)
//
// Any slice of the stack is a model of its own: a pipeline stage, an FSDP unit. A slice is built
// with the values it has in the whole model. A tied table that is in the slice twice is one
// parameter with two uses; if a slice has only the head, it has a copy of its own, with the same
// initial values.
//
// On a mesh each rank holds its part of every layer (parallel/), with the values it has in the
// whole model: heads, feed-forward width and vocabulary are cut over tp, and logits are (B, T,
// V/tp). Without axes, or with axes of one rank, the same code is the serial model.
//
//     Transformer model(gpt2_config(6, 384, 6, 256, 256));
//     Transformer part(config, mesh.layer_axes());          // a part of each layer, on a mesh
//     Saved saved(position);
//     Tensor logits = forward(model.stack(), ids, saved);
//
// All local sizes are derived in block_options() and the like, from the configuration, and nowhere
// else. Initial weights as GPT-2: normal with deviation 0.02; what is added to the residual stream
// (attention.o, mlp.down) divided by sqrt(2 L), since 2 L such terms are summed; biases 0, norms 1.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "yotta/comm/mesh.hpp"
#include "yotta/model/config.hpp"
#include "yotta/nn/layer.hpp"

namespace yotta {

// The table that a tied model uses twice.
inline constexpr const char* tied_table = "embedding.token.weight";

// Throws unless tp ranks can share the model's widths evenly (the vocabulary is padded); names the
// nearest number of ranks that can. `works`: what else a number of ranks must keep, to be named;
// empty: nothing.
void expect_divides(const TransformerConfig& c, int tp, Where where = Where::current(),
                    const std::function<bool(int)>& works = {});

class Transformer {
 public:
  // Entries of the whole stack: embedding, blocks, head.
  static constexpr int64_t entries(const TransformerConfig& config) { return config.layers + 2; }

  explicit Transformer(const TransformerConfig& config, const LayerAxes& axes = {},
                       Where where = Where::current())
      : Transformer(config, 0, entries(config), axes, where) {}
  // Entries [first, last) of the stack.
  Transformer(const TransformerConfig& config, int64_t first, int64_t last,
              const LayerAxes& axes = {}, Where where = Where::current());

  const TransformerConfig& config() const { return config_; }
  Layers stack() const { return layers_; }

 private:
  LayerPtr make(int64_t entry);
  LayerPtr make_head(const ParameterOptions& made);

  TransformerConfig config_;
  std::vector<LayerPtr> layers_;
  LayerAxes axes_;
  ParameterPtr table_;  // (V/tp, C), if tied
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/transformer.ipp"
#endif
