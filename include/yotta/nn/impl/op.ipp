// The bodies of nn/op.hpp.
#pragma once

#include "yotta/nn/op.hpp"

namespace yotta {

YOTTA_INLINE Tensor empty_beside(const Tensor& x, Shape shape, DType dtype, Where where) {
  const DeviceScope scope(x.device());
  return Tensor::empty(std::move(shape), dtype, where);
}

YOTTA_INLINE Tensor empty_like(const Tensor& x, Where where) {
  return empty_beside(x, x.shape(), x.dtype(), where);
}

YOTTA_INLINE Tensor zeros_like(const Tensor& x, Where where) {
  Tensor made = empty_like(x, where);
  made.zero();
  return made;
}

YOTTA_INLINE Tensor as_type(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : x.to(dtype);
}

YOTTA_INLINE void expect_same(const char* operation, const char* a_name, const Tensor& a,
                              const char* b_name, const Tensor& b, Where where) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype())
    fail(where, "{}: {} is {} and {} is {}; they must agree", operation, a_name, a.describe(),
         b_name, b.describe());
}

YOTTA_INLINE void expect_dtype(const char* operation, const char* what, const Tensor& x,
                               DType dtype, Where where) {
  if (x.dtype() != dtype)
    fail(where, "{}: {} is {}, expected {}; convert with .to(DType::{})", operation, what,
         x.describe(), name(dtype), name(dtype));
}

YOTTA_INLINE void expect_dims(const char* operation, const char* what, const Tensor& x, int dims,
                              const char* names, Where where) {
  if (x.ndim() != dims)
    fail(where, "{}: {} is {}, expected {}", operation, what, x.describe(), names);
}

YOTTA_INLINE void expect_each_id(const char* operation, const char* what, const Tensor& ids,
                                 int32_t least, int64_t V, Where where) {
  const auto message = [operation, what, V](int64_t n, int64_t id) {
    return fmt::format("{}: {} {} of token {} is outside the vocabulary of {}", operation, what, id,
                       n, V);
  };
  if (ids.device() == Device::cuda) {
    Accelerator& device = accelerator_or_fail(where);
    const detail::CheckIds body{ids.numel(),
                                least,
                                V,
                                ids.address<int32_t>(Device::cuda, where),
                                device.late_checks.add(message, where),
                                device.finding(where)};
    return run_kernel(operation, body, 1, where);
  }
  for_each_id(ids, where, [&](int64_t n, int32_t id) {
    if (id < least || id >= V) fail(where, "{}", message(n, id));
  });
}

}  // namespace yotta
