// Nd groups: the communicators of a mesh's sums, from the axes that gradient_groups.hpp derives.
//
//     ep 2, dp 2      rank 0           rank 1           rank 2           rank 3
//     experts         0, 1             2, 3             0, 1             2, 3
//     all other       the same on all ranks
//     data[0]         ranks 0, 1, 2, 3: all other weights
//     data[1]         ranks 0, 2 and ranks 1, 3: experts
//
// Contract: all ranks of the mesh make it. Letters: none.
#pragma once

#include <vector>

#include "yotta/nn/experts.hpp"
#include "yotta/nn/parameter.hpp"
#include "yotta/parallel/gradient_groups.hpp"

namespace yotta {

struct NdGroups {
  NdGroups() = default;
  NdGroups(Mesh& mesh, const Spreading& spread, bool has_experts, Where where = Where::current()) {
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

  Communicator shards;             // FSDP's ranks
  std::vector<Communicator> data;  // ranks of DDP or ZeRO: of all weights; with ep of all but the
                                   // experts, then of the experts
  Communicator losses, weights;    // to sum the loss over; the squares
  Communicator routed;             // to sum loads over; empty without experts
  std::vector<Axis> runs;          // along which ranks hold different runs of a weight

  int copies = 1;  // of a weight that is no expert's, along ep

  // Has norms count each weight once.
  void count_copies(const std::vector<ParameterPtr>& all) const {
    for (const ParameterPtr& each : all)
      if (!is_expert_parameter(*each)) each->copies *= copies;
  }

  // The parameters that each of `data` is for.
  std::vector<std::vector<ParameterPtr>> sets(const std::vector<ParameterPtr>& all) const {
    if (data.size() == 1) return {all};
    std::vector<std::vector<ParameterPtr>> both(2);
    for (const ParameterPtr& each : all) both[is_expert_parameter(*each) ? 1 : 0].push_back(each);
    return both;
  }
};

}  // namespace yotta
