// Collective choice: which algorithm a collective takes on a described cluster, and how long it
// takes there. The one rule of the house: the engine asks it for every collective on a clock, the
// planner and the sweep over HSDP's groups for every layout.
//
//     less than 16 KiB             few messages: doubling, halving, Bruck
//     else, in one node            one ring
//     else, over nodes, the        a ring for each network card of a node    multi-rail
//     fastest by formula of        inside nodes first, then between them     hierarchical: by node,
//                                                                            by rack, by pod
//     all_to_all over nodes        pairs: each rank sends its own blocks by its own card
//
// As NCCL does, a group that spans nodes keeps all its network cards busy: multi-rail sends fewest
// bytes by each card, the hierarchical way fewest messages, so the first takes large arrays and
// the second smaller ones. A group with one rank in a node has one card in it, and one ring. So has
// one that does not fill its nodes evenly, and one on a torus (torus_rings.hpp uses all its links).
//
// All ranks see the same sizes and the same cluster, so they choose alike. Collectives with a root
// take a tree from the root, whose own card carries all; a long broadcast a scatter and a ring.
// Without a described cluster only the size counts, and large arrays take the ring.
//
// Contract: the seconds are the clock's if the group has its ports to itself and p times the cards
// of a node divides the array; on p that is no power of two, arrays below 16 KiB that reduce over
// several nodes may be faster.
// Letters: channel.hpp; g ranks in a node.
// Reference: NCCL's tuning takes the fastest of its algorithms by such a model,
// src/graph/tuning.cc.
#pragma once

#include "yotta/comm/collectives_bruck.hpp"
#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/comm/collectives_recursive.hpp"
#include "yotta/comm/comm_options.hpp"
#include "yotta/machine/group_network.hpp"

namespace yotta {

// Arrays of fewer bytes are small: the time of a message outweighs that of its bytes.
inline constexpr int64_t small_bytes = 16 * 1024;

struct CollectiveChoice {
  Algorithm algorithm = Algorithm::ring;
  int node = 1;  // ranks that hierarchical and multi_rail take for a node
};

// One of a group's links in three numbers; its slowest.
inline AlphaBeta alpha_beta(const GroupNetwork& g, const Link& link) {
  return {link.alpha, link.beta, g.gamma};
}
inline AlphaBeta alpha_beta(const GroupNetwork& g) { return alpha_beta(g, g.link); }

namespace detail {

// Between ranks that are `apart`, a power of two, in a group of a power of two.
inline AlphaBeta link_apart(const GroupNetwork& g, int apart) {
  for (const GroupLevel& level : g.inner)
    if (apart < level.ranks) return alpha_beta(g, level.link);
  return alpha_beta(g);
}
// Between ranks of one node, as hierarchical and multi-rail see it.
inline AlphaBeta link_inside(const GroupNetwork& g, int node) {
  for (const GroupLevel& level : g.inner)
    if (level.ranks == node) return alpha_beta(g, level.link);
  return alpha_beta(g);
}

// ---- small arrays ----

// Rounds of pairs that are `apart`: seconds(link, apart) each. On p that is no power of two all use
// the slowest link.
template <class Seconds>
double sum_of_rounds(const GroupNetwork& g, Seconds seconds) {
  const int q = floor_power(g.p);
  double sum = 0;
  for (int apart = q / 2; apart > 0; apart /= 2)
    sum += seconds(q == g.p ? link_apart(g, apart) : alpha_beta(g), apart);
  return sum;
}
inline double doubling_seconds(const GroupNetwork& g, double bytes) {
  const AlphaBeta link = alpha_beta(g);
  const double fold = 2 * (link.alpha + bytes * link.beta) + bytes * link.gamma;
  return (g.p == floor_power(g.p) ? 0 : fold) +
         sum_of_rounds(g, [&](AlphaBeta l, int) { return l.alpha + bytes * (l.beta + l.gamma); });
}
// The first team receives the most: the parts of all ranks of the teams that it keeps.
inline double halving_seconds(const GroupNetwork& g, double bytes) {
  const AlphaBeta link = alpha_beta(g);
  const Fold first(g.p, 0);
  const double fold = 2 * link.alpha + bytes * (link.beta + link.gamma) + bytes / g.p * link.beta;
  return (first.extra == 0 ? 0 : fold) + sum_of_rounds(g, [&](AlphaBeta l, int apart) {
           return l.alpha + bytes * first.first_rank(apart) / g.p * (l.beta + l.gamma);
         });
}
inline double bruck_exchange_seconds(const GroupNetwork& g, double bytes) {
  double seconds = 0;
  for (int step = 1; step < g.p; step *= 2) {
    int blocks = 0;
    for (int to = step; to < g.p; ++to) blocks += (to & step) != 0;
    seconds += g.link.alpha + bytes * blocks / g.p * g.link.beta;
  }
  return seconds;
}

// ---- large arrays ----

inline double ring_seconds(Operation operation, int p, double bytes, AlphaBeta link) {
  if (operation == Operation::all_gather) return all_gather_ring_seconds(p, bytes, link);
  if (operation == Operation::reduce_scatter) return reduce_scatter_ring_seconds(p, bytes, link);
  return all_reduce_ring_seconds(p, bytes, link);
}
inline double rails_seconds(Operation operation, RailRings rails, double bytes, AlphaBeta inside,
                            AlphaBeta between) {
  const double gather = all_gather_multi_rail_seconds(bytes, rails, inside, between);
  const double scatter = reduce_scatter_multi_rail_seconds(bytes, rails, inside, between);
  if (operation == Operation::all_gather) return gather;
  return operation == Operation::reduce_scatter ? scatter : scatter + gather;
}
// A ring inside, and one between nodes of what one rank of each has.
inline double levels_seconds(Operation operation, int p, int node, double bytes, AlphaBeta inside,
                             AlphaBeta between) {
  return ring_seconds(operation, node, bytes, inside) +
         ring_seconds(operation, p / node, bytes / node, between);
}

constexpr bool is_ring_operation(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::all_gather ||
         operation == Operation::reduce_scatter;
}
constexpr Algorithm small_algorithm(Operation operation) {
  switch (operation) {
    case Operation::all_reduce: return Algorithm::recursive_doubling;
    case Operation::reduce_scatter: return Algorithm::recursive_halving;
    case Operation::all_gather:
    case Operation::all_to_all: return Algorithm::bruck;
    case Operation::all_to_all_v: return Algorithm::pairwise;
    case Operation::barrier: return Algorithm::dissemination;
    default: return Algorithm::tree;
  }
}
constexpr Algorithm large_algorithm(Operation operation) {
  if (is_ring_operation(operation)) return Algorithm::ring;
  if (operation == Operation::broadcast) return Algorithm::scatter_all_gather;
  return operation == Operation::all_to_all ? Algorithm::pairwise : small_algorithm(operation);
}

}  // namespace detail

// Seconds of all_reduce, all_gather, reduce_scatter or all_to_all of `bytes` bytes (of the whole
// array) in a way that was chosen.
inline double collective_seconds(Operation operation, const GroupNetwork& g, double bytes,
                                 CollectiveChoice way) {
  const AlphaBeta link = alpha_beta(g);
  if (g.p == 1) return 0;
  switch (way.algorithm) {
    case Algorithm::recursive_doubling: return detail::doubling_seconds(g, bytes);
    case Algorithm::recursive_halving: return detail::halving_seconds(g, bytes);
    case Algorithm::bruck:
      return operation == Operation::all_gather ? all_gather_bruck_seconds(g.p, bytes, link)
                                                : detail::bruck_exchange_seconds(g, bytes);
    case Algorithm::pairwise: return all_to_all_pairwise_seconds(g.p, bytes, link);
    case Algorithm::multi_rail:
      return detail::rails_seconds(operation, {g.p, way.node}, bytes,
                                   detail::link_inside(g, way.node), link);
    case Algorithm::hierarchical:
      return detail::levels_seconds(operation, g.p, way.node, bytes,
                                    detail::link_inside(g, way.node), link);
    default: return detail::ring_seconds(operation, g.p, bytes, link);
  }
}

// The rule.
inline CollectiveChoice choose_collective(Operation operation, const GroupNetwork& g,
                                          double bytes) {
  if (bytes < static_cast<double>(small_bytes)) return {detail::small_algorithm(operation), 1};
  CollectiveChoice best{detail::large_algorithm(operation), 1};
  if (!detail::is_ring_operation(operation) || g.inner.empty()) return best;
  double least = collective_seconds(operation, g, bytes, best);
  const auto consider = [&](CollectiveChoice way) {
    const double seconds = collective_seconds(operation, g, bytes, way);
    if (seconds < least) best = way, least = seconds;
  };
  if (g.node() > 1) consider({Algorithm::multi_rail, g.node()});
  for (const GroupLevel& level : g.inner) consider({Algorithm::hierarchical, level.ranks});
  return best;
}

inline double collective_seconds(Operation operation, const GroupNetwork& g, double bytes) {
  return collective_seconds(operation, g, bytes, choose_collective(operation, g, bytes));
}

// Of these seconds those at the group's port (GroupNetwork::port): all but latency, sums, and what
// goes inside a node meanwhile.
inline double port_seconds(Operation operation, const GroupNetwork& g, double bytes) {
  GroupNetwork port = g;
  port.link.alpha = port.gamma = 0;
  for (GroupLevel& level : port.inner) {
    const bool is_same = (level.link.level > 0) == (g.link.level > 0);
    level.link = {0, is_same ? level.link.beta : 0, level.link.level};
  }
  return collective_seconds(operation, port, bytes, choose_collective(operation, g, bytes));
}

// Bytes that a large one holds beside its data.
inline double scratch_bytes(Operation operation, const GroupNetwork& g, double bytes) {
  if (g.p == 1 || operation == Operation::all_gather) return 0;
  const CollectiveChoice way = choose_collective(operation, g, bytes);
  if (way.algorithm != Algorithm::hierarchical) return 2 * bytes / g.p;
  return (operation == Operation::reduce_scatter ? 3 : 2) * bytes / way.node;
}

}  // namespace yotta
