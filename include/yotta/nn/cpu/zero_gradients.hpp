// All gradients become zeros: on a GPU by one launch, not by one for each parameter.
#pragma once

#include <vector>

#include "yotta/core/system/kernel_batch.hpp"
#include "yotta/nn/cpu/body.hpp"
#include "yotta/nn/parameter.hpp"

namespace yotta {

namespace detail {

// Number i becomes zero.
template <class Real>
struct Zeros {
  Real* x;
  YOTTA_BODY void operator()(int64_t i, OneLane) const { x[i] = 0; }
};

}  // namespace detail

inline void zero_gradients(const std::vector<ParameterPtr>& parameters,
                           Where where = Where::current()) {
  KernelBatch batch;
  for (const ParameterPtr& each : parameters) {
    if (!each->grad.defined() || each->grad.device() != Device::cuda) {
      each->zero_grad();
      continue;
    }
    visit_real(each->grad.dtype(), where, [&]<class Real>(Type<Real>) {
      run_together("zero_gradients", detail::Zeros<Real>{each->grad.address<Real>(Device::cuda)},
                   each->grad.numel(), where);
    });
  }
  batch.run(where);
}

}  // namespace yotta
