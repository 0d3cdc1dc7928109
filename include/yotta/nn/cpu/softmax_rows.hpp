// Online softmax of the rows of a tile of scores, a register full of rows at a time.
//
// online_softmax_row of nn/flash_attention.hpp says what happens to one row. A row of 64 scores is
// little work for a processor: it mostly waits, for the largest of a register's lanes, for one
// e^(m_old - m), and after a branch that it guessed wrong. Here the rows of a register are handled
// together, step by step, and nothing is decided row by row:
//
//     row 0  [ s s s ... ]  largest  \                              / o times kept, e^(s - m), sum
//     row 1  [ s s s ... ]  largest   >  m and kept: one register  <  o times kept, e^(s - m), sum
//     ...                            /                              \ ...
//
// The results are those of online_softmax_row, but that e^x is vector_exp throughout.
#pragma once

#include <algorithm>

#include "yotta/nn/cpu/tile_matmul.hpp"
#include "yotta/nn/softmax.hpp"

namespace yotta::detail {

// As many rows as a register has lanes, or fewer. Sums has members m and l. each_row() is called
// once for each of them.
template <class Real, class Sums, class EachRow>
void online_softmax_register(MatrixView<Real> scores, Real factor, Sums* sums, MatrixView<Real> o,
                             EachRow each_row) {
  const FullCount<Real> all;
  Real m[lane_count<Real>] = {}, before[lane_count<Real>] = {};  // of each row
  for (int64_t r = 0; r < scores.rows; ++r) {
    before[r] = sums[r].m;
    m[r] =
        std::max(before[r], factor * largest(static_cast<const Real*>(&scores(r, 0)), scores.cols));
  }
  const Vector<Real> most = load(static_cast<const Real*>(m), all);
  const Vector<Real> seen_none = in_all_lanes(-static_cast<Real>(__builtin_inf()));
  Real shift[lane_count<Real>], kept[lane_count<Real>];
  const Vector<Real> shifts = most == seen_none ? Vector<Real>{} : most;
  store(shift, shifts, all);
  store(kept, vector_exp<Real>(load(static_cast<const Real*>(before), all) - shifts), all);
  for (int64_t r = 0; r < scores.rows; ++r) {
    each_row();
    scale_row(&o(r, 0), o.cols, kept[r]);
    const Real sum = exp_row(static_cast<const Real*>(&scores(r, 0)), scores.cols, factor, shift[r],
                             &scores(r, 0));
    sums[r] = {m[r], sums[r].l * kept[r] + sum};
  }
}

// The first n scores of o.rows rows of S; o (rows, d), and sums[0], sums[1], ...
template <class Real, class Sums>
void online_softmax_rows(const ScoreTile<Real>& S, int64_t n, Real factor, Sums* sums,
                         MatrixView<Real> o) {
  constexpr int64_t lanes = lane_count<Real>;
  for (int64_t r = 0; r < o.rows; r += lanes)
    online_softmax_register(sub_matrix(S.part(o.rows, n), r, 0, lanes, n), factor, sums + r,
                            sub_matrix(o, r, 0, lanes, o.cols), [&] { S.fetch_ahead(); });
}

}  // namespace yotta::detail
