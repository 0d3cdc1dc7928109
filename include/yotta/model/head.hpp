// Head: the last entry of a transformer's stack. Norm, then a logit for every token of the
// vocabulary.
//
//     x (B, T, C) ──> norm ──> (V, C) matrix ──> logits (B, T, V)        2 V C FLOPs per token
//
// With tensor parallelism each rank has V/tp rows of the matrix and gives that part of the logits:
// f in front, nothing behind, since the loss takes them as they are (parallel/vocab_parallel.hpp).
// Tied: the matrix is the embedding's table, which then has two uses and one gradient.
#pragma once

#include <array>

#include "yotta/nn/norm_layer.hpp"
#include "yotta/parallel/async_tp_layers.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

namespace yotta {

class Head : public Composite {
 public:
  Head(const NormOptions& norm, int64_t vocabulary, Initial initial,
       const ParameterOptions& made = {}, const Communicator& tp = {}, const SequenceCut& cut = {})
      : Composite("head"),
        norm_("norm", norm, made),
        f_(tp, cut),
        linear_("head", cut_by_tokens({norm.width, vocabulary, false, initial}, tp), made),
        vocabulary_(vocabulary),
        tp_(tp),
        cut_(cut) {}
  // `table`: this rank's part, (V/tp, C).
  Head(const NormOptions& norm, const ParameterPtr& table, const ParameterOptions& made = {},
       const Communicator& tp = {}, const SequenceCut& cut = {})
      : Composite("head"),
        norm_("norm", norm, made),
        f_(tp, cut),
        linear_("head", table),
        vocabulary_(table->range.all_rows()),
        tp_(tp),
        cut_(cut) {}

  // x (B, T, C) -> logits (B, T, V/tp)
  Tensor forward(const Tensor& x, Saved& saved) override {
    const Tensor normed = run(norm_, x, saved);
    Tensor logits = in_pieces(tp_, cut_) ? async_forward({&linear_}, normed, tp_, cut_, saved)[0]
                                         : run(linear_, f_.forward(normed), saved);
    f_.tokens().drop_gathered(std::array<Layer*, 1>{&linear_}, normed, saved);
    mask_padding(logits, vocabulary_, tp_);
    return logits;
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    return run_back(norm_,
                    in_pieces(tp_, cut_) ? async_backward({&linear_}, {dy}, tp_, cut_, saved)
                                         : f_.backward(run_back(linear_, dy, saved)),
                    saved);
  }
  void backward_weight(Saved& saved) override {
    f_.tokens().gather_again(std::array<Layer*, 1>{&linear_}, saved);
    Composite::backward_weight(saved);
  }

 protected:
  std::vector<Layer*> parts() override { return {&norm_, &linear_}; }

 private:
  Norm norm_;
  CopyToTensorParallel f_;
  Linear linear_;  // (V/tp, C)
  int64_t vocabulary_;
  Communicator tp_;
  SequenceCut cut_;
};

}  // namespace yotta
