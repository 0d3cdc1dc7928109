// TokenEmbedding: the first entry of a transformer's stack. Token ids in, vectors out.
//
//     ids (B, T) i32  ──> row of the table for each ──> + row of its position ──> dropout ──> (B, T, C)
//                            (V, C)                         (T max, C), GPT-2
//
//     F   keeps the ids        I   nothing below wants a gradient: returns an undefined tensor
//     W   adds each dy to its token's row and its position's row
//
// The table may also serve as the model's output matrix (tied): then it has a second use, see table().
#pragma once

#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/linear.hpp"

namespace yotta {

struct EmbeddingOptions {
  int64_t vocabulary = 1, width = 1;
  int64_t positions = 0;  // the longest sequence; 0: no learned positions
  double dropout = 0;
  Initial initial = normal(0.02);
};

class TokenEmbedding : public Layer {
 public:
  TokenEmbedding(std::string name, const EmbeddingOptions& options,
                 const ParameterOptions& made = {})
      : Layer(std::move(name)),
        table_(make_parameter(this->name() + ".token.weight", {options.vocabulary, options.width},
                              true, options.initial, made.seed, made.dtype)),
        dropout_(this->name() + ".dropout", options.dropout) {
    if (options.positions > 0)
      positions_ =
          Use(make_parameter(this->name() + ".position.weight", {options.positions, options.width},
                             true, options.initial, made.seed, made.dtype));
  }

  // ids (B, T) -> (B, T, C)
  Tensor forward(const Tensor& ids, Saved& saved) override {
    if (ids.ndim() != 2)
      fail(Where::current(), "{}: ids are {}, expected (B, T) i32", name(), ids.describe());
    saved.keep("ids", ids);
    const int64_t B = ids.dim(0), T = ids.dim(1);
    Tensor x = embedding(ids.reshape({B * T}), table_.value());
    if (positions_.defined() && B * T > 0)
      add_positions(x, positions_.value(), T, saved.place().first_position);
    return dropout_.forward(x.reshape({B, T, x.dim(1)}), saved.child(dropout_.name()));
  }

  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    saved.keep("dy", dropout_.backward_input(dy, saved.child(dropout_.name())));
    return {};
  }

  void backward_weight(Saved& saved) override {
    const Tensor ids = saved.take("ids"), dy = as_rows(saved.take("dy"));
    embedding_backward(dy, ids.reshape({ids.numel()}), table_.grad());
    table_.done();
    if (!positions_.defined()) return;
    if (ids.numel() > 0)
      positions_backward(dy, positions_.grad(), ids.dim(1), saved.place().first_position);
    positions_.done();
  }

  void add_parameters(std::vector<ParameterPtr>& to) override {
    to.push_back(table_.parameter());
    if (positions_.defined()) to.push_back(positions_.parameter());
  }

  const ParameterPtr& table() const { return table_.parameter(); }

 private:
  Use table_;      // (V, C)
  Use positions_;  // (T max, C)
  Dropout dropout_;
};

}  // namespace yotta
