// Layer: forward, and a backward pass in two halves.
//
// For y = f(x, w) and an incoming dy = dLoss/dy a backward pass computes two things: dx, which the
// layer below is waiting for, and dw, which is not needed before the optimizer's step. They are two
// calls:
//
//            x ──> forward ──> y               F   fills Saved
//           dx <── backward_input <── dy       I   dgrad: overwrites dx, keeps what wgrad needs
//     w.grad += backward_weight                W   wgrad: accumulates, uses Saved up
//
// A full backward pass B is I then W. Pipelines with no bubble delay W; the price is that x and dy
// stay in Saved until then.
//
// A model is a stack of layers with this one signature. A pipeline stage and an FSDP unit are
// slices of that stack, so the functions here take a span:
//
//     embedding │ layers.0 │ layers.1 │ layers.2 │ head
//     └──── stage 0 ───────┘└──────── stage 1 ───────────┘
//
// A layer holds no activations itself: the same layer serves many microbatches in flight, each with
// a Saved of its own. Cost: see each layer. dx of a layer of token ids is an undefined tensor.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "yotta/core/system/accelerator.hpp"
#include "yotta/nn/parameter.hpp"
#include "yotta/nn/saved.hpp"

namespace yotta {

class Layer {
 public:
  explicit Layer(std::string name) : name_(std::move(name)) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const std::string& name() const { return name_; }

  // F: y of x. Keeps in `saved` what the backward pass will read.
  virtual Tensor forward(const Tensor& x, Saved& saved) = 0;
  // I: dx of dy. Keeps in `saved` what backward_weight will read, drops the rest.
  virtual Tensor backward_input(const Tensor& dy, Saved& saved) = 0;
  // W: adds to the gradients of this layer's parameters, marks them ready, and uses `saved` up.
  virtual void backward_weight(Saved& saved) = 0;
  // Appends this layer's parameters in forward order, one entry per use.
  virtual void add_parameters(std::vector<ParameterPtr>& to) = 0;

 private:
  std::string name_;  // "layers.3.attention.q": names its parameters and its Saved
};

// What the parameters of a new layer are made from.
struct ParameterOptions {
  uint64_t seed = 0;
  DType dtype = DType::f32;
};

using LayerPtr = std::unique_ptr<Layer>;
using Layers = std::span<const LayerPtr>;  // a model, or a slice of one

// Every parameter of a stack once, in order of first use.
inline std::vector<ParameterPtr> parameters(Layers layers) {
  std::vector<ParameterPtr> all, distinct;
  for (const LayerPtr& layer : layers) layer->add_parameters(all);
  for (ParameterPtr& each : all)
    if (std::find(distinct.begin(), distinct.end(), each) == distinct.end())
      distinct.push_back(std::move(each));
  return distinct;
}

// Numbers in all parameters; shared ones count once.
inline int64_t parameter_count(Layers layers) {
  int64_t count = 0;
  for (const ParameterPtr& each : parameters(layers)) count += each->value.numel();
  return count;
}

// Before a step: backward_weight adds to what is there.
inline void zero_gradients(Layers layers) {
  for (const ParameterPtr& each : parameters(layers)) each->zero_grad();
}

// F of a whole stack.
inline Tensor forward(Layers layers, Tensor x, Saved& saved) {
  const PhaseScope phase(Phase::forward);
  for (const LayerPtr& layer : layers) {
    const RangeScope range(layer->name(), name(Phase::forward));
    x = layer->forward(x, saved.child(layer->name()));
  }
  return x;
}

// B of a whole stack: dx, with every layer's weight gradients accumulated on the way down.
inline Tensor backward(Layers layers, Tensor dy, Saved& saved) {
  for (size_t i = layers.size(); i-- > 0;) {
    Saved& own = saved.child(layers[i]->name());
    {
      const PhaseScope phase(Phase::backward_input);
      const RangeScope range(layers[i]->name(), name(Phase::backward_input));
      dy = layers[i]->backward_input(dy, own);
    }
    const PhaseScope phase(Phase::backward_weight);
    const RangeScope range(layers[i]->name(), name(Phase::backward_weight));
    layers[i]->backward_weight(own);
  }
  return dy;
}

// A layer made of layers: its weights are theirs.
class Composite : public Layer {
 public:
  using Layer::Layer;
  void backward_weight(Saved& saved) override {
    const std::vector<Layer*> all = parts();
    for (size_t i = all.size(); i-- > 0;) run_weight(*all[i], saved);
  }
  void add_parameters(std::vector<ParameterPtr>& to) override {
    for (Layer* part : parts()) part->add_parameters(to);
  }

 protected:
  virtual std::vector<Layer*> parts() = 0;  // in forward order
  // F, I and W of one part, with its own branch of this layer's Saved.
  static Tensor run(Layer& part, const Tensor& x, Saved& saved) {
    const PhaseScope phase(Phase::forward);
    return part.forward(x, saved.child(part.name()));
  }
  static Tensor run_back(Layer& part, const Tensor& dy, Saved& saved) {
    const PhaseScope phase(Phase::backward_input);
    return part.backward_input(dy, saved.child(part.name()));
  }
  static void run_weight(Layer& part, Saved& saved) {
    const PhaseScope phase(Phase::backward_weight);
    part.backward_weight(saved.child(part.name()));
  }
};

// "layers.0 to layers.3"; of a single layer its own name.
inline std::string name_of(Layers slice) {
  if (slice.empty()) return "nothing";
  const std::string& first = slice.front()->name();
  return slice.size() == 1 ? first : first + " to " + slice.back()->name();
}

// A slice, some neighbouring layers of a stack, as one layer: a pipeline stage for example.
//
//     embedding │ layers.0 │ layers.1 │ layers.2 │ head
//                └─ "layers.0 to layers.1" ─┘           forward: one after the other
//
// It refers to the layers and must not outlive them. Techniques that do something around a slice
// (drop its activations, gather its weights) derive from it.
class Sequential : public Composite {
 public:
  explicit Sequential(Layers layers) : Composite(name_of(layers)), layers_(layers) {}

  Layers layers() const { return layers_; }

  Tensor forward(const Tensor& x, Saved& saved) override {
    return yotta::forward(layers_, x, saved);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    Tensor d = dy;
    for (size_t i = layers_.size(); i-- > 0;) d = run_back(*layers_[i], d, saved);
    return d;
  }

 protected:
  std::vector<Layer*> parts() override {
    std::vector<Layer*> all;
    for (const LayerPtr& layer : layers_) all.push_back(layer.get());
    return all;
  }

 private:
  Layers layers_;
};

}  // namespace yotta
