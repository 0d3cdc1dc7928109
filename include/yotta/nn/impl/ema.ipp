// The bodies of nn/ema.hpp.
#pragma once

#include "yotta/nn/ema.hpp"

#include "yotta/core/parallel_for.hpp"

namespace yotta {

YOTTA_INLINE Ema::Ema(std::vector<Optimizer::Slot>& slots, double decay, Where where)
    : slots_(slots), decay_(decay) {
  if (!(decay >= 0 && decay < 1)) fail(where, "a decay of {}; give 0 to below 1", decay);
  const MemoryScope memory(MemoryKind::optimizer);
  for (Optimizer::Slot& slot : slots_) averages_.push_back(slot.weight().clone());
}

YOTTA_INLINE void Ema::after_step(int64_t steps) {
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

YOTTA_INLINE void Ema::exchange() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    Optimizer::Slot& slot = slots_[i];
    const Tensor before = slot.weight().clone();
    slot.weight().copy_from(averages_[i]);
    averages_[i].copy_from(before);
    if (slot.master.defined()) slot.parameter->value.copy_from(slot.master);
  }
}

}  // namespace yotta
