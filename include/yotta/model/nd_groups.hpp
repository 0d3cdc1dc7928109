// Nd groups: which ranks of a mesh sum what.
//
// The loss is a local sum over the tokens of the whole batch, so whoever sees other tokens has
// another part of it, and of each gradient:
//
//     gradients   over all ranks that see other tokens and hold the same weights: cp, ep, dp; those
//                 of experts without ep, whose ranks hold different experts and have seen each
//                 other's tokens
//     loss        over cp, ep, dp; and pp, whose last stage alone has one
//     squares     for clipping: over those that step other weights: tp, pp, ep, ranks of FSDP or
//                 ZeRO
//     loads       of experts: over cp, ep, dp, whose tokens are routed together
//
// With FSDP gradients are first summed over cp and fsdp, by the units; what is left is ep and dp.
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

#include "yotta/comm/mesh.hpp"
#include "yotta/model/whole_tensors.hpp"
#include "yotta/nn/parameter.hpp"

namespace yotta {

struct NdGroups {
  NdGroups() = default;
  YOTTA_API NdGroups(Mesh& mesh, bool has_zero, bool has_experts, Where where = Where::current());

  Communicator shards;             // FSDP's ranks
  std::vector<Communicator> data;  // ranks of DDP or ZeRO: of all weights; with ep of all but the
                                   // experts, then of the experts
  Communicator losses, weights;    // to sum the loss over; the squares
  Communicator routed;             // to sum loads over; empty without experts
  RunAxes runs;                    // along which ranks hold different runs of a weight

  int copies = 1;  // of a weight that is no expert's, along ep

  // Has norms count each weight once.
  YOTTA_API void count_copies(const std::vector<ParameterPtr>& all) const;
  // The parameters that each of `data` is for.
  YOTTA_API std::vector<std::vector<ParameterPtr>> sets(const std::vector<ParameterPtr>& all) const;
};

}  // namespace yotta

#if YOTTA_BODIES_OF(model)
#include "yotta/nn/experts.hpp"

namespace yotta {

NdGroups::NdGroups(Mesh& mesh, bool has_zero, bool has_experts, Where where) {
  using enum Axis;
  const bool is_sharded = mesh.size(dp_shard) > 1, has_ep = mesh.size(ep) > 1;
  shards = mesh.along({cp, dp_shard}, where);
  data.push_back(is_sharded ? mesh.along({ep, dp_replicate}, where)
                            : mesh.along({cp, ep, dp_replicate}, where));
  if (has_ep)
    data.push_back(is_sharded ? mesh[dp_replicate] : mesh.along({cp, dp_replicate}, where));
  losses = mesh.along({cp, pp, ep, dp_shard, dp_replicate}, where);
  weights = is_sharded ? mesh.along({tp, cp, pp, ep, dp_shard}, where)
            : has_zero ? mesh.along({tp, cp, pp, ep, dp_replicate}, where)
                       : mesh.along({tp, pp, ep}, where);
  if (!has_zero) copies = mesh.size(ep);
  if (has_experts) routed = mesh.along({cp, ep, dp_shard, dp_replicate}, where);
  runs = is_sharded ? RunAxes{cp, dp_shard} : has_zero ? RunAxes{cp, ep, dp_replicate} : RunAxes{};
}

void NdGroups::count_copies(const std::vector<ParameterPtr>& all) const {
  for (const ParameterPtr& each : all)
    if (!is_expert_parameter(*each)) each->copies *= copies;
}

std::vector<std::vector<ParameterPtr>> NdGroups::sets(const std::vector<ParameterPtr>& all) const {
  if (data.size() == 1) return {all};
  std::vector<std::vector<ParameterPtr>> both(2);
  for (const ParameterPtr& each : all) both[is_expert_parameter(*each) ? 1 : 0].push_back(each);
  return both;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
