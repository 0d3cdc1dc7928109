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

#if YOTTA_BODIES_OF(nn)
#include "yotta/core/parallel_for.hpp"
#endif

namespace yotta {

class Ema {
 public:
  // Begins as the weights are. The slots must outlive this.
  YOTTA_API Ema(std::vector<Optimizer::Slot>& slots, double decay, Where where = Where::current());

  // After step number `steps` (1, 2, ...) of the optimizer.
  YOTTA_API void after_step(int64_t steps);
  // The averages become the weights, and the weights are kept in their place; a second call undoes
  // it. To evaluate with them.
  YOTTA_API void exchange();

  std::vector<Tensor>& averages() { return averages_; }  // by slot, for checkpoints

 private:
  std::vector<Optimizer::Slot>& slots_;
  double decay_;
  std::vector<Tensor> averages_;
};

#if YOTTA_BODIES_OF(nn)

Ema::Ema(std::vector<Optimizer::Slot>& slots, double decay, Where where)
    : slots_(slots), decay_(decay) {
  if (!(decay >= 0 && decay < 1)) fail(where, "a decay of {}; give 0 to below 1", decay);
  const MemoryScope memory(MemoryKind::optimizer);
  for (Optimizer::Slot& slot : slots_) averages_.push_back(slot.weight().clone());
}

void Ema::after_step(int64_t steps) {
  const auto t = static_cast<double>(steps);
  const double decay = std::min(decay_, (1 + t) / (10 + t));
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Tensor& weight = slots_[i].weight();
    const auto n = static_cast<double>(weight.numel()),
               bytes = static_cast<double>(weight.nbytes());
    charge({"ema", weight.dtype(), 3 * n, 2 * bytes, bytes});
    if (weight.device() == Device::meta) continue;
    visit_real(weight.dtype(), Where::current(), [&]<class Real>(Type<Real>) {
      const Real* const w = weight.data<Real>();
      Real* const average = averages_[i].data<Real>();
      const auto d = static_cast<Real>(decay);
      parallel_for(weight.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) average[j] = d * average[j] + (1 - d) * w[j];
      });
    });
  }
}

void Ema::exchange() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    Optimizer::Slot& slot = slots_[i];
    const Tensor before = slot.weight().clone();
    slot.weight().copy_from(averages_[i]);
    averages_[i].copy_from(before);
    if (slot.master.defined()) slot.parameter->value.copy_from(slot.master);
  }
}

#endif  // YOTTA_BODIES

}  // namespace yotta
