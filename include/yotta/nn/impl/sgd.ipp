// The bodies of nn/sgd.hpp.
#pragma once

#include "yotta/nn/sgd.hpp"

#include "yotta/core/options.hpp"
#include "yotta/core/parallel_for.hpp"

namespace yotta {

YOTTA_INLINE Sgd::Sgd(const std::vector<ParameterPtr>& parameters, SgdOptions options, Where where)
    : Optimizer(parameters, options.momentum != 0 ? std::vector<std::string>{"momentum_buffer"}
                                                  : std::vector<std::string>{}),
      options_(options) {
  check_option(where, "SgdOptions::momentum", options, &SgdOptions::momentum, below_one);
  check_option(where, "SgdOptions::weight_decay", options, &SgdOptions::weight_decay, zero_or_more);
}

YOTTA_INLINE void Sgd::update(Slot& slot, double learning_rate, double scale) {
  Tensor& weight = slot.weight();
  const int64_t n = weight.numel();
  const double bytes = static_cast<double>(weight.nbytes());
  const bool has_momentum = !slot.state.empty();
  charge({"sgd", weight.dtype(), 6.0 * static_cast<double>(n), (has_momentum ? 3 : 2) * bytes,
          (has_momentum ? 2 : 1) * bytes});
  if (weight.device() == Device::meta) return;
  visit_real(weight.dtype(), Where::current(), [&]<class Real>(Type<Real>) {
    Real* w = weight.data<Real>();
    const Real* g = slot.parameter->grad.data<Real>();
    Real* b = has_momentum ? slot.state[0].data<Real>() : nullptr;
    const Real rate = static_cast<Real>(learning_rate), clip = static_cast<Real>(scale);
    const Real momentum = static_cast<Real>(options_.momentum);
    const Real decay = static_cast<Real>(slot.parameter->is_matrix ? options_.weight_decay : 0);
    parallel_for(n, 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Real direction = clip * g[i] + decay * w[i];
        if (b != nullptr) direction = b[i] = momentum * b[i] + direction;
        w[i] -= rate * direction;
      }
    });
  });
}

}  // namespace yotta
