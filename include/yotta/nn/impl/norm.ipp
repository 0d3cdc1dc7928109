// The bodies of nn/norm.hpp.
#pragma once

#include "yotta/nn/norm.hpp"

namespace yotta {

// rmsnorm has no mean and no bias: undefined tensors here, null pointers in the bodies.
namespace detail {

template <class Real, class MaybeConst>
auto address_or_null(MaybeConst& x, Device device, Where where) {
  return x.defined() ? x.template address<Real>(device, where) : nullptr;
}

// f(Type<Number>, Type<Weight>): how x and its weights are stored.
template <class F>
void visit_norm(const Tensor& x, const Tensor& weight, Where where, F&& f) {
  visit_activation(x.dtype(), where, [&]<class Number>(Type<Number> number) {
    if (weight.dtype() == x.dtype())
      f(number, number);
    else
      f(number, Type<Computed<Number>>{});
  });
}

inline void run_norm(const char* operation, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, double eps, LayernormOutput& out, Where where) {
  const Device device = x.device();
  const int64_t N = x.dim(0), C = x.dim(1);
  if (device == Device::meta) return;
  visit_norm(x, weight, where, [&]<class Number, class Weight>(Type<Number>, Type<Weight>) {
    using Real = Computed<Number>;
    const NormForward<Number, Weight> body{C,
                                           static_cast<Real>(eps),
                                           x.address<Number>(device, where),
                                           weight.address<Weight>(device, where),
                                           address_or_null<Weight>(bias, device, where),
                                           out.y.address<Number>(device),
                                           address_or_null<Real>(out.mean, device, where),
                                           out.rstd.address<Real>(device)};
    run_rows<Number>(operation, device, N, C, body, where);
  });
}

// Checks what all backwards share: dy like x, and one number per row.
inline void expect_norm(const char* operation, const Tensor& dy, const Tensor& x,
                        const Tensor& rstd, Where where) {
  expect_dims(operation, "x", x, 2, "(N, C)", where);
  expect_same(operation, "dy", dy, "x", x, where);
  expect_shape(operation, "rstd", rstd, {x.dim(0)}, where);
}

inline Tensor norm_backward_input(const OpCost& cost, const Tensor& dy, const Tensor& x,
                                  const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                                  Where where) {
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape(cost.name, "weight", weight, {C}, where);
  charge(cost);
  Tensor dx = empty_like(x, where);
  const Device device = x.device();
  if (device == Device::meta) return dx;
  visit_norm(x, weight, where, [&]<class Number, class Weight>(Type<Number>, Type<Weight>) {
    using Real = Computed<Number>;
    const NormBackward<Number, Weight> body{C,
                                            dy.address<Number>(device, where),
                                            x.address<Number>(device, where),
                                            weight.address<Weight>(device, where),
                                            address_or_null<Real>(mean, device, where),
                                            rstd.address<Real>(device, where),
                                            dx.address<Number>(device)};
    run_rows<Number>(cost.name, device, N, C, body, where);
  });
  return dx;
}

// Sums 2: dweight and dbias; 1: dweight alone.
template <size_t Sums>
void norm_backward_weight(const OpCost& cost, const Tensor& dy, const Tensor& x, const Tensor& mean,
                          const Tensor& rstd, std::array<Tensor*, Sums> sums, Where where) {
  charge(cost);
  const Device device = x.device();
  const int64_t N = x.dim(0), C = x.dim(1);
  if (device == Device::meta) return;
  visit_activation(x.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const NormTerm<Number, Sums> term{
        C, dy.address<Number>(device, where), x.address<Number>(device, where),
        address_or_null<Real>(mean, device, where), rstd.address<Real>(device, where)};
    ColumnSums<Real, Sums, NormTerm<Number, Sums>> body{N, {}, term};
    for (size_t k = 0; k < Sums; ++k) body.out[k] = sums[k]->template address<Real>(device, where);
    add_column_sums(cost.name, device, C, body, where);
  });
  after_launch([dy, x, mean, rstd] {});  // they live until then
}

}  // namespace detail

YOTTA_INLINE LayernormOutput layernorm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                       double eps, Where where) {
  expect_dims("layernorm", "x", x, 2, "(N, C)", where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("layernorm", "weight", weight, {C}, where);
  expect_shape("layernorm", "bias", bias, {C}, where);
  charge(layernorm_cost(x.dtype(), N, C));
  LayernormOutput out{empty_like(x, where), empty_beside(x, {N}, computed(x.dtype()), where),
                      empty_beside(x, {N}, computed(x.dtype()), where)};
  detail::run_norm("layernorm", x, weight, bias, eps, out, where);
  return out;
}

YOTTA_INLINE Tensor layernorm_backward_input(const Tensor& dy, const Tensor& x,
                                             const Tensor& weight, const Tensor& mean,
                                             const Tensor& rstd, Where where) {
  detail::expect_norm("layernorm_backward_input", dy, x, rstd, where);
  expect_shape("layernorm_backward_input", "mean", mean, {x.dim(0)}, where);
  return detail::norm_backward_input(layernorm_backward_input_cost(x.dtype(), x.dim(0), x.dim(1)),
                                     dy, x, weight, mean, rstd, where);
}

YOTTA_INLINE void layernorm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                            const Tensor& rstd, Tensor& dweight, Tensor& dbias,
                                            Where where) {
  detail::expect_norm("layernorm_backward_weight", dy, x, rstd, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("layernorm_backward_weight", "mean", mean, {N}, where);
  expect_shape("layernorm_backward_weight", "dweight", dweight, {C}, where);
  expect_shape("layernorm_backward_weight", "dbias", dbias, {C}, where);
  detail::norm_backward_weight<2>(layernorm_backward_weight_cost(x.dtype(), N, C), dy, x, mean,
                                  rstd, {&dweight, &dbias}, where);
}

YOTTA_INLINE RmsnormOutput rmsnorm(const Tensor& x, const Tensor& weight, double eps, Where where) {
  expect_dims("rmsnorm", "x", x, 2, "(N, C)", where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("rmsnorm", "weight", weight, {C}, where);
  charge(rmsnorm_cost(x.dtype(), N, C));
  LayernormOutput out{empty_like(x, where), {}, empty_beside(x, {N}, computed(x.dtype()), where)};
  detail::run_norm("rmsnorm", x, weight, {}, eps, out, where);
  return {out.y, out.rstd};
}

YOTTA_INLINE Tensor rmsnorm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                           const Tensor& rstd, Where where) {
  detail::expect_norm("rmsnorm_backward_input", dy, x, rstd, where);
  return detail::norm_backward_input(rmsnorm_backward_input_cost(x.dtype(), x.dim(0), x.dim(1)), dy,
                                     x, weight, {}, rstd, where);
}

YOTTA_INLINE void rmsnorm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& rstd,
                                          Tensor& dweight, Where where) {
  detail::expect_norm("rmsnorm_backward_weight", dy, x, rstd, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("rmsnorm_backward_weight", "dweight", dweight, {C}, where);
  detail::norm_backward_weight<1>(rmsnorm_backward_weight_cost(x.dtype(), N, C), dy, x, {}, rstd,
                                  {&dweight}, where);
}

}  // namespace yotta
