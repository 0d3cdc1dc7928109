// The bodies of model/nd_groups.hpp.
#pragma once

#include "yotta/model/nd_groups.hpp"

#include "yotta/nn/experts.hpp"

namespace yotta {

YOTTA_INLINE NdGroups::NdGroups(Mesh& mesh, const Spreading& spread, bool has_experts,
                                Where where) {
  const SumAxes axes = sum_axes(spread);
  shards = mesh.along(axes.shards, where);
  // For a single axis the mesh has the communicator already; a split would cost messages.
  data.push_back(axes.data.size() == 1 ? mesh[axes.data[0]] : mesh.along(axes.data, where));
  if (mesh.size(Axis::ep) > 1) data.push_back(mesh.along(axes.experts, where));
  losses = mesh.along(axes.loss, where);
  weights = mesh.along(axes.squares, where);
  if (!spread.sharded_states) copies = mesh.size(Axis::ep);
  using enum Axis;
  if (has_experts) routed = mesh.along({cp, ep, dp_shard, dp_replicate}, where);
  runs = axes.runs;
}

YOTTA_INLINE void NdGroups::count_copies(const std::vector<ParameterPtr>& all) const {
  for (const ParameterPtr& each : all)
    if (!is_expert_parameter(*each)) each->copies *= copies;
}

YOTTA_INLINE std::vector<std::vector<ParameterPtr>> NdGroups::sets(
    const std::vector<ParameterPtr>& all) const {
  if (data.size() == 1) return {all};
  std::vector<std::vector<ParameterPtr>> both(2);
  for (const ParameterPtr& each : all) both[is_expert_parameter(*each) ? 1 : 0].push_back(each);
  return both;
}

}  // namespace yotta
