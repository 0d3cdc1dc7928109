// What every op of nn/ does before it computes: check shapes, make its result, charge its cost.
//
//     Tensor silu(const Tensor& x, Where where = Where::current()) {
//       charge(silu_cost(x.dtype(), x.numel()));           once, also on meta
//       Tensor y = empty_like(x, where);                   on x's device
//       if (x.device() == Device::meta) return y;          shapes and costs only
//       visit_activation(...);                             f32, f64 or bf16
//
// Conventions of all ops: x, y inputs and outputs, dx, dy the gradients of the loss with respect to
// them. Results are new tensors. Gradients of activations are returned; gradients of weights are
// *added* to what the caller passes, since a weight may be used more than once and by several
// microbatches.
// Types: what flows between layers is f32, f64 or bf16. bf16 is read and written, and f32 computed:
// statistics of a row (mean, log-sum-exp), sums and weights' gradients are f32, and a result is
// rounded to bf16 once.
// A FLOP is one +, -, *, /, comparison, exp or square root.
#pragma once

#include "yotta/core/system/accelerator.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta {

// A new tensor on the device of `x`.
Tensor empty_beside(const Tensor& x, Shape shape, DType dtype, Where where);

Tensor empty_like(const Tensor& x, Where where);

Tensor zeros_like(const Tensor& x, Where where);

// x itself if it has this type, else a copy.
Tensor as_type(const Tensor& x, DType dtype);

// Throws unless both have the same shape and type.
void expect_same(const char* operation, const char* a_name, const Tensor& a, const char* b_name,
                 const Tensor& b, Where where);

// Throws unless x is of type `dtype`.
void expect_dtype(const char* operation, const char* what, const Tensor& x, DType dtype,
                  Where where);

// Throws unless x has `dims` dimensions, given by name: "(N, C)".
void expect_dims(const char* operation, const char* what, const Tensor& x, int dims,
                 const char* names, Where where);

// visit(n, id) for each of ids i32 (N), which are copied to the host first; never on meta.
template <class Visit>
void for_each_id(const Tensor& ids, Where where, Visit visit) {
  if (ids.device() == Device::meta) return;
  const Tensor here = ids.device() == Device::cpu ? ids : ids.to(Device::cpu, where);
  for (int64_t n = 0; const int32_t id : here.span<int32_t>(where)) visit(n++, id);
}

// Throws unless each of ids i32 (N) is in [least, V): "cross_entropy: target 9 of token 0 is
// outside the vocabulary of 8". On a device a kernel looks, and the host hears of it where it next
// waits: whatever reads the ids must be safe with wrong ones.
void expect_each_id(const char* operation, const char* what, const Tensor& ids, int32_t least,
                    int64_t V, Where where);

namespace detail {

struct CheckIds {
  int64_t N;
  int32_t least;
  int64_t V;
  const int32_t* ids;
  int32_t check;
  LateFinding* found;
  template <class Team>
  YOTTA_BODY void operator()(int64_t, Team team) const {
    const double wrong = team.sum(N, [&](int64_t n, OneLane) { return is_wrong(n) ? 1.0 : 0.0; });
    if (wrong > 0) team.once([&] { note_first(); });
  }
  YOTTA_HOST_DEVICE bool is_wrong(int64_t n) const { return ids[n] < least || ids[n] >= V; }
  YOTTA_HOST_DEVICE void note_first() const {
    int64_t n = 0;
    while (!is_wrong(n)) ++n;
    if (found->check == 0) *found = {check, static_cast<int32_t>(n), ids[n]};
  }
};

}  // namespace detail

// The cost of an op that reads and writes so many numbers of one type.
constexpr OpCost op_cost(const char* name, DType dtype, int64_t flops, int64_t read,
                         int64_t written) {
  return {name, dtype, static_cast<double>(flops), static_cast<double>(read * bytes_of(dtype)),
          static_cast<double>(written * bytes_of(dtype))};
}

// An op on n elements, each at `flops`, that reads and writes so many arrays of n.
constexpr OpCost elementwise_cost(const char* name, DType dtype, int64_t n, int flops, int reads,
                                  int writes) {
  return op_cost(name, dtype, flops * n, reads * n, writes * n);
}

// Elements that are worth a thread of their own: some ten microseconds of work.
inline constexpr int64_t elements_per_thread = 16384;

// The same for a loop over rows of `row` elements.
constexpr int64_t rows_per_thread(int64_t row) {
  return std::max<int64_t>(1, elements_per_thread / std::max<int64_t>(1, row));
}

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/op.ipp"
#endif
