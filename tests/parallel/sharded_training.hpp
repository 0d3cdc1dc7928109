// What tests of sharded training share: whole arrays put together from all ranks' shards, and a few
// steps of the linear net by whatever shards it.
#pragma once

#include <map>
#include <mutex>

#include "parallel/linear_training.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/parallel/flat_shard.hpp"

namespace yotta_test {

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
