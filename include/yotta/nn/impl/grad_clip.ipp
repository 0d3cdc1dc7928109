// The bodies of nn/grad_clip.hpp.
#pragma once

#include "yotta/nn/grad_clip.hpp"

#include "yotta/core/system/kernel_batch.hpp"

namespace yotta {

namespace detail {

// Writes the sums of x's pieces to `sums`, on x's device.
inline void squares_of_pieces(const Tensor& x, double* sums, Where where) {
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const SquaresOfPiece<Real> body{x.numel(), x.address<Real>(x.device(), where), sums};
    const int64_t pieces = body.pieces(x.numel());
    if (x.device() == Device::cuda) return run_together("sum_of_squares", body, pieces, where);
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) body(p);
    });
  });
}

// Where the pieces of each tensor begin among those of all, and how many there are.
inline std::vector<int64_t> begins_of_pieces(const std::vector<Tensor>& all) {
  std::vector<int64_t> begins = {0};
  for (const Tensor& x : all)
    begins.push_back(begins.back() + SquaresOfPiece<float>::pieces(x.numel()));
  return begins;
}

// The sums of all pieces to `sums`; of one device, on a GPU by one launch.
inline void squares_of_all(const std::vector<Tensor>& all, double* sums, Where where) {
  const std::vector<int64_t> begins = begins_of_pieces(all);
  KernelBatch batch;
  for (size_t i = 0; i < all.size(); ++i) {
    charge({"sum_of_squares", all[i].dtype(), 2 * static_cast<double>(all[i].numel()),
            static_cast<double>(all[i].nbytes()), 0});
    if (all[i].device() != Device::meta) squares_of_pieces(all[i], sums + begins[i], where);
  }
  batch.run(where);
}

// Sums of squares of several tensors, in double. Those on a device are summed there and copied to
// the host together.
inline std::vector<double> sums_of_squares(const std::vector<Tensor>& all, Where where) {
  const std::vector<int64_t> begins = begins_of_pieces(all);
  std::vector<double> pieces(static_cast<size_t>(begins.back()));
  if (!all.empty() && all[0].device() == Device::cuda) {
    const int64_t bytes = begins.back() * static_cast<int64_t>(sizeof(double));
    const DeviceScratch sums(bytes, where);
    squares_of_all(all, sums.as<double>(), where);
    accelerator()->copy(pieces.data(), sums.as<double>(), bytes, Transfer::to_host);
  } else {
    squares_of_all(all, pieces.data(), where);
  }
  std::vector<double> totals;
  for (size_t i = 0; i < all.size(); ++i)
    totals.push_back(
        std::accumulate(pieces.begin() + begins[i], pieces.begin() + begins[i + 1], 0.0));
  return totals;
}

}  // namespace detail

YOTTA_INLINE double sum_of_squares(const Tensor& x, Where where) {
  return detail::sums_of_squares({x}, where)[0];
}

YOTTA_INLINE double sum_of_squares(const std::vector<ParameterPtr>& parameters, Where where) {
  std::vector<Tensor> gradients;
  std::vector<int> copies;
  for (const ParameterPtr& each : parameters) {
    if (!each->grad.defined()) continue;
    gradients.push_back(each->grad);
    copies.push_back(each->copies);
  }
  double total = 0;
  for (size_t i = 0; const double sum : detail::sums_of_squares(gradients, where))
    total += sum / copies[i++];
  return total;
}

YOTTA_INLINE void gate_step(const std::vector<ParameterPtr>& parameters, StepNumbers* now,
                            Where where) {
  std::vector<Tensor> gradients;
  for (const ParameterPtr& each : parameters)
    if (each->grad.defined()) gradients.push_back(each->grad);
  const int64_t pieces = detail::begins_of_pieces(gradients).back();
  const DeviceScratch sums(pieces * static_cast<int64_t>(sizeof(double)), where);
  detail::squares_of_all(gradients, sums.as<double>(), where);
  const LateFinding* const found = accelerator_or_fail(where).finding(where);
  run_kernel("gate_step", StepGate{pieces, sums.as<double>(), found, now}, 1, where);
}

YOTTA_INLINE double gradient_norm(const std::vector<ParameterPtr>& parameters) {
  return std::sqrt(sum_of_squares(parameters));
}

}  // namespace yotta
