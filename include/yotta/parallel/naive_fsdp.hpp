// Naive FSDP, as a lecture tells it first: each layer has one owner, who lends it to the others.
//
//               layer 0     layer 1     layer 2     layer 3     layer 4
//     owner     rank 0      rank 1      rank 2      rank 0      rank 1        of 3 ranks
//
//     forward   the owner broadcasts the weights, all compute, all but the owner drop them
//     dgrad     the same again
//     wgrad     all compute their gradient, which is summed at the owner
//
// Only the owner has a layer's gradients and optimizer state. Together the ranks hold the model
// once, but not in equal parts: with 5 layers on 3 ranks one rank holds 2/5 and not 1/3, and one
// large layer (a token table) lies on a single rank. And while a layer is broadcast, its owner
// sends to everybody: with p ranks it is the busiest link while the others' stand idle. fsdp.hpp
// cuts every layer among all ranks instead.
//
// Cost: all ranks together send 3 (p-1) N elements, as with FSDP, but not evenly. Nothing overlaps.
// Contract: as fsdp.hpp's; a parameter is used by one layer of the stack only.
#pragma once

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/layer.hpp"

namespace yotta {

// One layer of the stack, and who owns it.
class OwnedLayer : public Layer {
 public:
  OwnedLayer(Layers entry, int owner, const Communicator& comm)
      : Layer(entry.front()->name()), layer_(*entry.front()), owner_(owner), comm_(comm) {
    for (const ParameterPtr& each : parameters(entry)) {
      weights_.push_back({each, each->value.shape(), each->value.dtype()});
      if (!is_owner()) each->value = {};
    }
  }

  Tensor forward(const Tensor& x, Saved& saved) override {
    lend();
    Tensor y = layer_.forward(x, saved.child(layer_.name()));
    give_back();
    return y;
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    lend();
    Tensor dx = layer_.backward_input(dy, saved.child(layer_.name()));
    give_back();
    return dx;
  }

  // The owner's gradients become the sum over all ranks; the others drop theirs.
  void backward_weight(Saved& saved) override {
    std::vector<Tensor> before;  // microbatches add up at the owner
    for (Weight& weight : weights_) {
      before.push_back(std::exchange(weight.parameter->grad, {}));
      const MemoryScope memory(MemoryKind::gradients);
      const DType dtype = bytes_of(weight.dtype) < 4 ? DType::f32 : weight.dtype;
      weight.parameter->grad = Tensor::zeros(weight.shape, dtype);
    }
    layer_.backward_weight(saved.child(layer_.name()));
    for (size_t i = 0; i < weights_.size(); ++i) {
      Tensor& grad = weights_[i].parameter->grad;
      comm_.reduce(grad, owner_, ReduceOp::sum, {Algorithm::tree, "naive_fsdp.reduce"});
      if (is_owner() && before[i].defined()) add_into(grad, before[i]);
      if (!is_owner()) grad = {};
    }
  }

  // The owner's parameters are its own; the others have none.
  void add_parameters(std::vector<ParameterPtr>& to) override {
    if (is_owner()) layer_.add_parameters(to);
  }

 private:
  struct Weight {
    ParameterPtr parameter;
    Shape shape;
    DType dtype;
  };
  bool is_owner() const { return comm_.rank() == owner_; }
  void lend() {
    const MemoryScope memory(MemoryKind::buffers);
    for (Weight& weight : weights_) {
      Tensor& value = weight.parameter->value;
      if (!is_owner()) value = Tensor::empty(weight.shape, weight.dtype);
      comm_.broadcast(value, owner_, {Algorithm::tree, "naive_fsdp.broadcast"});
    }
  }
  void give_back() {
    if (is_owner()) return;
    for (Weight& weight : weights_) weight.parameter->value = {};
  }

  Layer& layer_;
  int owner_;
  Communicator comm_;
  std::vector<Weight> weights_;
};

// The stack with entry i owned by rank i % p: what the training loop runs. `model` must outlive it.
inline std::vector<LayerPtr> make_naive_fsdp(Layers model, const Communicator& comm) {
  std::vector<LayerPtr> layers;
  for (size_t i = 0; i < model.size(); ++i) {
    const int owner = static_cast<int>(i) % comm.size();
    layers.push_back(std::make_unique<OwnedLayer>(model.subspan(i, 1), owner, comm));
  }
  return layers;
}

// Elements that all ranks together send in one forward and backward pass.
constexpr int64_t naive_fsdp_elements_sent_by_all(int64_t ranks, int64_t parameters) {
  return 3 * (ranks - 1) * parameters;
}

}  // namespace yotta
