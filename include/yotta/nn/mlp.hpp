// Mlp: a transformer block's feed-forward half, C -> F -> C.
//
//     gelu (GPT-2)     x ──> up ──> h ──> gelu ──> down ──> dropout ──> y          2 C F weights
//
//     swiglu (Llama)   x ─┬> gate ─> g ─> silu ─┐
//                         └> up ───> h ─────────*──> down ──> dropout ──> y        3 C F weights
//
// Keeps x, h (and g), and the activation's output, which is down's input.
// FLOPs: 2 a weight and token forward, 4 backward. Letters: C width, F feed-forward width.
// Tensor parallelism cuts up and gate by columns of F and down by rows of F.
#pragma once

#include "yotta/nn/activations.hpp"
#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/linear.hpp"

namespace yotta {

enum class MlpKind : uint8_t { gelu, swiglu };

struct MlpOptions {
  MlpKind kind = MlpKind::gelu;
  int64_t width = 1, hidden = 4;  // C, F
  bool bias = true;
  double dropout = 0;
  Initial initial = normal(0.02);
  Initial initial_down = normal(0.02);  // of what is added to the residual stream
};

class Mlp : public Composite {
 public:
  Mlp(std::string name, const MlpOptions& o, const ParameterOptions& made = {})
      : Composite(std::move(name)),
        up_(this->name() + ".up", {o.width, o.hidden, o.bias, o.initial}, made),
        down_(this->name() + ".down", {o.hidden, o.width, o.bias, o.initial_down}, made),
        dropout_(this->name() + ".dropout", o.dropout) {
    if (o.kind == MlpKind::swiglu)
      gate_ = std::make_unique<Linear>(this->name() + ".gate",
                                       LinearOptions{o.width, o.hidden, o.bias, o.initial}, made);
  }

  // x (B, T, C) -> (B, T, C)
  Tensor forward(const Tensor& x, Saved& saved) override {
    Tensor active;  // (B, T, F)
    const Tensor h = run(up_, x, saved);
    saved.keep("h", h);
    if (gate_ != nullptr) {
      const Tensor g = run(*gate_, x, saved);
      saved.keep("g", g);
      active = swiglu(g, h);
    } else {
      active = gelu(h);
    }
    return run(dropout_, run(down_, active, saved), saved);
  }

  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    const Tensor dactive = run_back(down_, run_back(dropout_, dy, saved), saved);
    const Tensor h = saved.take("h");
    if (gate_ == nullptr) return run_back(up_, gelu_backward(dactive, h), saved);
    const SwigluGradients d = swiglu_backward(dactive, saved.take("g"), h);
    Tensor dx = run_back(up_, d.dup, saved);
    gate_->add_backward_input(dx, d.dgate, saved.child(gate_->name()));
    return dx;
  }

 protected:
  std::vector<Layer*> parts() override {
    std::vector<Layer*> all = {&up_, &down_, &dropout_};
    if (gate_ != nullptr) all.insert(all.begin(), gate_.get());
    return all;
  }

 private:
  Linear up_;    // (F, C)
  Linear down_;  // (C, F)
  Dropout dropout_;
  std::unique_ptr<Linear> gate_;  // (F, C), swiglu only
};

}  // namespace yotta
