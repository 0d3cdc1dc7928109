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
  double forward_turn = 0, backward_turn = 0;   // seconds in which nothing is computed: take_turns
};
PlanUnit plan_unit(const LayerFigures& layer, const PlanGroup& group, const LayerSizes& z,
                   const Kernels& kernels);
// Of an end of a tied model with several stages: the table is a unit around the others.
PlanUnit plan_end(const LayerFigures& layer, const PlanGroup& group, const LayerSizes& z,
                  const Kernels& kernels);
// Of a tied model on one stage: the embedding with the head, which read one table.
PlanUnit plan_root(const LayerFigures& embedding, const LayerFigures& head, const PlanGroup& group,
                   const LayerSizes& z, const Kernels& kernels);

// ---- matrix by matrix ----

// A unit as DeepSpeed's ZeRO-3 of 2021 moved it: kernels, the host and the network take turns.
//
//     each matrix    gathered forward; again where the block runs again; again backward; summed
//     a gather       the host waits for the chip and fills a buffer │ p slices │ network │ copies
//                                                                              │ p copies launched
//     a sum          p slices, p copies launched │ copies │ network
//
// Of the host each slice takes an op and each copy two and a launch, in a sum a slice another op;
// machine/launch_overhead.hpp says how long these take. So it is p that matters. The lists of sums
// are made while kernels of backward run. A matrix stays from where it runs again until backward if
// fewer than 1e9 numbers are used in between; parameters of fewer than 1e5 are always whole.
// Gradients travel in the type of weights.
// References: DeepSpeed v0.3.13 (March 2021), runtime/zero/partition_parameters.py, stage3.py and
// constants.py; its pull request 1188, which finds that a gather "is not async at all"; PyTorch
// 1.8, ProcessGroupNCCL, for the copies.
void take_turns(PlanUnit& unit, const PlanGroup& group, const LayerSizes& z,
                const Kernels& kernels);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/plan_buckets.ipp"
#endif
