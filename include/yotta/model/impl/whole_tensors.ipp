// The bodies of model/whole_tensors.hpp.
#pragma once

#include "yotta/model/whole_tensors.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "yotta/nn/experts.hpp"

namespace yotta {

YOTTA_INLINE bool gives(const Parameter& parameter, const RunAxes& runs, Mesh& mesh) {
  const auto may = [&](Axis axis) {
    return mesh.coordinate(axis) == 0 || std::find(runs.begin(), runs.end(), axis) != runs.end();
  };
  return (!parameter.range.is_whole() || mesh.coordinate(Axis::tp) == 0) && may(Axis::cp) &&
         (is_expert_parameter(parameter) || may(Axis::ep)) && may(Axis::dp_shard) &&
         may(Axis::dp_replicate);
}

namespace detail {
inline size_t find_held(const std::vector<Held>& held, const std::string& name) {
  size_t i = 0;
  while (i < held.size() && held[i].parameter->name != name) ++i;
  return i;
}

// The numbers of a whole part, flat: zeros but for those that are held.
inline Tensor around(const Tensor& values, const Held& held) {
  const ShardRange& part = held.parameter->range;
  Tensor flat = Tensor::zeros({part.rows * part.columns}, values.dtype());
  flat.rows(held.first, held.first + values.numel()).copy_from(values.reshape({values.numel()}));
  return flat;
}
}  // namespace detail

YOTTA_INLINE std::vector<NamedTensor> gather_whole(const std::vector<WholeShape>& shapes,
                                                   const std::vector<Held>& held,
                                                   const std::vector<Tensor>& values, DType dtype,
                                                   const RunAxes& runs, Mesh& mesh) {
  const MemoryScope memory(MemoryKind::buffers);
  std::vector<NamedTensor> all;
  for (const WholeShape& each : shapes) {
    const size_t i = detail::find_held(held, each.name);
    const bool here = i < held.size();
    std::vector<int> stage = {here ? mesh.coordinate(Axis::pp) : std::numeric_limits<int>::max()};
    mesh.world().all_reduce(stage, ReduceOp::min,
                            {.label = "whole.stage"});  // a tied table has two
    Tensor whole = Tensor::zeros(each.shape, dtype);
    if (here && stage[0] == mesh.coordinate(Axis::pp) && gives(*held[i].parameter, runs, mesh))
      put_shard(detail::around(values[i], held[i]), held[i].parameter->range, whole);
    mesh.world().reduce(whole, 0, ReduceOp::sum, {.label = "whole"});
    if (mesh.world().rank() == 0) all.push_back({each.name, whole});
  }
  return all;
}

YOTTA_INLINE void expect_whole(const std::string& source, const std::vector<WholeShape>& shapes,
                               const std::vector<NamedTensor>& whole, Where where) {
  std::map<std::string, Shape> shape_of;
  std::vector<std::string> expected, found;
  for (const WholeShape& each : shapes) {
    expected.push_back(each.name);
    shape_of[each.name] = each.shape;
  }
  for (const NamedTensor& each : whole) found.push_back(each.name);
  expect_same_names(source, expected, found, where);
  for (const auto& [name, value] : whole) {
    expect_loadable(source, name, shape_of[name], DType::f32, value.shape(), value.dtype(), where);
    expect_finite(source, name, value, where);
  }
}

YOTTA_INLINE void take_held(const std::vector<NamedTensor>& whole, const std::vector<Held>& held,
                            std::vector<Tensor>& values, Where where) {
  for (size_t i = 0; i < held.size(); ++i) {
    const Parameter& parameter = *held[i].parameter;
    const auto found = std::find_if(whole.begin(), whole.end(),
                                    [&](const auto& each) { return each.name == parameter.name; });
    if (found == whole.end())
      fail(where, "no tensor for the parameter {}: these are another model's", parameter.name);
    Tensor flat =
        Tensor::empty({parameter.range.rows * parameter.range.columns}, found->value.dtype());
    take_shard(found->value, parameter.range, flat, where);
    values[i].copy_from(
        flat.rows(held[i].first, held[i].first + values[i].numel()).reshape(values[i].shape()));
  }
}

YOTTA_INLINE void take_all(const std::vector<NamedTensor>& whole, Layers layers, Where where) {
  std::vector<Held> held;
  std::vector<Tensor> values;
  for (const ParameterPtr& each : parameters(layers)) {
    held.push_back({each, 0});
    values.push_back(each->value);
  }
  take_held(whole, held, values, where);
}

}  // namespace yotta
