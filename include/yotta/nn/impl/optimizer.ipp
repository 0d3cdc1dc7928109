// The bodies of nn/optimizer.hpp.
#pragma once

#include "yotta/nn/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "yotta/core/cpu/convert.hpp"
#include "yotta/core/system/kernel_batch.hpp"

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

namespace detail {

// The value becomes the master copy, rounded.
inline void round(Optimizer::Slot& slot) {
  Tensor &value = slot.parameter->value, &master = slot.master;
  if (value.device() != Device::cuda || value.dtype() != DType::bf16)
    return value.copy_from(master);
  run_together("optimizer",
               Conversion<bfloat16, float>{value.raw(), master.address<float>(Device::cuda)},
               value.numel(), Where::current());
}

}  // namespace detail

YOTTA_INLINE void Optimizer::step(double learning_rate, double scale) {
  const PhaseScope phase(Phase::optimizer);
  ++steps_;
  KernelBatch batch;  // on a GPU all parameters are stepped by one launch
  for (Slot& slot : slots_)
    if (slot.parameter->grad.defined()) update(slot, learning_rate, scale);
  batch.run(Where::current());
  for (Slot& slot : slots_)
    if (slot.parameter->grad.defined() && slot.master.defined()) detail::round(slot);
  batch.run(Where::current());
}

YOTTA_INLINE void Optimizer::step_on_device(const StepNumbers* now) {
  const std::shared_ptr<void> reset(nullptr, [this](void*) { on_device_ = nullptr; });
  on_device_ = now;
  step(0);
}

YOTTA_INLINE double Schedule::operator()(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const int64_t length = std::max<int64_t>(steps - warmup, 1);
  const double done = static_cast<double>(step - warmup) / static_cast<double>(length);
  const double cosine = std::cos(std::numbers::pi * std::min(done, 1.0));
  return floor + (peak - floor) * (1 + cosine) / 2;
}

}  // namespace yotta
