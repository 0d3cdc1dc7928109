// EMA: an exponential moving average of the weights, beside the training that it does not touch.
//
//     average = d average + (1 - d) w          after each step; w: the weights that were stepped
//
// The last steps of a run jump about on the valley's floor. Their average lies nearer to its
// middle, so it scores better than the last weights, above all while the learning rate is high.
// d = 0.999 looks back over about 1 / (1 - d) = 1000 steps. In the first steps that would be mostly
// initial values, so d starts small: after t steps it is (1 + t) / (10 + t) at most.
//
// Memory: 4 bytes for each parameter (8 for f64); of bf16 weights the f32 masters are averaged.
// 3 FLOPs and 12 bytes for each parameter and step.
// References: Polyak and Juditsky (1992); the start of d as in TensorFlow's
// ExponentialMovingAverage.
#pragma once

#include "yotta/nn/optimizer.hpp"

namespace yotta {

class Ema {
 public:
  // Begins as the weights are. The slots must outlive this.
  Ema(std::vector<Optimizer::Slot>& slots, double decay, Where where = Where::current());

  // After step number `steps` (1, 2, ...) of the optimizer.
  void after_step(int64_t steps);
  // The averages become the weights, and the weights are kept in their place; a second call undoes
  // it. To evaluate with them.
  void exchange();

  std::vector<Tensor>& averages() { return averages_; }  // by slot, for checkpoints

 private:
  std::vector<Optimizer::Slot>& slots_;
  double decay_;
  std::vector<Tensor> averages_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/ema.ipp"
#endif
