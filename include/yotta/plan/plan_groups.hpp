// Plan groups: who talks to whom in a layout, over which link, and what a collective takes there.
//
//     tp 8, pp 4, dp 2 on nodes of 8 chips     tp: 8 ranks in a node     dp: 2 ranks, across nodes
//
// A group along an axis has ranks that are `stride` apart; the slowest link between any two of them
// sets the pace of its ring. Small collectives take what needs few messages, large ones the ring,
// as comm/engine/algorithms.hpp chooses; the seconds are those of comm/*_seconds.
// Contract: a cluster with switches, rank r on chip r. Letters: p ranks of a group.
#pragma once

#include "yotta/comm/collectives.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/machine/cluster.hpp"

namespace yotta {

// p ranks of which neighbours have this link.
struct PlanGroup {
  int p = 1;
  AlphaBeta link = {};
  int port = 0;  // port_of(link): 0 into the node, 1 out of it
};
// Whole collectives of `bytes` bytes in all, with the algorithm that is run for so many.
double all_reduce_seconds(const PlanGroup& group, double bytes);
double all_gather_seconds(const PlanGroup& group, double bytes);
double reduce_scatter_seconds(const PlanGroup& group, double bytes);
double all_to_all_seconds(const PlanGroup& group, double bytes);

// Of one of these seconds, those at a port: all but latency and sums.
using CollectiveSeconds = double (*)(const PlanGroup&, double bytes);
inline double port_seconds(CollectiveSeconds seconds, const PlanGroup& group, double bytes) {
  return seconds({group.p, {0, group.link.beta, 0}}, bytes);
}

// Bytes that a ring's reduce_scatter, and so its all_reduce, holds beside its data.
double ring_scratch(const PlanGroup& group, double bytes);

// ---- of a layout ----

// The groups of a layout, each with the slowest link that it has.
struct PlanGroups {
  PlanGroup tp, cp, pp, ep;
  PlanGroup shards;         // FSDP's
  PlanGroup data, experts;  // of DDP or ZeRO: for all weights; for those of experts
  PlanGroup routed;         // with other tokens: a mixture's loads are summed over them
};

// Groups of axes that are sharded by FSDP: shards; of all others that sum gradients: data.
PlanGroups plan_groups(const Cluster& cluster, const MeshShape& shape);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/plan_groups.ipp"
#endif
