// The bodies of nn/adamw.hpp.
#pragma once

#include "yotta/nn/adamw.hpp"

#include "yotta/core/options.hpp"
#include "yotta/core/system/kernel_batch.hpp"

namespace yotta {

YOTTA_INLINE AdamW::AdamW(const std::vector<ParameterPtr>& parameters, AdamWOptions options,
                          Where where)
    : Optimizer(parameters, {"exp_avg", "exp_avg_sq"}), options_(options) {
  check_option(where, "AdamWOptions::beta1", options, &AdamWOptions::beta1, below_one);
  check_option(where, "AdamWOptions::beta2", options, &AdamWOptions::beta2, below_one);
  check_option(where, "AdamWOptions::epsilon", options, &AdamWOptions::epsilon, zero_or_more);
  check_option(where, "AdamWOptions::weight_decay", options, &AdamWOptions::weight_decay,
               zero_or_more);
}

YOTTA_INLINE void AdamW::set_factors(StepNumbers& now, double learning_rate) const {
  const auto t = static_cast<double>(steps() + 1);
  now.learning_rate = learning_rate;
  now.rate = learning_rate / (1 - std::pow(options_.beta1, t));
  now.correction = 1 / std::sqrt(1 - std::pow(options_.beta2, t));
}

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
    if (on_device() != nullptr) {
      const double decay = decays ? options_.weight_decay : 0;
      return run_together("adamw", OnDevice<AdamWStep<Real>>{body, on_device(), decay}, n, where);
    }
    if (device == Device::cuda) return run_together("adamw", body, n, where);
    run_elementwise<Real>("adamw", device, n, body, where);
  });
}

}  // namespace yotta
