// Recursive doubling and halving: lg p rounds of exchanges between partners who differ in one bit.
//
//     p = 8     distance 1, partner = rank ^ 1     0 ◄─► 1    2 ◄─► 3    4 ◄─► 5    6 ◄─► 7
//               distance 2, partner = rank ^ 2     0 ◄─► 2    1 ◄─► 3    4 ◄─► 6    5 ◄─► 7
//               distance 4, partner = rank ^ 4     0 ◄─► 4    1 ◄─► 5    2 ◄─► 6    3 ◄─► 7
//
// Doubling, all_reduce:  partners swap all N bytes; sums over 2, 4, ... ranks. Fewest messages.
// Halving, reduce_scatter:  partners (farthest first) swap halves of what they are left with, and
//     each keeps the half with its own chunk. What rank 0 of 4 is left with:  abcd, ab, a
// Doubling, all_gather:  the same way back (nearest first):  a, ab, abcd
// Rabenseifner's all_reduce:  halving, then doubling: few messages and few bytes.
//
//                                 messages     bytes sent     seconds
//     all_reduce, doubling        lg p         lg p N         lg p (a + N (b + g))
//     reduce_scatter, halving     lg p         (p-1)/p N      lg p a + (p-1)/p N (b + g)
//     all_gather, doubling        lg p         (p-1)/p N      lg p a + (p-1)/p N b
//     all_reduce, Rabenseifner    2 lg p       2(p-1)/p N     2 lg p a + 2(p-1)/p N b + (p-1)/p N g
//
// Any other p: let q be the largest power of two below it and e = p - q. The first 2e ranks form
// pairs. First the even rank of a pair folds its data into the odd one, then q teams, of one rank
// or two, run the algorithm, then the odd one hands the result back:
//
//     p = 6, q = 4      ranks  0 ─► 1    2 ─► 3    4    5
//                       team     0         1       2    3
//
// Contract: any p and n. All ranks end with the same bits: of two partners' values, the lower
// team's is always the left operand.
// References: channel.hpp; Rabenseifner, "Optimization of collective reduction
// operations", 2004.
#pragma once

#include "yotta/comm/channel.hpp"

namespace yotta {

// Who works for whom when p is no power of two.
struct Fold {
  int q, extra;  // teams; pairs
  int team;      // the team this rank belongs to
  bool folded;   // this rank's partner works for it
  int partner;   // the other rank of its pair, or -1

  constexpr Fold(int p, int rank)
      : q(floor_power(p)),
        extra(p - q),
        team(rank < 2 * extra ? rank / 2 : rank - extra),
        folded(rank < 2 * extra && rank % 2 == 0),
        partner(rank < 2 * extra ? rank ^ 1 : -1) {}

  constexpr int first_rank(int v) const { return v + std::min(v, extra); }  // of team v; v may be q
  constexpr int rank_of(int v) const { return first_rank(v) + (v < extra ? 1 : 0); }
};

// After halving level `distance`, team v is left with the teams [begin, end) that share its higher
// bits.
struct TeamRange {
  int begin, end;
};
constexpr TeamRange teams_around(int v, int distance) {
  const int begin = v / distance * distance;
  return {begin, begin + distance};
}

namespace detail {

// to = left (op) right where left comes from the lower team. `arriving` is overwritten.
inline void reduce_in_team_order(Data mine, Data arriving, bool mine_is_lower, ReduceOp op) {
  if (mine_is_lower) return reduce_into(mine, arriving, op);
  reduce_into(arriving, mine, op);
  copy_data(arriving, mine);
}

// The teams' data cut in q parts, the part of team v beginning at cut(v): afterwards team v has
// part v of the sum in place.
template <class Cut>
void halve(Channel& channel, const Fold& fold, Data data, Cut cut, ReduceOp op) {
  const int v = fold.team;
  const TeamRange half = teams_around(v, std::max(1, fold.q / 2));
  Tensor buffer = scratch(cut(half.end) - cut(half.begin), data);
  for (int distance = fold.q / 2; distance > 0; distance /= 2) {
    const int partner = v ^ distance;
    const TeamRange keep = teams_around(v, distance), give = teams_around(partner, distance);
    const Data kept = data.part(cut(keep.begin), cut(keep.end));
    const Data given = data.part(cut(give.begin), cut(give.end));
    const Data arriving = Data(buffer).part(0, kept.count);
    channel.send_recv(given, fold.rank_of(partner), arriving, fold.rank_of(partner));
    reduce_in_team_order(kept, arriving, v < partner, op);
  }
}

// The way back: from part v on team v to all parts on all teams.
template <class Cut>
void double_up(Channel& channel, const Fold& fold, Data data, Cut cut) {
  const int v = fold.team;
  for (int distance = 1; distance < fold.q; distance *= 2) {
    const int partner = v ^ distance;
    const TeamRange have = teams_around(v, distance), get = teams_around(partner, distance);
    channel.send_recv(data.part(cut(have.begin), cut(have.end)), fold.rank_of(partner),
                      data.part(cut(get.begin), cut(get.end)), fold.rank_of(partner));
  }
}

// The even rank of a pair gives its data to the odd one, which adds it.
inline void fold_in(Channel& channel, const Fold& fold, Data data, ReduceOp op) {
  if (fold.partner < 0) return;
  if (fold.folded) return channel.send(data, fold.partner);
  Tensor arriving = scratch(data.count, data);
  channel.recv(arriving, fold.partner);
  reduce_in_team_order(data, arriving, /*mine_is_lower=*/false, op);
}

// The odd rank of a pair gives the result to the even one.
inline void fold_out(Channel& channel, const Fold& fold, Data data) {
  if (fold.partner < 0) return;
  if (fold.folded) return channel.recv(data, fold.partner);
  channel.send(data, fold.partner);
}

// Where team v's part begins when each team has the chunks of the ranks it stands for.
inline auto cut_by_ranks(const Fold& fold, int64_t n, int p) {
  return [=](int v) { return chunk_begin(n, p, fold.first_rank(v)); };
}

}  // namespace detail

// Every rank ends with the sum, in place.
inline void all_reduce_recursive_doubling(Channel& channel, Data data, ReduceOp op) {
  const Fold fold(channel.size(), channel.rank());
  detail::fold_in(channel, fold, data, op);
  if (!fold.folded) {
    Tensor arriving = scratch(data.count, data);
    for (int distance = 1; distance < fold.q; distance *= 2) {
      const int partner = fold.team ^ distance;
      channel.send_recv(data, fold.rank_of(partner), arriving, fold.rank_of(partner));
      detail::reduce_in_team_order(data, arriving, fold.team < partner, op);
    }
  }
  detail::fold_out(channel, fold, data);
}

// Every rank ends with the sum, in place.
inline void all_reduce_rabenseifner(Channel& channel, Data data, ReduceOp op) {
  const Fold fold(channel.size(), channel.rank());
  const auto cut = [&](int v) { return chunk_begin(data.count, fold.q, v); };
  detail::fold_in(channel, fold, data, op);
  if (!fold.folded) {
    detail::halve(channel, fold, data, cut, op);
    detail::double_up(channel, fold, data, cut);
  }
  detail::fold_out(channel, fold, data);
}

// Rank r ends with chunk r of the sum. `in` has n elements, `out` those of chunk r.
inline void reduce_scatter_recursive_halving(Channel& channel, ConstData in, Data out,
                                             ReduceOp op) {
  const int p = channel.size(), rank = channel.rank();
  const Fold fold(p, rank);
  Tensor work = scratch(in.count, in);
  const Data data = work;
  copy_data(in, data);
  detail::fold_in(channel, fold, data, op);
  if (fold.folded) return channel.recv(out, fold.partner);
  detail::halve(channel, fold, data, detail::cut_by_ranks(fold, in.count, p), op);
  if (fold.partner >= 0) channel.send(data.chunk(fold.partner, p), fold.partner);
  copy_data(data.chunk(rank, p), out);
}

// All ranks end with all n elements; `in` is this rank's chunk.
inline void all_gather_recursive_doubling(Channel& channel, ConstData in, Data out) {
  const int p = channel.size(), rank = channel.rank();
  const Fold fold(p, rank);
  if (fold.folded) {
    channel.send(in, fold.partner);
    return channel.recv(out, fold.partner);
  }
  copy_data(in, out.chunk(rank, p));
  if (fold.partner >= 0) channel.recv(out.chunk(fold.partner, p), fold.partner);
  detail::double_up(channel, fold, out, detail::cut_by_ranks(fold, out.count, p));
  detail::fold_out(channel, fold, out);
}

// ---- costs: exact counts for any p and n, and the published forms -------------------------------
// A folded rank sends its data once; its partner hands one result back.

namespace detail {

// Elements that a team sends in halving: the partners' sides, over all rounds. cut as in halve().
template <class Cut>
constexpr int64_t halving_count(const Fold& fold, Cut cut) {
  return cut(fold.q) - (cut(fold.team + 1) - cut(fold.team));  // all parts but its own
}

// Elements that a team sends in doubling: 1, 2, 4, ... parts around its own.
template <class Cut>
constexpr int64_t doubling_count(const Fold& fold, Cut cut) {
  int64_t count = 0;
  for (int distance = 1; distance < fold.q; distance *= 2) {
    const TeamRange have = teams_around(fold.team, distance);
    count += cut(have.end) - cut(have.begin);
  }
  return count;
}

// What handing the result to a folded partner adds.
constexpr Sent fold_out_sent(const Fold& fold, int64_t bytes) {
  return fold.partner >= 0 ? Sent{1, bytes} : Sent{};
}

}  // namespace detail

// Exact costs: what rank `rank` sends.
constexpr Sent all_reduce_recursive_doubling_sent(int p, int rank, int64_t n, int64_t width) {
  const Fold fold(p, rank);
  if (fold.folded) return {1, n * width};
  const int64_t rounds = ceil_log2(fold.q);
  return Sent{rounds, rounds * n * width} + detail::fold_out_sent(fold, n * width);
}

constexpr Sent all_reduce_rabenseifner_sent(int p, int rank, int64_t n, int64_t width) {
  const Fold fold(p, rank);
  if (fold.folded) return {1, n * width};
  const auto cut = [&](int v) { return chunk_begin(n, fold.q, v); };
  const int64_t count = detail::halving_count(fold, cut) + detail::doubling_count(fold, cut);
  return Sent{2 * ceil_log2(fold.q), count * width} + detail::fold_out_sent(fold, n * width);
}

constexpr Sent reduce_scatter_recursive_halving_sent(int p, int rank, int64_t n, int64_t width) {
  const Fold fold(p, rank);
  if (fold.folded) return {1, n * width};
  const auto cut = [&](int v) { return chunk_begin(n, p, fold.first_rank(v)); };
  const int64_t partners = fold.partner >= 0 ? chunk_count(n, p, fold.partner) : 0;
  return Sent{ceil_log2(fold.q), detail::halving_count(fold, cut) * width} +
         detail::fold_out_sent(fold, partners * width);
}

constexpr Sent all_gather_recursive_doubling_sent(int p, int rank, int64_t n, int64_t width) {
  const Fold fold(p, rank);
  if (fold.folded) return {1, chunk_count(n, p, rank) * width};
  const auto cut = [&](int v) { return chunk_begin(n, p, fold.first_rank(v)); };
  return Sent{ceil_log2(fold.q), detail::doubling_count(fold, cut) * width} +
         detail::fold_out_sent(fold, n * width);
}

// Published costs, p a power of two; any other throws.
constexpr double all_reduce_recursive_doubling_seconds(int p, double bytes, AlphaBeta link) {
  return log2_of_ranks("all_reduce_recursive_doubling", p) *
         (link.alpha + bytes * (link.beta + link.gamma));
}
constexpr double reduce_scatter_recursive_halving_seconds(int p, double bytes, AlphaBeta link) {
  return log2_of_ranks("reduce_scatter_recursive_halving", p) * link.alpha +
         (p - 1.0) / p * bytes * (link.beta + link.gamma);
}
constexpr double all_gather_recursive_doubling_seconds(int p, double bytes, AlphaBeta link) {
  return log2_of_ranks("all_gather_recursive_doubling", p) * link.alpha +
         (p - 1.0) / p * bytes * link.beta;
}
constexpr double all_reduce_rabenseifner_seconds(int p, double bytes, AlphaBeta link) {
  return reduce_scatter_recursive_halving_seconds(p, bytes, link) +
         all_gather_recursive_doubling_seconds(p, bytes, link);
}

}  // namespace yotta
