// Tools for testing ops and layers: random tensors, a scalar loss, and finite differences.
//
//     loss(x + h e_i) - loss(x - h e_i)
//     ---------------------------------  must be  dx_i     in f64, for every element i
//                  2 h
#pragma once

#include <fmt/core.h>

#include <cmath>
#include <string>

#include "support/message_of.hpp"
#include "yotta/core/random.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta_test {

// Standard normal numbers that depend on the name and the place only.
inline yotta::Tensor random_tensor(yotta::Shape shape, std::string_view name,
                                   yotta::DType dtype = yotta::DType::f64) {
  const yotta::Random random(7, name);
  yotta::Tensor x = yotta::Tensor::empty(std::move(shape), yotta::DType::f64);
  for (uint64_t i = 0; double& value : x.span<double>()) value = random.normal(i++);
  return x.to(dtype);
}

// The sum of y * weights over all elements: a loss whose gradient with respect to y is `weights`.
inline double dot(const yotta::Tensor& y, const yotta::Tensor& weights) {
  const std::vector<double> a = y.values(), b = weights.values();
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return a.size() == b.size() ? sum : std::nan("");
}

// Compares `gradient` with central differences of loss() in every element of x (f64, changed and
// put back). Returns "" if they agree, else a line that names the worst element. NaN never agrees.
template <class Loss>
std::string gradient_mismatch(yotta::Tensor& x, const yotta::Tensor& gradient, Loss&& loss,
                              double tolerance = 1e-6, double step = 1e-4) {
  if (gradient.shape() != x.shape())
    return fmt::format("gradient is {}, x is {}", gradient.describe(), x.describe());
  const std::vector<double> given = gradient.values();
  std::string worst;
  double worst_error = 0;
  for (size_t i = 0; double& value : x.span<double>()) {
    const double kept = value;
    double difference = 0;  // two step sizes, so that the error in step^2 cancels
    for (const auto& [h, weight] : {std::pair{step, 4.0 / 3}, std::pair{2 * step, -1.0 / 3}}) {
      value = kept + h;
      const double above = loss();
      value = kept - h;
      difference += weight * (above - loss()) / (2 * h);
    }
    value = kept;
    const double error = std::abs(given[i] - difference) / std::max(1.0, std::abs(difference));
    if (!(error <= tolerance) && !(error <= worst_error)) {
      worst_error = error;
      worst = fmt::format("element {}: gradient {}, finite difference {}", i, given[i], difference);
    }
    ++i;
  }
  return worst;
}

// The largest |a - b| / max(1, |b|); infinity if shapes differ or a NaN is on either side.
inline double largest_difference(const yotta::Tensor& a, const yotta::Tensor& b) {
  if (a.shape() != b.shape()) return INFINITY;
  const std::vector<double> left = a.values(), right = b.values();
  double worst = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    const double error = std::abs(left[i] - right[i]) / std::max(1.0, std::abs(right[i]));
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

// Whether both hold the same bytes.
inline bool same_bits(const yotta::Tensor& a, const yotta::Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

// Runs f with 1, 2 and 3 threads in the rank; true if its tensor has the same bits each time.
template <class F>
bool same_for_all_threads(F&& f) {
  int& threads = yotta::context().threads;
  const int before = threads;
  threads = 1;
  const yotta::Tensor one = f();
  bool same = true;
  for (threads = 2; threads <= 3; ++threads) same = same && same_bits(f(), one);
  threads = before;
  return same;
}

}  // namespace yotta_test
