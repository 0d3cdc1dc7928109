// The MLP whose tokens travel in pieces: async_tp_layers.hpp in tensor_parallel.hpp's Mlp.
//
//     x (n, C) ──gather, times up (and gate)──> h (B, T, F/tp) ──> a ──times down, scatter──> y
//     dx       <──scatter, times up' (gate')─── dh            <── da <──times down', gather── dy
//
// down_ does its own part (RowParallelLinear). Without pieces this is an Mlp.
// Cost and letters: async_tp.hpp, tensor_parallel.hpp. Reference: async_tp.hpp.
#pragma once

#include "yotta/nn/activations.hpp"
#include "yotta/parallel/async_tp_layers.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

namespace yotta {

class AsyncMlp : public Mlp {
 public:
  AsyncMlp(std::string name, const MlpOptions& o, const ParameterOptions& init = {},
           const Communicator& tp = {}, const SequenceCut& cut = {})
      : Mlp(std::move(name), o, init, tp, cut), tp_(tp), cut_(cut) {}

  // Both (n, C) -> (n, C); without pieces as Mlp.
  Tensor forward(const Tensor& x, Saved& saved) override {
    if (!in_pieces(tp_, cut_)) return Mlp::forward(x, saved);
    const std::vector<Tensor> made = async_forward(matrices(), x, tp_, cut_, saved);
    const Tensor& h = made.back();  // (B, T, F/tp)
    saved.keep("h", h);
    if (gate_ != nullptr) saved.keep("gate", made.front());
    const Tensor y = run(down_, gate_ != nullptr ? swiglu(made.front(), h) : gelu(h), saved);
    f_.tokens().drop_gathered(readers(), x, saved);
    return run(dropout_, y, saved);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    if (!in_pieces(tp_, cut_)) return Mlp::backward_input(dy, saved);
    const Tensor dactive = run_back(down_, run_back(dropout_, dy, saved), saved);
    const Tensor h = saved.take("h");
    if (gate_ == nullptr)
      return async_backward(matrices(), {gelu_backward(dactive, h)}, tp_, cut_, saved);
    const SwigluGradients d = swiglu_backward(dactive, saved.take("gate"), h);
    return async_backward(matrices(), {d.dgate, d.dup}, tp_, cut_, saved);
  }

 private:
  // that read x: up_, or gate_ and up_
  std::vector<Linear*> matrices() {
    if (gate_ == nullptr) return {&up_};
    return {gate_.get(), &up_};
  }
  Communicator tp_;
  SequenceCut cut_;
};

}  // namespace yotta
