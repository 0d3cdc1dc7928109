// The bodies of model/embedding_layer.hpp.
#pragma once

#include "yotta/model/embedding_layer.hpp"

#include "yotta/nn/embedding.hpp"

namespace yotta {

YOTTA_INLINE TokenEmbedding::TokenEmbedding(std::string name, const EmbeddingOptions& options,
                                            const ParameterOptions& made, const LayerAxes& axes)
    : Layer(std::move(name)),
      tokens_(this->name() + ".token", options.vocabulary, options.width, options.initial, made,
              axes.tp, axes.sequence),
      tp_(axes.tp),
      cut_(axes.sequence),
      dropout_(this->name() + ".dropout", options.dropout, axes.tp, axes.sequence) {
  if (options.positions > 0)
    positions_ =
        Use(make_parameter(this->name() + ".position.weight", {options.positions, options.width},
                           true, options.initial, made.seed, made.dtype));
}

YOTTA_INLINE Tensor TokenEmbedding::forward(const Tensor& ids, Saved& saved) {
  if (ids.ndim() != 2)
    fail(Where::current(), "{}: ids are {}, expected (B, T) i32", name(), ids.describe());
  const int64_t B = ids.dim(0), T = ids.dim(1);
  if (cuts() && T != cut_.T)
    fail(Where::current(),
         "{}: a sequence of {} tokens, but sequence parallelism was made for sequences of {}",
         name(), T, cut_.T);
  Tensor x = tokens_.forward(ids.reshape({B * T}), saved.child(tokens_.name()));
  if (cuts()) {
    if (positions_.defined()) {
      const Tensor own = token_positions(ids, B * T, saved.position().positions, tp_, cut_);
      add_into(x, as_type(embedding(own, positions_.parameter()->value), x.dtype()));
      saved.keep("positions", own);
    }
    return dropout_.forward(x, saved.child(dropout_.name()));
  }
  if (positions_.defined() && B * T > 0)
    add_positions(x, positions_.parameter()->value, T, saved.position().positions);
  return dropout_.forward(x.reshape({B, T, x.dim(1)}), saved.child(dropout_.name()));
}

YOTTA_INLINE Tensor TokenEmbedding::backward_input(const Tensor& dy, Saved& saved) {
  const Tensor dx = dropout_.backward_input(dy, saved.child(dropout_.name()));
  if (positions_.defined()) saved.keep("dy", dx);
  return tokens_.backward_input(as_rows(dx), saved.child(tokens_.name()));
}

YOTTA_INLINE void TokenEmbedding::backward_weight(Saved& saved) {
  tokens_.backward_weight(saved.child(tokens_.name()));
  if (!positions_.defined()) return;
  const Tensor dy = saved.take("dy");
  if (cuts())
    embedding_backward(dy, saved.take("positions"), positions_.grad());
  else if (dy.numel() > 0)
    positions_backward(as_rows(dy), positions_.grad(), dy.dim(1), saved.position().positions);
  positions_.mark_grad_ready();
}

YOTTA_INLINE void TokenEmbedding::add_parameters(std::vector<ParameterPtr>& to) {
  tokens_.add_parameters(to);
  if (positions_.defined()) to.push_back(positions_.parameter());
}

}  // namespace yotta
