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

#include "yotta/model/gradient_groups.hpp"
#include "yotta/model/whole_tensors.hpp"
#include "yotta/nn/parameter.hpp"

namespace yotta {

struct NdGroups {
  NdGroups() = default;
  NdGroups(Mesh& mesh, const Spreading& spread, bool has_experts, Where where = Where::current());

  Communicator shards;             // FSDP's ranks
  std::vector<Communicator> data;  // ranks of DDP or ZeRO: of all weights; with ep of all but the
                                   // experts, then of the experts
  Communicator losses, weights;    // to sum the loss over; the squares
  Communicator routed;             // to sum loads over; empty without experts
  RunAxes runs;                    // along which ranks hold different runs of a weight

  int copies = 1;  // of a weight that is no expert's, along ep

  // Has norms count each weight once.
  void count_copies(const std::vector<ParameterPtr>& all) const;
  // The parameters that each of `data` is for.
  std::vector<std::vector<ParameterPtr>> sets(const std::vector<ParameterPtr>& all) const;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/nd_groups.ipp"
#endif
