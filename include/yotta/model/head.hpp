// Head: the last entry of a transformer's stack. Norm, then a logit for every token of the
// vocabulary.
//
//     x (B, T, C) ──> norm ──> (V, C) matrix ──> logits (B, T, V)        2 V C FLOPs per token
//
// With tensor parallelism each rank has V/tp rows of the matrix and gives that part of the logits:
// f in front, nothing behind, since the loss takes them as they are (parallel/vocab_parallel.hpp).
// Tied: the matrix is the embedding's table, which then has two uses and one gradient.
#pragma once

#include "yotta/nn/norm_layer.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

namespace yotta {

class Head : public Composite {
 public:
  Head(const NormOptions& norm, int64_t vocabulary, Initial initial,
       const ParameterOptions& made = {}, const Communicator& tp = {})
      : Composite("head"),
        norm_("norm", norm, made),
        f_(tp),
        linear_("head", cut_by_columns({norm.width, vocabulary, false, initial}, tp, "head"),
                made) {}
  // `table`: this rank's part, (V/tp, C).
  Head(const NormOptions& norm, ParameterPtr table, const ParameterOptions& made = {},
       const Communicator& tp = {})
      : Composite("head"), norm_("norm", norm, made), f_(tp), linear_("head", std::move(table)) {}

  // x (B, T, C) -> logits (B, T, V/tp)
  Tensor forward(const Tensor& x, Saved& saved) override {
    return run(linear_, f_.forward(run(norm_, x, saved)), saved);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    return run_back(norm_, f_.backward(run_back(linear_, dy, saved)), saved);
  }

 protected:
  std::vector<Layer*> parts() override { return {&norm_, &linear_}; }

 private:
  Norm norm_;
  CopyToTensorParallel f_;
  Linear linear_;  // (V/tp, C)
};

}  // namespace yotta
