// Plan groups: who talks to whom in a layout, and over which network.
//
//     tp 8, pp 4, dp 2 on nodes of 8 chips     tp: 8 ranks in a node     dp: 2 ranks, across nodes
//
// A group along an axis has ranks that are `stride` apart. What its collectives take is the
// engine's own rule, collective_choice.hpp: a group that spans nodes uses all of its network cards.
// A rank has its own card, so groups of one axis do not share any; groups of two axes do, where a
// rank is in both (gradient_lanes.hpp).
// Contract: a cluster with switches, rank r on chip r. Letters: p ranks of a group.
#pragma once

#include "yotta/comm/collective_choice.hpp"
#include "yotta/comm/mesh.hpp"

namespace yotta {

using PlanGroup = GroupNetwork;

// Of the seconds of a collective over nodes those at the port into the node; 0 in a node, where
// that is the group's own port (port_seconds).
double inside_seconds(Operation operation, const PlanGroup& group, double bytes);

// ---- of a layout ----

// The groups of a layout, each with the network of the slowest group along its axes.
struct PlanGroups {
  PlanGroup tp, cp, pp, ep;
  PlanGroup shards;         // FSDP's
  PlanGroup data, experts;  // of DDP or ZeRO: for all weights; for those of experts
  PlanGroup routed;         // with other tokens: a mixture's loads are summed over them
};

// Groups of axes that are sharded by FSDP: shards; of all others that sum gradients: data.
// pp_outermost: the mesh is tp, cp, ep, fsdp, dp, pp from inside out, as Megatron Core's and
// TorchTitan's: experts and replicas stand inside the pipeline's ranks. Otherwise pp stands between
// cp and ep (comm/mesh.hpp).
// one_ring: each group over nodes as if it had one ring, which leaves every node by one card.
PlanGroups plan_groups(const Cluster& cluster, const MeshShape& shape, bool pp_outermost = false,
                       bool one_ring = false);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/plan_groups.ipp"
#endif
