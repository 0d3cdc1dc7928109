// What each rank has of a mixture of experts: its experts, and its room in every expert.
//
//     E = 5 experts, ep = 2          rank 0: 0 1 2        rank 1: 3 4
//
// An expert may have a capacity, a number of rows that it takes. The capacity is one number for all
// tokens of a microbatch, wherever they are, and tokens that come first have their rows first. So a
// rank must know how many rows the ranks before it have for each expert:
//
//     capacity 4      expert 0    expert 1     expert 0    expert 1
//     rank 0 has      3           1            keeps 3     keeps 1       before: 0, 0
//     rank 1 has      2           2            keeps 1     keeps 2       before: 3, 1
//     rank 2 has      1           3            keeps 0     keeps 1       before: 5, 3
//
// One rank with all tokens would keep the same rows. Systems without this exchange give each rank a
// capacity of its own, and drop more.
// Cost: with a capacity an all_gather of E counts from each rank; with a loss of the router an
// all_reduce of E + 1 numbers.
// Contract: ep <= E. If ep does not divide E, the first E mod ep ranks hold one expert more. tp
// divides F.
// Letters: n tokens of a microbatch, k experts of a token, C width, F hidden width of an expert, E
// experts, ep and tp ranks.
// References: Lepikhin et al. (2020), GShard, section 2.2 (capacity); Fedus et al. (2021), Switch,
// section 2.2 (capacity factor).
#pragma once

#include <numeric>

#include "yotta/core/chunks.hpp"
#include "yotta/nn/expert_rows.hpp"
#include "yotta/nn/experts.hpp"
#include "yotta/nn/router.hpp"
#include "yotta/parallel/sequence_parallel.hpp"

namespace yotta {

// The ranks of a mixture. Empty ones stand for size 1: the serial layer.
struct MoeAxes {
  Communicator ep = {};
  Communicator routed = {};  // ranks with other tokens of a microbatch, in order; empty: ep's
  // Of tensor parallelism: each expert's hidden numbers are cut; SequenceBorder shares the tokens.
  BorderPtr border = {};

  const Communicator& all_routed() const { return routed.is_member() ? routed : ep; }
};

struct MoeOptions {
  RouterOptions router;       // C, E and k of the whole layer
  ExpertsOptions experts;     // F, activation, initial values; the rest is filled in
  int64_t shared_hidden = 0;  // F of the shared expert; 0: there is none
  double capacity = 0;        // an expert takes factor n k / E rows; 0: all
  double dropout = 0;         // of y
  CommOptions comm = {};      // Algorithm::hierarchical: inside nodes, then between them
};

// The experts, and of each the hidden numbers, that this rank holds. `layer` is for errors.
inline ExpertsOptions held_experts(const MoeOptions& options, const MoeAxes& axes,
                                   const std::string& layer, Where where = Where::current()) {
  const int ep = axis_size(axes.ep), rank = axis_rank(axes.ep);
  ExpertsOptions held = options.experts;
  held.width = options.router.width;
  held.experts = options.router.experts;
  if (held.experts < ep)
    fail(where, "{}: {} experts cannot be shared out among {} ranks of ep; take at most {}", layer,
         held.experts, ep, held.experts);
  expert_capacity(options.capacity, 0, 1, held.experts, where);  // refuses a factor below 0
  held.first_expert = chunk_begin(held.experts, ep, rank);
  held.held_experts = chunk_count(held.experts, ep, rank);
  held.held_hidden = held.hidden;
  if (axes.border == nullptr) return held;
  const Communicator& tp = axes.border->tp();
  held.held_hidden = part_of(held.hidden, tp, layer, "hidden numbers of an expert", where);
  held.first_hidden = tp.rank() * held.held_hidden;
  return held;
}

// The shared expert as an Mlp: the experts' activation and initial values, a width of its own.
inline MlpOptions shared_expert(const MoeOptions& options, Where where = Where::current()) {
  if (options.shared_hidden < 1)
    fail(where, "the shared expert has {} hidden numbers; expected 1 or more, or 0 for none",
         options.shared_hidden);
  const ExpertsOptions& each = options.experts;
  return {each.gated ? MlpKind::swiglu : MlpKind::gelu,
          options.router.width,
          options.shared_hidden,
          false,
          0,
          each.initial,
          each.initial_down};
}

// Where tokens (n, C) go. The router's losses are means over the tokens of all ranks of `routed`,
// which add up their loads. `saved` is the router's.
inline Routing route_tokens(Router& router, const Tensor& tokens, const Communicator& routed,
                            Saved& saved) {
  const Routing routing = router.route(tokens, saved);
  const RouterOptions& o = router.options();
  if ((o.balance_loss > 0 || o.z_loss > 0) && axis_size(routed) > 1) {
    Tensor load = router.load(saved);
    routed.all_reduce(load, ReduceOp::sum, {.label = "ep.load"});
  }
  return routing;
}

// The rows that each rank of a group has for each expert, from this rank's (E): (ranks, E) i64, on
// the host. Images (Communicator::mirrored) have what this rank has.
inline Tensor all_counts(const std::vector<int64_t>& counts, const Communicator& group,
                         const char* label) {
  const int64_t ranks = axis_size(group), E = std::ssize(counts);
  const DeviceScope host(Device::cpu);
  const Tensor own = Tensor::from(counts, {1, E});
  Tensor all = Tensor::empty({ranks, E}, DType::i64);
  for (int64_t r = 0; r < ranks; ++r) all.rows(r, r + 1).copy_from(own);
  if (ranks == 1) return all;
  if (!group.is_mirrored()) {
    group.all_gather(all, own, {.label = label});
  } else {
    const DeviceScope meta(Device::meta);
    Tensor shapes = Tensor::empty({ranks, E}, DType::i64);
    group.all_gather(shapes, Tensor::empty({1, E}, DType::i64), {.label = label});
  }
  return all;
}

// The rows of expert (n, k) in the order of experts, without those beyond the capacity. All ranks
// of `routed` call.
inline ExpertRows rows_within_capacity(const Tensor& expert, const MoeOptions& options,
                                       const Communicator& routed) {
  const RouterOptions& o = options.router;
  ExpertRows rows = sort_by_expert(expert, o.experts);
  if (options.capacity == 0) return rows;
  const Tensor gathered = all_counts(rows.counts, routed, "ep.capacity");
  const std::span<const int64_t> all = gathered.span<int64_t>();
  const size_t E = rows.counts.size(), rank = static_cast<size_t>(axis_rank(routed));
  std::vector<int64_t> before(E);
  for (size_t i = 0; i < rank * E; ++i) before[i % E] += all[i];
  const int64_t assignments = std::accumulate(all.begin(), all.end(), int64_t{0});
  const int64_t capacity =
      expert_capacity(options.capacity, assignments / o.top_k, o.top_k, o.experts);
  return sort_by_expert(expert, o.experts, capacity, before);
}

// Of all assignments, the share that experts with these loads (E) drop at a capacity factor.
inline double dropped_share(std::span<const int64_t> loads, double factor) {
  const int64_t all = std::accumulate(loads.begin(), loads.end(), int64_t{0});
  const int64_t capacity = expert_capacity(factor, all, 1, std::ssize(loads));
  int64_t dropped = 0;
  for (const int64_t load : loads) dropped += std::max<int64_t>(0, load - capacity);
  return all == 0 ? 0 : static_cast<double>(dropped) / static_cast<double>(all);
}

}  // namespace yotta
