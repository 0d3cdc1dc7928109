// Which slices of a layer stack are sharded, gathered and dropped together: the units of FSDP.
//
//     stack     embedding │ layers.0 │ layers.1 │ layers.2 │ head          embedding and head share a table
//     units        root       1          2          3        root          1 entry a unit
//                  root       └───── 1 ─────┘       2        root          2 entries a unit
//
// A small unit means little memory and many small messages; a large one the opposite. Entries that share a
// parameter must be one unit, or it would be sharded twice: the root. Its slices lie apart in the stack, so it
// stays whole in between. A stack that shares nothing has no root.
//
//     stack     embedding │ layers.0 │ layers.1        layers.2 │ layers.3 │ head      two pipeline stages
//     units      table, 0       1          2               0          1      table, 2
//
// A parameter that another pipeline stage holds too is `apart`: a unit of its own, so that all stages cut it at the
// same places, and the owners of a part can add up its gradients (tied_parameters.hpp).
#pragma once

#include <map>
#include <optional>
#include <set>

#include "yotta/nn/layer.hpp"

namespace yotta {

struct FsdpPlan {
  struct Slice {
    Layers layers;
    size_t unit = 0;
    bool is_first = true, is_last = true;  // of the slices of its unit: only the root has several
    std::optional<size_t> apart = {};      // the unit of its parameters that are apart

    bool is_root() const { return !is_first || !is_last; }
  };
  std::vector<Slice> slices;                          // in the order of the stack
  std::vector<std::vector<ParameterPtr>> parameters;  // by unit, each once
};

namespace detail {
// By entry of the stack: does another entry use one of its parameters?
inline std::vector<bool> shares_parameters(Layers stack) {
  std::map<ParameterPtr, int> entries;
  for (size_t i = 0; i < stack.size(); ++i)
    for (const ParameterPtr& each : parameters(stack.subspan(i, 1))) ++entries[each];
  std::vector<bool> shares(stack.size());
  for (size_t i = 0; i < stack.size(); ++i)
    for (const ParameterPtr& each : parameters(stack.subspan(i, 1)))
      if (entries[each] > 1) shares[i] = true;
  return shares;
}
}  // namespace detail

// Units of up to `layers_a_unit` entries, the root, and the parameters of these names.
inline FsdpPlan plan_fsdp(Layers stack, int64_t layers_a_unit,
                          const std::set<std::string>& apart = {}, Where where = Where::current()) {
  if (layers_a_unit < 1) fail(where, "a unit of {} layers: it has one at least", layers_a_unit);
  const std::vector<bool> in_root = detail::shares_parameters(stack);
  FsdpPlan plan;
  std::optional<size_t> root;  // its last slice so far
  for (size_t first = 0, last = 0; first < stack.size(); first = last) {
    last = first + 1;
    const auto most = first + static_cast<size_t>(layers_a_unit);
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
    std::vector<ParameterPtr> others;
    for (const ParameterPtr& each : parameters(slice.layers))
      if (apart.contains(each->name))
        others.push_back(each);
      else if (std::find(own.begin(), own.end(), each) == own.end())
        own.push_back(each);
    if (own.empty()) own.swap(others);
    if (!others.empty()) {
      slice.apart = plan.parameters.size();
      plan.parameters.push_back(std::move(others));
    }
    plan.slices.push_back(slice);
  }
  return plan;
}

}  // namespace yotta
