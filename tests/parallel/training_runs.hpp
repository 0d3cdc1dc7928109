// What tests of parallel training share: a batch that is the same whoever asks, one microbatch's
// passes through the linear net and a few steps of it on one rank, whole arrays put together from
// all ranks' shards, and comparisons.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <mutex>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/flat_shard.hpp"

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

// The loss of tests of pipelines: the sum of (y - t)^2 / 2 for microbatch i's target t; dy = y - t.
inline double square_loss(size_t i, const yotta::Tensor& y, yotta::Tensor& dy) {
  dy = batch_rows("t", static_cast<int64_t>(i), 0, y.dim(0), y.dim(1));
  double sum = 0;
  for (int64_t k = 0; k < y.numel(); ++k) {
    double& d = dy.data<double>()[k];
    d = y.data<double>()[k] - d;
    sum += d * d / 2;
  }
  return sum;
}

// Whole parameters, filled by the ranks, each at the place of its shards.
class Whole {
 public:
  void add(const std::string& name, int64_t numel, int64_t first, const yotta::Tensor& part) {
    const std::lock_guard lock(mutex_);
    std::vector<double>& all = values_[name];
    all.resize(static_cast<size_t>(numel), std::nan(""));
    const std::vector<double> numbers = part.values();
    std::copy(numbers.begin(), numbers.end(), all.begin() + first);
  }
  // Every parameter, in order of name. What no rank has added is NaN.
  std::vector<double> values() const {
    std::vector<double> all;
    for (const auto& [name, numbers] : values_)
      all.insert(all.end(), numbers.begin(), numbers.end());
    return all;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<double>> values_;
};

inline void add_values(Whole& to, const yotta::ParameterShard& shard) {
  to.add(shard.parameter->name, yotta::product(shard.whole), shard.first, shard.parameter->value);
}
inline void add_gradients(Whole& to, const yotta::ParameterShard& shard) {
  to.add(shard.parameter->name, yotta::product(shard.whole), shard.first,
         shard.parameter->gradient());
}

// What training leaves: losses of all steps, gradients of the first, weights after the last.
struct Trained {
  std::vector<double> losses;
  Whole gradients, weights;
};

// The linear net on one rank: `steps` steps of AdamW on batches of `rows` rows.
inline void train_serial(const yotta::LinearNetConfig& net, int64_t rows, int64_t steps,
                         Trained& out) {
  const std::vector<yotta::LayerPtr> model = make_linear_net(net, {1, yotta::DType::f64});
  const std::vector<yotta::ParameterPtr> all = parameters(yotta::Layers(model));
  yotta::AdamW optimizer(all);
  for (int64_t step = 0; step < steps; ++step) {
    zero_gradients(model);
    out.losses.push_back(run_microbatch(model, step, 0, rows, net.width, rows));
    for (const yotta::ParameterPtr& each : all)
      if (step == 0) out.gradients.add(each->name, each->grad.numel(), 0, each->grad);
    optimizer.step(0.01);
  }
  for (const yotta::ParameterPtr& each : all)
    out.weights.add(each->name, each->value.numel(), 0, each->value);
}

inline void check_same(const Trained& actual, const Trained& expected, int ranks,
                       double tolerance = 1e-12) {
  check_equal(actual.losses, expected.losses, ranks, "losses", tolerance);
  check_equal(actual.gradients.values(), expected.gradients.values(), ranks, "gradients",
              tolerance);
  check_equal(actual.weights.values(), expected.weights.values(), ranks, "weights", tolerance);
}

}  // namespace yotta_test
