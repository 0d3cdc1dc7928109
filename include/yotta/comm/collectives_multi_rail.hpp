// Multi-rail rings: one ring for every network card, so that no card stands idle.
//
// The problem: a node has one network card per chip, and a ring over two nodes leaves each node
// once. One card sends all bytes, the others none:
//
//     one ring         node 0   0 ─ 1 ─ 2 ─ 3 ═╗            card of rank      sends
//                               ╔══════════════╝             0, 1, 2           nothing
//                      node 1   4 ─ 5 ─ 6 ─ 7 ═► 0           3                 2(p-1)/p N
//
// So cut every chunk into as many parts as there are cards, and send each part round a ring of its
// own. Ring c begins in every node at local rank c and goes round the node: it comes in by card c
// and leaves by card c - 1.
//
//     four rings       ring 0   0 1 2 3 ═ 4 5 6 7 ═► 0
//     (rails)          ring 1   1 2 3 0 ═ 5 6 7 4 ═► 1       each card sends a quarter of it,
//                      ring 2   2 3 0 1 ═ 6 7 4 5 ═► 2       and receives a quarter
//                      ring 3   3 0 1 2 ═ 7 4 5 6 ═► 3
//
// In each of the p - 1 steps a rank passes on a part in every ring, all at once: in one ring by its
// card, in the others to its neighbour in the node. The latter share the port into the node.
//
// Cost, for N bytes, R rings, g ranks in a node (R = g, and g divides p), links i inside, o out:
//
//                      messages    bytes sent    seconds
//     reduce_scatter   R (p-1)     (p-1)/p N     (p-1) max(a_o + N/(R p) b_o, a_i + (R-1) N/(R p)
//     all_gather       the same    the same      the same                                     b_i)
//     all_reduce       twice       twice         twice (each byte added takes gamma)
//
// where one ring takes 2(p-1) (a_o + N/p b_o). It has as many steps, so for small arrays its
// latency is the same, and hierarchical ways are faster (collectives_hierarchical.hpp).
//
// Contract: ranks 0 to g-1 are the first node, and so on; the last node may have fewer. Any n, p, g
// and R: with fewer cards than ranks, no ring leaves the node at some ranks; with more, rings share
// a card. With one node it is a single ring. All ranks end with the same bits.
// Letters: channel.hpp; g, R as above.
// Reference: NCCL forms such rings, and calls them channels; Patarasu & Yuan (2009) for one ring.
#pragma once

#include "yotta/comm/collectives_ring.hpp"

namespace yotta {

// ---- several rings at once ---------------------------------------------------------------------

// Elements [begin, end) of an array.
struct ArrayPart {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};

// A ring as seen by one of its ranks: whom it talks to, and what is passed round.
struct PartRing {
  int next, previous;            // ranks of the channel
  int position;                  // of this rank in the ring
  std::vector<ArrayPart> parts;  // by position: where it ends (reduce_scatter) or begins

  const ArrayPart& part(int place) const {
    return parts[static_cast<size_t>(wrap(place, static_cast<int>(parts.size())))];
  }
};

// all_gather_ring in several rings of equal length at once. Each rank's own parts are in `out`.
inline void all_gather_rings(Channel& channel, std::span<const PartRing> rings, Data out) {
  const auto part = [&](const PartRing& ring, int place) {
    return out.part(ring.part(place).begin, ring.part(place).end);
  };
  const int length = static_cast<int>(rings[0].parts.size());
  for (int step = 1; step < length; ++step) {
    std::vector<Exchange> all;
    for (const PartRing& ring : rings) {
      const int newest = ring.position + 1 - step;
      all.push_back({part(ring, newest), ring.next, part(ring, newest - 1), ring.previous});
    }
    channel.exchange(all);
  }
}

// reduce_scatter_ring in several rings of equal length at once: the sum of this rank's part in ring
// i goes to results[i], which may be that part of `in`.
inline void reduce_scatter_rings(Channel& channel, std::span<const PartRing> rings, ConstData in,
                                 std::span<const Data> results, ReduceOp op) {
  const auto part = [&](const PartRing& ring, int place) {
    return in.part(ring.part(place).begin, ring.part(place).end);
  };
  std::vector<Tensor> buffers[2];
  std::vector<ConstData> sums;
  for (const PartRing& ring : rings) {
    int64_t longest = 0;
    for (const ArrayPart& each : ring.parts) longest = std::max(longest, each.count());
    for (std::vector<Tensor>& of : buffers) of.push_back(scratch(longest, in));
    sums.push_back(part(ring, ring.position - 1));
  }
  const int length = static_cast<int>(rings[0].parts.size());
  for (int step = 1; step < length; ++step) {
    std::vector<Exchange> all;
    for (size_t i = 0; i < rings.size(); ++i) {
      const int64_t count = rings[i].part(rings[i].position - 1 - step).count();
      const Data arriving = Data(buffers[step % 2][i]).part(0, count);
      all.push_back({sums[i], rings[i].next, arriving, rings[i].previous});
    }
    channel.exchange(all);
    for (size_t i = 0; i < rings.size(); ++i) {
      reduce_into(all[i].incoming, part(rings[i], rings[i].position - 1 - step), op);
      sums[i] = all[i].incoming;
    }
  }
  for (size_t i = 0; i < rings.size(); ++i) copy_data(sums[i], results[i]);
}

// ---- one ring per card -------------------------------------------------------------------------

// Which rings p ranks form: `node` ranks in a node (the last may have fewer), `rails` cards in each
// (0: as many as ranks).
struct RailRings {
  int p, node = 8, rails = 0;

  constexpr int rings() const { return p <= node ? 1 : rails > 0 ? rails : node; }
  // Ranks in the node of this rank.
  constexpr int ranks_beside(int rank) const { return std::min(node, p - rank / node * node); }
  // The local rank at which a ring comes into the node of this rank.
  constexpr int entry(int ring, int rank) const { return ring * ranks_beside(rank) / rings(); }
  constexpr int rank_at(int ring, int position) const {
    const int first = position / node * node;
    return first + (position - first + entry(ring, position)) % ranks_beside(position);
  }
  constexpr int position(int ring, int rank) const {
    const int first = rank / node * node;
    return first + wrap(rank - first - entry(ring, rank), ranks_beside(rank));
  }
  constexpr int next(int ring, int rank) const {
    return rank_at(ring, wrap(position(ring, rank) + 1, p));
  }
  // Where ring `ring`'s part of a rank's chunk of n elements lies.
  constexpr ArrayPart part(int64_t n, int ring, int rank) const {
    const int64_t begin = chunk_begin(n, p, rank), count = chunk_count(n, p, rank);
    return {begin + chunk_begin(count, rings(), ring),
            begin + chunk_begin(count, rings(), ring + 1)};
  }
};

// The rings of a rank, with their parts of n elements. Errors: no such nodes or cards.
inline std::vector<PartRing> rail_rings(const RailRings& rails, int rank, int64_t n, Where where) {
  if (rails.node < 1 || rails.rails < 0)
    fail(where, "multi-rail rings need nodes of 1 rank or more and 0 rails or more, not {} and {}",
         rails.node, rails.rails);
  std::vector<PartRing> rings;
  for (int ring = 0; ring < rails.rings(); ++ring) {
    const int position = rails.position(ring, rank);
    const int previous = rails.rank_at(ring, wrap(position - 1, rails.p));
    rings.push_back({rails.next(ring, rank), previous, position, {}});
    for (int place = 0; place < rails.p; ++place)
      rings.back().parts.push_back(rails.part(n, ring, rails.rank_at(ring, place)));
  }
  return rings;
}

// Rank r ends with chunk r of the sum; `out` may be chunk r of `in` itself. node, rails: as in
// RailRings.
inline void reduce_scatter_multi_rail(Channel& channel, ConstData in, Data out, ReduceOp op,
                                      int node, int rails = 0, Where where = Where::current()) {
  const RailRings shape{channel.size(), node, rails};
  const std::vector<PartRing> rings = rail_rings(shape, channel.rank(), in.count, where);
  std::vector<Data> results;
  for (int ring = 0; ring < shape.rings(); ++ring)
    results.push_back(out.chunk(ring, shape.rings()));
  reduce_scatter_rings(channel, rings, in, results, op);
}

// Every rank ends with all n elements; `in` is this rank's chunk, and may lie in its place in
// `out`.
inline void all_gather_multi_rail(Channel& channel, ConstData in, Data out, int node, int rails = 0,
                                  Where where = Where::current()) {
  const RailRings shape{channel.size(), node, rails};
  copy_data(in, out.chunk(channel.rank(), channel.size()));
  all_gather_rings(channel, rail_rings(shape, channel.rank(), out.count, where), out);
}

// Every rank ends with the sum of all ranks' n elements, in place.
inline void all_reduce_multi_rail(Channel& channel, Data data, ReduceOp op, int node, int rails = 0,
                                  Where where = Where::current()) {
  const Data mine = data.chunk(channel.rank(), channel.size());
  reduce_scatter_multi_rail(channel, data, mine, op, node, rails, where);
  all_gather_multi_rail(channel, mine, data, node, rails, where);
}

// ---- cost --------------------------------------------------------------------------------------

// Exact: what a rank sends. by_card: only what leaves its node.
constexpr Sent reduce_scatter_multi_rail_sent(int rank, int64_t n, int64_t width, RailRings rails,
                                              bool by_card = false) {
  Sent sent;
  for (int ring = 0; ring < rails.rings(); ++ring) {
    if (by_card && rails.next(ring, rank) / rails.node == rank / rails.node) continue;
    for (int owner = 0; owner < rails.p; ++owner)
      if (owner != rank) sent = sent + Sent{1, rails.part(n, ring, owner).count() * width};
  }
  return sent;
}
constexpr Sent all_gather_multi_rail_sent(int rank, int64_t n, int64_t width, RailRings rails,
                                          bool by_card = false) {
  Sent sent;
  for (int ring = 0; ring < rails.rings(); ++ring) {
    const int next = rails.next(ring, rank);
    if (by_card && next / rails.node == rank / rails.node) continue;
    for (int owner = 0; owner < rails.p; ++owner)
      if (owner != next) sent = sent + Sent{1, rails.part(n, ring, owner).count() * width};
  }
  return sent;
}
constexpr Sent all_reduce_multi_rail_sent(int rank, int64_t n, int64_t width, RailRings rails,
                                          bool by_card = false) {
  return reduce_scatter_multi_rail_sent(rank, n, width, rails, by_card) +
         all_gather_multi_rail_sent(rank, n, width, rails, by_card);
}

// For n that p times the rings divide, nodes of equal size, and no more cards than ranks in a node.
constexpr double all_gather_multi_rail_seconds(double bytes, RailRings rails, AlphaBeta inside,
                                               AlphaBeta between) {
  const int p = rails.p, rings = rails.rings();
  if (p <= rails.node) return all_gather_ring_seconds(p, bytes, inside);
  const double part = bytes / p / rings;
  const int beside = rings < rails.node ? rings : rings - 1;  // rings that stay in the node
  const double card = between.alpha + part * between.beta;
  const double port = beside > 0 ? inside.alpha + beside * part * inside.beta : 0;
  return (p - 1) * std::max(card, port);
}
constexpr double reduce_scatter_multi_rail_seconds(double bytes, RailRings rails, AlphaBeta inside,
                                                   AlphaBeta between) {
  return all_gather_multi_rail_seconds(bytes, rails, inside, between) +
         (rails.p - 1.0) / rails.p * bytes * inside.gamma;
}
constexpr double all_reduce_multi_rail_seconds(double bytes, RailRings rails, AlphaBeta inside,
                                               AlphaBeta between) {
  return reduce_scatter_multi_rail_seconds(bytes, rails, inside, between) +
         all_gather_multi_rail_seconds(bytes, rails, inside, between);
}

}  // namespace yotta
