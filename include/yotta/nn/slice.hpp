// Slice: some neighbouring layers of a stack as one layer, a pipeline stage for example.
//
//     embedding │ layers.0 │ layers.1 │ layers.2 │ head
//                └─ "layers.0 to layers.1" ─┘           forward: one after the other
//
// The layers stay where they are: a slice refers to them and must not outlive them. Its backward pass is in
// two halves like any layer's: backward_input keeps each layer's dy for backward_weight.
// Techniques that do something around a slice (drop its activations, gather its weights) derive from it.
#pragma once

#include "yotta/nn/layer.hpp"

namespace yotta {

// "layers.0 to layers.3"; of a single layer its own name.
inline std::string name_of(Layers slice) {
  if (slice.empty()) return "nothing";
  const std::string& first = slice.front()->name();
  return slice.size() == 1 ? first : first + " to " + slice.back()->name();
}

class Slice : public Composite {
 public:
  explicit Slice(Layers layers) : Composite(name_of(layers)), layers_(layers) {}

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
