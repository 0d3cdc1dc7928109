// Head: the last entry of a transformer's stack. Norm, then a logit for every token of the vocabulary.
//
//     x (B, T, C) ──> norm ──> (V, C) matrix ──> logits (B, T, V)        2 V C FLOPs a token
//
// Tied: the matrix is the embedding's table, which then has two uses and one gradient.
#pragma once

#include "yotta/nn/norm_layer.hpp"

namespace yotta {

class Head : public Composite {
 public:
  Head(const NormOptions& norm, int64_t vocabulary, Initial initial,
       const ParameterOptions& made = {})
      : Composite("head"),
        norm_("norm", norm, made),
        linear_("head", {norm.width, vocabulary, false, initial}, made) {}
  Head(const NormOptions& norm, ParameterPtr table, const ParameterOptions& made = {})
      : Composite("head"), norm_("norm", norm, made), linear_("head", std::move(table)) {}

  Tensor forward(const Tensor& x, Saved& saved) override {
    return run(linear_, run(norm_, x, saved), saved);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    return run_back(norm_, run_back(linear_, dy, saved), saved);
  }

 protected:
  std::vector<Layer*> parts() override { return {&norm_, &linear_}; }

 private:
  Norm norm_;
  Linear linear_;  // (V, C)
};

}  // namespace yotta
