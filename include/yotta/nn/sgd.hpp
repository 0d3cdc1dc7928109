// SGD with momentum: each step follows a running sum of the gradients.
//
//     b = momentum b + g + decay w          g: the gradient
//     w = w - lr b
//
// Cost per parameter: 6 FLOPs; without momentum reads 8 bytes and writes 4, with it 12 and 8.
// PyTorch's form: the learning rate multiplies the whole of b, so a change of it acts at once.
#pragma once

#include "yotta/nn/optimizer.hpp"

namespace yotta {

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;  // on matrices only
};

class Sgd : public Optimizer {
 public:
  explicit Sgd(const std::vector<ParameterPtr>& parameters, SgdOptions options = {},
               Where where = Where::current());

 protected:
  void update(Slot& slot, double learning_rate, double scale) override;

 private:
  SgdOptions options_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/sgd.ipp"
#endif
