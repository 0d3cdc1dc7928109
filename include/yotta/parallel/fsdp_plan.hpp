// Which slices of a layer stack are sharded, gathered and dropped together: the units of FSDP.
//
//    stack     embedding │ layers.0 │ layers.1 │ layers.2 │ head   embedding and head share a table
//    units        root       1          2          3        root    1 layer per unit
//                 root       └───── 1 ─────┘       2        root    2 layers per unit
//
// A slice is some neighbouring layers of the stack; a unit is the weights of a slice. Small units
// mean little memory and many small messages; large ones the opposite. Layers that share a
// parameter must be one unit, the root, or it would be sharded twice. The root's slices lie apart
// in the stack, so it stays whole in between. A stack that shares nothing has no root.
//
// A slice may need two units: an outer one, for a table that another pipeline stage holds too, and
// its own, for the other weights. The outer one is gathered first and dropped last.
// tied_parameters.hpp makes such plans, and says why.
#pragma once

#include <optional>

#include "yotta/nn/layer.hpp"

namespace yotta {

struct FsdpPlan {
  struct Slice {
    Layers layers;
    size_t unit = 0;                       // an index into `parameters`
    bool is_first = true, is_last = true;  // of the slices of its unit: only the root has several
    std::optional<size_t> outer = {};      // a unit around this one, if the slice needs two

    bool is_root() const { return !is_first || !is_last; }
  };
  std::vector<Slice> slices;                          // in the order of the stack
  std::vector<std::vector<ParameterPtr>> parameters;  // by unit, each once
};

namespace detail {

// By layer of the stack: does another layer use one of its parameters?
inline std::vector<bool> shares_parameters(Layers stack) {
  std::vector<std::vector<ParameterPtr>> used;
  for (size_t i = 0; i < stack.size(); ++i) used.push_back(parameters(stack.subspan(i, 1)));
  const auto uses = [&](size_t layer, const ParameterPtr& each) {
    return std::find(used[layer].begin(), used[layer].end(), each) != used[layer].end();
  };
  std::vector<bool> shares(stack.size());
  for (size_t i = 0; i < stack.size(); ++i)
    for (size_t other = 0; other < stack.size(); ++other)
      for (const ParameterPtr& each : used[i])
        if (other != i && uses(other, each)) shares[i] = true;
  return shares;
}

}  // namespace detail

// Units of up to `layers_per_unit` layers each, and the root.
inline FsdpPlan plan_fsdp(Layers stack, int64_t layers_per_unit, Where where = Where::current()) {
  if (layers_per_unit < 1)
    fail(where, "a unit of {} layers: it needs at least one", layers_per_unit);
  const std::vector<bool> in_root = detail::shares_parameters(stack);
  FsdpPlan plan;
  std::optional<size_t> root;  // its last slice so far
  for (size_t first = 0, last = 0; first < stack.size(); first = last) {
    last = first + 1;
    const auto most = first + static_cast<size_t>(layers_per_unit);
    while (!in_root[first] && last < std::min(most, stack.size()) && !in_root[last]) ++last;
    FsdpPlan::Slice slice{stack.subspan(first, last - first), plan.parameters.size()};
    if (in_root[first] && root) {
      slice.unit = plan.slices[*root].unit;
      slice.is_first = plan.slices[*root].is_last = false;
    } else {
      plan.parameters.emplace_back();
    }
    if (in_root[first]) root = plan.slices.size();
    std::vector<ParameterPtr>& own = plan.parameters[slice.unit];
    for (const ParameterPtr& each : parameters(slice.layers))
      if (std::find(own.begin(), own.end(), each) == own.end()) own.push_back(each);
    plan.slices.push_back(slice);
  }
  return plan;
}

}  // namespace yotta
