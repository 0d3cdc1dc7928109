// Whole tensors from what the ranks of a mesh hold, and back: for checkpoints and for sampling. A
// file holds whole tensors under the names of the serial model, so a run may be saved on one layout
// and continued on another.
//
//     whole (4, 6)      tp: rows  FSDP, ZeRO: a run of that part, row-major
//     . . . . . .
//     . . . . . .
//     # # # # # #   ┐             # # # # # # # #        Held{part: rows 2, 3; first: 0; 8 numbers}
//     # # + + + +   ┘ rows 2, 3           + + + +        Held{the same part;   first: 8; 4 numbers}
//
// Exactly one rank contributes a number: of those that hold it, the lowest on each axis. The others
// contribute zeros, and a sum puts the whole together, one tensor at a time. Cost: one reduce of
// every tensor over all ranks; one whole tensor beside the model on each rank, all of them on rank
// 0. Contract: all ranks of the world make the same calls.
#pragma once

#include <string>
#include <vector>

#include "yotta/comm/mesh.hpp"
#include "yotta/model/named_tensor.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/nn/shard_range.hpp"

namespace yotta {

// What a rank holds of a parameter: numbers [first, first + n) of its ShardRange, row-major.
// Without FSDP or ZeRO all of it.
struct Held {
  ParameterPtr parameter;
  int64_t first = 0;
};

// A tensor of the serial model.
struct WholeShape {
  std::string name;
  Shape shape;
};

// Axes along which ranks hold different runs: cp and dp_shard with FSDP; cp, ep and dp_replicate
// with ZeRO. Along ep ranks hold different experts in any case.
using RunAxes = std::vector<Axis>;

// Whether this rank, of all that hold these numbers, is the one that contributes them.
YOTTA_API bool gives(const Parameter& parameter, const RunAxes& runs, Mesh& mesh);

// Whole tensors on rank 0 (elsewhere nothing), in the order of `shapes`. values[i] are the numbers
// of held[i].
YOTTA_API std::vector<NamedTensor> gather_whole(const std::vector<WholeShape>& shapes,
                                                const std::vector<Held>& held,
                                                const std::vector<Tensor>& values, DType dtype,
                                                const RunAxes& runs, Mesh& mesh);

// Throws unless `whole` are finite tensors of these names and shapes, and no others. `source` names
// the file in errors.
YOTTA_API void expect_whole(const std::string& source, const std::vector<WholeShape>& shapes,
                            const std::vector<NamedTensor>& whole, Where where = Where::current());

// The way back, without messages: every rank has the whole tensors and takes what it holds.
YOTTA_API void take_held(const std::vector<NamedTensor>& whole, const std::vector<Held>& held,
                         std::vector<Tensor>& values, Where where = Where::current());
// The same for the parameters of layers that are not yet sharded.
YOTTA_API void take_all(const std::vector<NamedTensor>& whole, Layers layers,
                        Where where = Where::current());

}  // namespace yotta

#if YOTTA_BODIES_OF(model)
#include <algorithm>
#include <limits>
#include <map>

#include "yotta/nn/experts.hpp"

namespace yotta {

bool gives(const Parameter& parameter, const RunAxes& runs, Mesh& mesh) {
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

std::vector<NamedTensor> gather_whole(const std::vector<WholeShape>& shapes,
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

void expect_whole(const std::string& source, const std::vector<WholeShape>& shapes,
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

void take_held(const std::vector<NamedTensor>& whole, const std::vector<Held>& held,
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

void take_all(const std::vector<NamedTensor>& whole, Layers layers, Where where) {
  std::vector<Held> held;
  std::vector<Tensor> values;
  for (const ParameterPtr& each : parameters(layers)) {
    held.push_back({each, 0});
    values.push_back(each->value);
  }
  take_held(whole, held, values, where);
}

}  // namespace yotta
#endif  // YOTTA_BODIES
