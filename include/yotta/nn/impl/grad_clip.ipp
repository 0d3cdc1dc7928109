// The bodies of nn/grad_clip.hpp.
#pragma once

#include "yotta/nn/grad_clip.hpp"

namespace yotta {

namespace detail {

// Writes the sums of x's pieces to `sums`, on x's device.
inline void squares_of_pieces(const Tensor& x, double* sums, Where where) {
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const SquaresOfPiece<Real> body{x.numel(), x.address<Real>(x.device(), where), sums};
    const int64_t pieces = body.pieces(x.numel());
    if (x.device() == Device::cuda) return run_kernel("sum_of_squares", body, pieces, where);
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) body(p);
    });
  });
}

// Sums of squares of several tensors, in double. Those on a device are summed there and copied to
// the host together.
inline std::vector<double> sums_of_squares(const std::vector<Tensor>& all, Where where) {
  std::vector<int64_t> begins = {0};  // of each tensor's pieces
  for (const Tensor& x : all) {
    charge({"sum_of_squares", x.dtype(), 2 * static_cast<double>(x.numel()),
            static_cast<double>(x.nbytes()), 0});
    begins.push_back(begins.back() + SquaresOfPiece<float>::pieces(x.numel()));
  }
  std::vector<double> pieces(static_cast<size_t>(begins.back()));
  const int64_t bytes = begins.back() * static_cast<int64_t>(sizeof(double));
  const bool on_device = !all.empty() && all[0].device() == Device::cuda;
  std::optional<DeviceScratch> scratch;
  if (on_device) scratch.emplace(bytes, where);
  double* sums = on_device ? scratch->as<double>() : pieces.data();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].device() != Device::meta) squares_of_pieces(all[i], sums + begins[i], where);
  if (on_device) accelerator()->copy(pieces.data(), sums, bytes, Transfer::to_host);
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

YOTTA_INLINE double gradient_norm(const std::vector<ParameterPtr>& parameters) {
  return std::sqrt(sum_of_squares(parameters));
}

}  // namespace yotta
