// What recursive doubling and halving cost: exact counts for any p and n, and the published forms.
// A folded rank (see collectives_recursive.hpp) sends its data once; its partner hands one result
// back.
#pragma once

#include "yotta/comm/collectives_recursive.hpp"

namespace yotta {

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
