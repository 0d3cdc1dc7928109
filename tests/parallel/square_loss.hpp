// What pipelines are tested on: normal rows for each microbatch, and half the squared distance to
// others.
#pragma once

#include "yotta/core/random.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta_test {

// (rows, width) in f64, the same for the same name and microbatch.
inline yotta::Tensor normal_rows(const char* name, int64_t microbatch, int64_t rows,
                                 int64_t width) {
  yotta::Tensor x = yotta::Tensor::empty({rows, width}, yotta::DType::f64);
  const yotta::Random random(static_cast<uint64_t>(microbatch), name);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = random.normal(static_cast<uint64_t>(i));
  return x;
}

// The sum of (y - t)^2 / 2 for microbatch i's target t; dy = y - t.
inline double square_loss(size_t i, const yotta::Tensor& y, yotta::Tensor& dy) {
  dy = normal_rows("t", static_cast<int64_t>(i), y.dim(0), y.dim(1));
  double sum = 0;
  for (int64_t k = 0; k < y.numel(); ++k) {
    double& d = dy.data<double>()[k];
    d = y.data<double>()[k] - d;
    sum += d * d / 2;
  }
  return sum;
}

}  // namespace yotta_test
