// The bodies of nn/optimizer.hpp.
#pragma once

#include "yotta/nn/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace yotta {

YOTTA_INLINE Optimizer::Optimizer(const std::vector<ParameterPtr>& parameters,
                                  std::vector<std::string> state_names)
    : state_names_(std::move(state_names)) {
  const MemoryScope memory(MemoryKind::optimizer);
  for (const ParameterPtr& each : parameters) {
    const DeviceScope device(each->value.device());
    Slot slot{each, {}, {}};
    if (bytes_of(each->value.dtype()) < 4) slot.master = each->value.to(DType::f32);
    for (size_t i = 0; i < state_names_.size(); ++i)
      slot.state.push_back(Tensor::zeros(each->value.shape(), slot.weight().dtype()));
    slots_.push_back(std::move(slot));
  }
}

YOTTA_INLINE void Optimizer::step(double learning_rate, double scale) {
  ++steps_;
  for (Slot& slot : slots_) {
    if (!slot.parameter->grad.defined()) continue;
    update(slot, learning_rate, scale);
    if (slot.master.defined()) slot.parameter->value.copy_from(slot.master);
  }
}

YOTTA_INLINE double Schedule::operator()(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const int64_t length = std::max<int64_t>(steps - warmup, 1);
  const double done = static_cast<double>(step - warmup) / static_cast<double>(length);
  const double cosine = std::cos(std::numbers::pi * std::min(done, 1.0));
  return floor + (peak - floor) * (1 + cosine) / 2;
}

}  // namespace yotta
