// Plan buckets: gradients and weights as they travel: DDP's and ZeRO's buckets, FSDP's units.
//
//     parameters in the order of backward     9  3  3  4  2  2  2  8      at most 12 in a bucket
//     buckets                                [9  3][3  4  2  2][2  8]
//     rank 0 of 4 holds of the second        3 of 11 numbers, and what is padded
//
// The rules are those of cut_into_buckets (parallel/ddp.hpp), FlatLayout (parallel/flat_shard.hpp)
// and FsdpUnit (parallel/fsdp.hpp). Letters: p ranks of a group.
#pragma once

#include <vector>

#include "yotta/plan/layer_figures.hpp"
#include "yotta/plan/layer_sizes.hpp"
#include "yotta/plan/plan_groups.hpp"

namespace yotta {

struct PlanBucket {
  std::vector<int64_t> parameters = {};
  bool experts = false;  // summed by those that hold the same experts

  int64_t numbers() const;
};
// Of parameters in the order of backward; each number of `bytes_each` bytes.
std::vector<PlanBucket> plan_buckets(const std::vector<int64_t>& parameters, int64_t bucket_bytes,
                                     double bytes_each);
// The parts of a flat array of these parameters that rank 0 of p holds, parameter by parameter.
std::vector<int64_t> first_shards(const std::vector<int64_t>& parameters, int p);
// Sets that are summed together: all, or those of no experts and those of experts.
std::vector<std::vector<int64_t>> summed_sets(const std::vector<WeightReady>& weights,
                                              bool experts_apart);
// Bytes of scratch of the reduce_scatter of a bucket; over one rank, which sums nothing, there is
// some too.
double bucket_scratch(const PlanGroup& group, double bytes);
constexpr int64_t shard_numbers(int64_t numbers, int p) { return (numbers + p - 1) / p; }

// ---- FSDP's units ----

// A layer as a unit of p shards; without FSDP p is 1, and it costs nothing.
struct PlanUnit {
  const LayerFigures* layer = nullptr;
  double gather = 0, reduce = 0, add = 0;       // seconds: of weights, of gradients; to add a shard
  double gather_work = 0, reduce_work = 0;      // of these, at the group's port
  std::vector<WeightReady> shards = {};         // of rank 0, in the order of forward
  bool stays = false;                           // whole until it has gone backward: gathered once
  double gather_inside = 0, reduce_inside = 0;  // and, over nodes, at the port into the node

  // Seconds to gather it in a microbatch, forward and backward.
  double gathers() const { return (stays ? 1 : 2) * gather; }
};
PlanUnit plan_unit(const LayerFigures& layer, const PlanGroup& group, const LayerSizes& z,
                   const Kernels& kernels);
// Of an end of a tied model with several stages: the table is a unit around the others.
PlanUnit plan_end(const LayerFigures& layer, const PlanGroup& group, const LayerSizes& z,
                  const Kernels& kernels);
// Of a tied model on one stage: the embedding with the head, which read one table.
PlanUnit plan_root(const LayerFigures& embedding, const LayerFigures& head, const PlanGroup& group,
                   const LayerSizes& z, const Kernels& kernels);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/plan_buckets.ipp"
#endif
