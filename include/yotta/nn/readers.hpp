// Readers: linear layers that read one x, as q, k and v of attention, gate and up of an mlp.
//
//     x ─┬─> q ─> y0        F   y_i = x W_i' + b_i
//        ├─> k ─> y1        I   dx  = sum over i of dy_i W_i: x reached the loss by each of them
//        └─> v ─> y2        W   each its own
//
// One object and not three layers, so that a later lesson can replace how x comes in and how dx
// goes out for all of them at once. They keep x and dy in the Saved of the layer that they stand
// in, each under its own name.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "yotta/core/system/kernel_batch.hpp"
#include "yotta/nn/linear.hpp"

namespace yotta {

class Readers {
 public:
  Readers() = default;
  Readers(Readers&&) = default;
  virtual ~Readers() = default;
  void add(std::unique_ptr<Linear> linear) { linears_.push_back(std::move(linear)); }
  size_t size() const { return linears_.size(); }
  Linear& operator[](size_t i) const { return *linears_[i]; }
  void replace(size_t i, std::unique_ptr<Linear> by) { linears_[i] = std::move(by); }

  // x (..., C) -> the y (..., O_i) of each
  virtual std::vector<Tensor> forward(const Tensor& x, Saved& saved) {
    std::vector<Tensor> ys;
    KernelBatch together;  // on a GPU one launch
    for (const auto& each : linears_) ys.push_back(each->forward(x, saved.child(each->name())));
    together.run(Where::current());
    return ys;
  }
  // the dy (..., O_i) of each -> dx (..., C)
  virtual Tensor backward_input(const std::vector<Tensor>& dys, Saved& saved) {
    KernelBatch together;
    Tensor dx = linears_[0]->backward_input(dys[0], saved.child(linears_[0]->name()));
    for (size_t i = 1; i < size(); ++i)
      linears_[i]->add_backward_input(dx, dys[i], saved.child(linears_[i]->name()));
    together.run(Where::current());
    return dx;
  }
  virtual void backward_weight(Saved& saved) {
    KernelBatch together;
    for (size_t i = size(); i-- > 0;)
      linears_[i]->backward_weight(saved.child(linears_[i]->name()));
    together.run(Where::current());
  }
  // Where each Linear keeps x, under "x", until W: one storage, several handles. A layer that can
  // compute x again may drop it from all of these (lesson 17).
  virtual std::vector<Saved*> keeping_x(Saved& saved) const {
    std::vector<Saved*> all;
    for (const auto& each : linears_) all.push_back(&saved.child(each->name()));
    return all;
  }
  // Appends the layers, in forward order.
  virtual void add_layers(std::vector<Layer*>& to) {
    for (const auto& each : linears_) to.push_back(each.get());
  }

 protected:
  std::vector<std::unique_ptr<Linear>> linears_;
};

}  // namespace yotta
