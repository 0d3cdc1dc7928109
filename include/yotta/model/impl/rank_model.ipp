// The bodies of model/rank_model.hpp.
#pragma once

#include "yotta/model/rank_model.hpp"

#include "yotta/parallel/expert_parallel.hpp"
#include "yotta/parallel/flat_shard.hpp"

namespace yotta {

YOTTA_INLINE std::vector<ParameterPtr> RankModel::parameters() const {
  std::vector<ParameterPtr> all;
  for (const Held& each : held_) all.push_back(each.parameter);
  return all;
}

YOTTA_INLINE std::vector<WholeShape> RankModel::shapes() const {
  const Transformer serial = as_shapes([&] { return serial_model(config_); });
  std::vector<WholeShape> all;
  for (const ParameterPtr& each : yotta::parameters(serial.stack()))
    all.push_back({each->name, each->value.shape()});
  return all;
}

YOTTA_INLINE std::vector<NamedTensor> RankModel::gather_weights() {
  std::vector<Tensor> values;
  for (const Held& each : held_) values.push_back(each.parameter->value);
  return gather(values, config_.dtype);
}

}  // namespace yotta
