// Which algorithm: for every collective the list of those it can be run with, and the one that is run
// when nobody asked.
//
//                      automatic                                          on request
//     all_reduce       ring                                               naive, tree, recursive doubling, Rabenseifner
//     reduce_scatter   ring                                               naive, recursive halving
//     all_gather       ring                                               naive, recursive doubling, Bruck
//     broadcast        tree up to 16 KiB, above scatter + all_gather      naive, chain
//     reduce           tree                                               naive
//     gather, scatter  tree                                               naive
//     all_to_all       Bruck up to 256 bytes a chunk, above pairwise      naive
//     barrier          dissemination                                      naive
//
// Whatever sums keeps to the ring at every size: it sends the fewest bytes, and a sum is then rounded in
// one order, the threads' native one too. The two sizes are MPICH's, rounded (Thakur et al., section 3).
// `native` is the transport's own and not in these lists.
#pragma once

#include "yotta/comm/collectives_bruck.hpp"
#include "yotta/comm/collectives_chain.hpp"
#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/comm/collectives_naive.hpp"
#include "yotta/comm/collectives_recursive_cost.hpp"

namespace yotta {

// A way to run a collective, and what it sends from one rank: sent(p, rank, n, width[, root]).
template <class Run, class Formula>
struct Offer {
  Algorithm algorithm;
  Run* run;
  Formula* sent;
};
using SentFormula = Sent(int p, int rank, int64_t n, int64_t width);
using RootedFormula = Sent(int p, int rank, int64_t n, int64_t width, int root);

using AllReduce = Offer<void(Channel&, Data, ReduceOp), SentFormula>;
inline constexpr AllReduce all_reduce_offers[] = {
    {Algorithm::ring, all_reduce_ring, all_reduce_ring_sent},
    {Algorithm::naive, all_reduce_naive, all_reduce_naive_sent},
    {Algorithm::tree, all_reduce_tree, all_reduce_tree_sent},
    {Algorithm::recursive_doubling, all_reduce_recursive_doubling,
     all_reduce_recursive_doubling_sent},
    {Algorithm::rabenseifner, all_reduce_rabenseifner, all_reduce_rabenseifner_sent}};

using ReduceScatter = Offer<void(Channel&, ConstData, Data, ReduceOp), SentFormula>;
inline constexpr ReduceScatter reduce_scatter_offers[] = {
    {Algorithm::ring, reduce_scatter_ring, reduce_scatter_ring_sent},
    {Algorithm::naive, reduce_scatter_naive, reduce_scatter_naive_sent},
    {Algorithm::recursive_halving, reduce_scatter_recursive_halving,
     reduce_scatter_recursive_halving_sent}};

using AllGather = Offer<void(Channel&, ConstData, Data), SentFormula>;
inline constexpr AllGather all_gather_offers[] = {
    {Algorithm::ring, all_gather_ring, all_gather_ring_sent},
    {Algorithm::naive, all_gather_naive, all_gather_naive_sent},
    {Algorithm::recursive_doubling, all_gather_recursive_doubling,
     all_gather_recursive_doubling_sent},
    {Algorithm::bruck, all_gather_bruck, all_gather_bruck_sent}};

using AllToAll = AllGather;
inline constexpr AllToAll all_to_all_offers[] = {
    {Algorithm::pairwise, all_to_all_pairwise, all_to_all_pairwise_sent},
    {Algorithm::naive, all_to_all_naive, all_to_all_naive_sent},
    {Algorithm::bruck, all_to_all_bruck, all_to_all_bruck_sent}};

using Broadcast = Offer<void(Channel&, Data, int root), RootedFormula>;
inline constexpr Broadcast broadcast_offers[] = {
    {Algorithm::tree, broadcast_tree, broadcast_tree_sent},
    {Algorithm::naive, broadcast_naive, broadcast_naive_sent},
    {Algorithm::chain,
     [](Channel& channel, Data data, int root) { broadcast_chain(channel, data, root); },
     [](int p, int rank, int64_t n, int64_t width, int root) {
       return broadcast_chain_sent(p, rank, n, width, root);
     }},
    {Algorithm::scatter_all_gather, broadcast_scatter_all_gather,
     broadcast_scatter_all_gather_sent}};

using Reduce = Offer<void(Channel&, Data, ReduceOp, int root), RootedFormula>;
inline constexpr Reduce reduce_offers[] = {{Algorithm::tree, reduce_tree, reduce_tree_sent},
                                           {Algorithm::naive, reduce_naive, reduce_naive_sent}};

// The last argument is n: ranks other than the root cannot know it from their chunk.
using Gather = Offer<void(Channel&, ConstData, Data, int root, int64_t n), RootedFormula>;
inline constexpr Gather gather_offers[] = {{Algorithm::tree, gather_tree, gather_tree_sent},
                                           {Algorithm::naive,
                                            [](Channel& channel, ConstData in, Data out, int root,
                                               int64_t) { gather_naive(channel, in, out, root); },
                                            gather_naive_sent}};

using Scatter = Gather;
inline constexpr Scatter scatter_offers[] = {
    {Algorithm::tree, scatter_tree, scatter_tree_sent},
    {Algorithm::naive,
     [](Channel& channel, ConstData in, Data out, int root, int64_t) {
       scatter_naive(channel, in, out, root);
     },
     scatter_naive_sent}};

using Barrier = Offer<void(Channel&), Sent(int p, int rank)>;
inline constexpr Barrier barrier_offers[] = {
    {Algorithm::dissemination, barrier_dissemination,
     [](int p, int) { return barrier_dissemination_sent(p); }},
    {Algorithm::naive, barrier_naive, barrier_naive_sent}};

// The offer that was asked for; `automatic` is the list's first. Errors: the list has no such offer.
template <class Run, class Formula, size_t Count>
const Offer<Run, Formula>& choose(const char* operation, const Offer<Run, Formula> (&offers)[Count],
                                  Algorithm wanted, Where where = Where::current()) {
  if (wanted == Algorithm::automatic) return offers[0];
  std::string names;
  for (const Offer<Run, Formula>& offer : offers) {
    if (offer.algorithm == wanted) return offer;
    names += (names.empty() ? "" : ", ") + std::string(name(offer.algorithm));
  }
  fail(where, "{} has no algorithm '{}'; choose one of: {}", operation, name(wanted), names);
}

// What `automatic` means where it depends on the size.
constexpr Algorithm broadcast_algorithm(Algorithm wanted, int64_t bytes) {
  if (wanted != Algorithm::automatic) return wanted;
  return bytes <= 16 * 1024 ? Algorithm::tree : Algorithm::scatter_all_gather;
}
constexpr Algorithm all_to_all_algorithm(Algorithm wanted, int64_t bytes, int p) {
  if (wanted != Algorithm::automatic) return wanted;
  return bytes <= 256 * p ? Algorithm::bruck : Algorithm::pairwise;
}

}  // namespace yotta
