// The bodies of nn/cross_entropy.hpp.
#pragma once

#include "yotta/nn/cross_entropy.hpp"

namespace yotta {

namespace detail {

YOTTA_INLINE void expect_targets(const char* operation, const Tensor& targets, int64_t V,
                                 Where where) {
  expect_dims(operation, "targets", targets, 1, "(N)", where);
  expect_dtype(operation, "targets", targets, DType::i32, where);
  static_assert(no_target == -1);
  expect_each_id(operation, "target", targets, no_target, V, where);
}

inline void expect_logits(const char* operation, const Tensor& logits, const Tensor& targets,
                          Where where) {
  expect_dims(operation, "logits", logits, 2, "(N, V)", where);
  expect_shape(operation, "targets", targets, {logits.dim(0)}, where);
  expect_targets(operation, targets, logits.dim(1), where);
}

}  // namespace detail

namespace detail {

// All but the loss.
inline CrossEntropy losses_of(const Tensor& logits, const Tensor& targets, Where where) {
  expect_logits("cross_entropy", logits, targets, where);
  const int64_t N = logits.dim(0), V = logits.dim(1);
  charge(cross_entropy_cost(logits.dtype(), N, V));
  const DType type = computed(logits.dtype());
  CrossEntropy out{0, empty_beside(logits, {N}, type, where),
                   empty_beside(logits, {N}, type, where)};
  const Device device = logits.device();
  if (device == Device::meta) return out;
  visit_activation(logits.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const CrossEntropyRow<Number> body{
        V, logits.address<Number>(device, where), targets.address<int32_t>(device, where),
        out.losses.address<Real>(device), out.log_sum_exp.address<Real>(device)};
    run_rows<Number>("cross_entropy", device, N, V, body, where);
  });
  return out;
}

}  // namespace detail

YOTTA_INLINE CrossEntropy cross_entropy_onto(double* loss, const Tensor& logits,
                                             const Tensor& targets, double scale, Where where) {
  CrossEntropy out = detail::losses_of(logits, targets, where);
  visit_real(out.losses.dtype(), where, [&]<class Real>(Type<Real>) {
    const detail::SumOfLosses<Real> body{
        out.losses.numel(), out.losses.address<Real>(Device::cuda, where), scale, loss};
    run_kernel("cross_entropy", body, 1, where);
  });
  return out;
}

YOTTA_INLINE CrossEntropy cross_entropy(const Tensor& logits, const Tensor& targets, double scale,
                                        Where where) {
  if (logits.device() == Device::cuda) {
    const DeviceScratch loss(sizeof(double), where);
    Accelerator& device = accelerator_or_fail(where);
    device.zero(loss.as<double>(), sizeof(double));
    CrossEntropy out = cross_entropy_onto(loss.as<double>(), logits, targets, scale, where);
    device.copy(&out.loss, loss.as<double>(), sizeof(double), Transfer::to_host);
    return out;
  }
  CrossEntropy out = detail::losses_of(logits, targets, where);
  if (logits.device() == Device::meta) return out;
  double sum = 0;
  for (const double loss : out.losses.values()) sum += loss;
  out.loss = scale * sum;
  return out;
}

YOTTA_INLINE void cross_entropy_backward_in_place(Tensor& logits, const Tensor& targets,
                                                  const Tensor& log_sum_exp, double scale,
                                                  Where where) {
  if (logits.device() != Device::cuda)  // the forward pass has launched the check
    detail::expect_logits("cross_entropy_backward", logits, targets, where);
  const int64_t N = logits.dim(0), V = logits.dim(1);
  expect_shape("cross_entropy_backward", "log_sum_exp", log_sum_exp, {N}, where);
  charge(cross_entropy_backward_cost(logits.dtype(), N, V));
  const Device device = logits.device();
  if (device == Device::meta) return;
  visit_activation(logits.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const detail::CrossEntropyBackwardRow<Number> body{V,
                                                       logits.address<Number>(device, where),
                                                       targets.address<int32_t>(device, where),
                                                       log_sum_exp.address<Real>(device, where),
                                                       static_cast<Real>(scale),
                                                       0};
    run_rows<Number>("cross_entropy_backward", device, N, V, body, where);
  });
}

YOTTA_INLINE Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets,
                                           const Tensor& log_sum_exp, double scale, Where where) {
  Tensor dlogits = logits.clone(where);
  cross_entropy_backward_in_place(dlogits, targets, log_sum_exp, scale, where);
  return dlogits;
}

}  // namespace yotta
