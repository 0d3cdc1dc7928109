// The bodies of nn/rope.hpp.
#pragma once

#include "yotta/nn/rope.hpp"

namespace yotta {

namespace detail {

// y = x rotated by `direction` (1 or -1) times the angles.
inline Tensor rotate(const char* operation, const Tensor& x, const Positions& positions,
                     const RopeFrequencies& asked, double direction, Where where) {
  expect_dims(operation, "x", x, 4, "(B, T, H, d)", where);
  const int64_t B = x.dim(0), T = x.dim(1), H = x.dim(2), d = x.dim(3), half = d / 2;
  if (d % 2 != 0) fail(where, "{}: x is {}; the last size must be even", operation, x.describe());
  charge(rope_cost(operation, x.dtype(), x.numel()));
  Tensor y = empty_like(x, where);
  const Device device = x.device();
  if (device == Device::meta) return y;
  positions.expect_packing(operation, B * T, device == Device::cuda, where);
  // Of packed sequences all that any token can have.
  const int64_t columns = positions.packing != nullptr ? positions.packing->T : T;
  const Positions first = positions.packing != nullptr ? Positions{} : positions;
  visit_activation(x.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const int64_t bytes = columns * d * static_cast<int64_t>(sizeof(Real));
    const double log_step = -2.0 / static_cast<double>(d) * std::log(asked.theta);
    RopeAngles<Real> angles{columns, d, first, log_step, asked.scaling, nullptr};
    RotateRow<Number> body{T,
                           H,
                           d,
                           nullptr,
                           positions.each(),
                           x.address<Number>(device, where),
                           static_cast<Real>(direction),
                           y.address<Number>(device)};
    if (device == Device::cuda) {
      const DeviceScratch table(bytes, where);
      body.table = angles.table = table.as<Real>();
      run_kernel(operation, angles, columns * half, where);
      return run_rows<Number>(operation, device, B * T * H, d, body, where);
    }
    std::vector<Real> table(static_cast<size_t>(columns * d));
    body.table = angles.table = table.data();
    parallel_for(columns, rows_per_thread(32 * d), [&](int64_t begin, int64_t end) {
      for (int64_t pair = 0; pair < half; ++pair) {
        const double frequency = angles.frequency(pair);
        for (int64_t t = begin; t < end; ++t) angles.set(t, pair, frequency);
      }
    });
    run_rows<Number>(operation, device, B * T * H, d, body, where);
  });
  return y;
}

}  // namespace detail

YOTTA_INLINE Tensor rope(const Tensor& x, const Positions& positions,
                         const RopeFrequencies& frequencies, Where where) {
  return detail::rotate("rope", x, positions, frequencies, 1, where);
}

YOTTA_INLINE Tensor rope_backward(const Tensor& dy, const Positions& positions,
                                  const RopeFrequencies& frequencies, Where where) {
  return detail::rotate("rope_backward", dy, positions, frequencies, -1, where);
}

}  // namespace yotta
