// Functions that the tests of fusion capture, and arrays to run them on.
#pragma once

#include <doctest/doctest.h>

#include <cmath>

#include "yotta/core/random.hpp"
#include "yotta/device/capture.hpp"
#include "yotta/device/fusion_codegen.hpp"

namespace yotta_test {

using yotta::Array;
using yotta::Tensor;

// Uniform numbers in [-1, 1).
inline Tensor uniform(const char* name, yotta::Shape shape,
                      yotta::DType dtype = yotta::DType::f32) {
  const yotta::Random random(5, name);
  std::vector<double> numbers;
  for (int64_t i = 0; i < yotta::product(shape); ++i)
    numbers.push_back(2 * random.uniform(static_cast<uint64_t>(i)) - 1);
  return Tensor::from<double>(numbers, shape).to(dtype);
}

// gelu's tanh form, by the logistic function.
inline Array gelu(const Array& x) {
  return x / (exp(x * (x * x * 0.0713548162726 + 1.5957691216) * -1.0) + 1.0);
}
// What follows a transformer's second matmul, but for its gelu.
inline Array bias_gelu_dropout_residual(const Array& x, const Array& bias, const Array& residual) {
  const Array y = gelu(x + bias);
  return choose(keep_mask(y, 0.25, 7, "drop"), y / 0.75, 0.0) + residual;
}
inline Array softmax(const Array& x) {
  const Array e = exp(x - row_max(x));
  return e / row_sum(e);
}
inline Array masked_softmax(const Array& x) {
  return softmax(choose(row_index(x) < column_index(x), -HUGE_VAL, x));
}
inline Array layernorm(const Array& x, const Array& gain, const Array& bias) {
  const double columns = static_cast<double>(x.size().columns);
  const Array centred = x - row_sum(x) / columns;
  const Array variance = row_sum(centred * centred) / columns;
  return centred / sqrt(variance + 1e-5) * gain + bias;
}
// Parameters, gradients, means and squares, one after the other; returns new parameters, means,
// squares.
inline std::vector<Array> adamw(const std::vector<Array>& in) {
  std::vector<Array> out;
  const size_t n = in.size() / 4;
  for (size_t i = 0; i < n; ++i) {
    const Array &w = in[i], &g = in[n + i];
    const Array m = in[2 * n + i] * 0.9 + g * 0.1, v = in[3 * n + i] * 0.95 + g * g * 0.05;
    out.push_back(w * (1 - 1e-4) - m * 1e-2 / (sqrt(v / 0.05) + 1e-8));
    out.push_back(m);
    out.push_back(v);
  }
  return out;
}

// |a - b| <= tolerance (1 + |b|) for each number; a NaN is unequal.
inline void check_close(const Tensor& a, const Tensor& b, double tolerance = 2e-6) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.values(), y = b.values();
  double worst = 0;
  bool numbers = true;
  for (size_t i = 0; i < x.size(); ++i) {
    const double difference = std::abs(x[i] - y[i]) / (1 + std::abs(y[i]));
    numbers = numbers && !std::isnan(difference);
    worst = std::max(worst, difference);
  }
  CHECK(numbers);
  CHECK(worst <= tolerance);
}

// Three of them in one launch, as CUDA.
inline std::string cuda_of_examples(yotta::DType dtype) {
  const Tensor x = uniform("x", {5, 300}, dtype), b = uniform("b", {300}, dtype);
  const yotta::Graph graph = yotta::capture_list(
      [](const std::vector<Array>& in) {
        return std::vector<Array>{bias_gelu_dropout_residual(in[0], in[1], in[0]),
                                  layernorm(in[0], in[1], in[1]), masked_softmax(in[0])};
      },
      {x, b});
  return print_cuda(graph, foreach (graph, kernels(graph, fuse(graph)))[0]);
}

}  // namespace yotta_test
