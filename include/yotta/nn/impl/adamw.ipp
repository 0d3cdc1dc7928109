// The bodies of nn/adamw.hpp.
#pragma once

#include "yotta/nn/adamw.hpp"

namespace yotta {

YOTTA_INLINE void AdamW::update(Slot& slot, double learning_rate, double scale) {
  Tensor& weight = slot.weight();
  const int64_t n = weight.numel();
  const double bytes = static_cast<double>(weight.nbytes());
  charge({"adamw", weight.dtype(), 14 * static_cast<double>(n), 4 * bytes, 3 * bytes});
  const Device device = weight.device();
  if (device == Device::meta) return;
  const Where where = Where::current();
  visit_real(weight.dtype(), where, [&]<class Real>(Type<Real>) {
    const bool decays = slot.parameter->is_matrix;
    const AdamWStep<Real> body{{options_, learning_rate, scale, decays, steps()},
                               weight.address<Real>(device),
                               slot.parameter->grad.address<Real>(device),
                               slot.state[0].address<Real>(device),
                               slot.state[1].address<Real>(device)};
    run_elementwise<Real>("adamw", device, n, body, where);
  });
}

}  // namespace yotta
