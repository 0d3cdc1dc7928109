// What tests of parallel training on the linear net share: a batch that is the same whoever asks,
// one microbatch's passes, and steps of whatever is trained.
#pragma once

#include <doctest/doctest.h>

#include "yotta/core/compare.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/linear_net.hpp"

namespace yotta_test {

// Row i of a step's whole batch, the same whoever asks.
inline yotta::Tensor batch_rows(const char* name, int64_t step, int64_t begin, int64_t end,
                                int64_t width) {
  yotta::Tensor x = yotta::Tensor::empty({end - begin, width}, yotta::DType::f64);
  const yotta::Random random(static_cast<uint64_t>(step), name);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = random.normal(static_cast<uint64_t>(begin * width + i));
  return x;
}

// Forward and backward on rows [begin, end) of a step's batch; returns their part of the loss,
// sum (y - t)^2 / (2 * rows of all).
inline double run_microbatch(yotta::Layers layers, int64_t step, int64_t begin, int64_t end,
                             int64_t width, int64_t rows) {
  yotta::Saved saved({0, step, begin, 0, true});
  const yotta::Tensor y = yotta::forward(layers, batch_rows("x", step, begin, end, width), saved);
  yotta::Tensor dy = batch_rows("t", step, begin, end, width);
  double loss = 0;
  for (int64_t i = 0; i < dy.numel(); ++i) {
    const double error = y.data<double>()[i] - dy.data<double>()[i];
    loss += error * error / (2 * static_cast<double>(rows));
    dy.data<double>()[i] = error / static_cast<double>(rows);
  }
  yotta::backward(layers, dy, saved);
  return loss;
}

inline void append(std::vector<double>& to, const yotta::Tensor& tensor) {
  const std::vector<double> values = tensor.values();
  to.insert(to.end(), values.begin(), values.end());
}

inline void check_equal(const std::vector<double>& actual, const std::vector<double>& expected,
                        int ranks, const char* what, double tolerance = 1e-12) {
  yotta::Clues clues;
  clues.what = what;
  clues.ranks = ranks;
  const yotta::Verdict verdict = yotta::compare(actual, expected, tolerance, clues);
  CHECK_MESSAGE(verdict.equal, verdict.text);
}

}  // namespace yotta_test
