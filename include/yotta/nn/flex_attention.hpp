// Flex attention: blockwise attention, for any mask and any change of the scores.
//
//     S  = Q K^T / sqrt(d)                           score_mod and the mask are ordinary functions,
//     S' = score_mod(S, b, h, q, kv)                 taken as template arguments: the compiler
//     S" = S' where mask(b, h, q, kv), else -inf     puts them into the loop over a tile
//     O  = softmax(S") V
//
//          keys ->                    a row of tiles is walked along its list (block_mask.hpp)
//     q   [ f ][   ][ p ][   ]        f  full: one product, score_mod, softmax, one product
//     |   [ f ][ f ][   ][ p ]        p  partial: the same, and the mask is asked for each score
//     v   [   ][   ][ f ][ f ]           empty: not touched, neither keys nor values are read
//
// The loops are those of lesson 07, flash_forward and flash_backward. What is added here is what
// they are told: the runs of keys of a row of tiles, which of these are whole, and score_mod.
//
// Backward: P and dS" = P (dO V^T - D) are made as in lesson 07. Then
//     dS = dS" * the derivative of score_mod at S
// The derivative comes from calling score_mod with a Dual (device/dual_numbers.hpp), which also
// gives the derivative by each captured number that it has read: its gradient gets dS" times that.
//
// Cost, for n scores in tiles that are not empty: forward 4 d n FLOPs (two products), backward
// 10 d n (five); score_mod n times forward and 2 n backward, the mask once each way for each score
// of partial tiles.
// Memory: as lesson 07's.
// Contract: q (B, Tq, H, d), k and v (B, Tk, Hkv, d), or (1, Tk, Hkv, d) where all sequences share
// one store of keys (nn/paged_attention.hpp; forward only). Query head h uses key head
// h / (H / Hkv). A query that sees no key gets o = 0 and L = -infinity. With bf16 inputs scores,
// sums and L are f32. CPU or meta. BQ at most 64; BK divides 256.
// Letters: B batch, T sequence, H and Hkv query and key heads, d numbers per head, L log-sum-exp.
// References: Dong et al. (2024), FlexAttention; Dao (2023), FlashAttention-2.
#pragma once

#include <cmath>

#include "yotta/core/matmul.hpp"
#include "yotta/nn/block_mask.hpp"
#include "yotta/nn/cpu/math.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/softmax.hpp"

namespace yotta {

struct FlexSizes {
  int64_t B, Tq, Tk, H, Hkv, d, stores;  // stores of keys: B, or 1 for all sequences
  int64_t group() const { return H / Hkv; }
};

inline FlexSizes flex_sizes(const char* operation, const Tensor& q, const Tensor& k,
                            const Tensor& v, const BlockTiles& tiles, Where where) {
  expect_dims(operation, "q", q, 4, "(B, Tq, H, d)", where);
  expect_dims(operation, "k", k, 4, "(B, Tk, Hkv, d)", where);
  expect_same(operation, "k", k, "v", v, where);
  const FlexSizes s{q.dim(0), q.dim(1), k.dim(1), q.dim(2), k.dim(2), q.dim(3), k.dim(0)};
  if (s.Hkv <= 0 || s.H % s.Hkv != 0 || s.d <= 0 || k.dim(3) != s.d || k.dtype() != q.dtype() ||
      (s.stores != s.B && s.stores != 1))
    fail(where,
         "{}: q is {} and k is {}; type and d must agree, k's batch be q's or 1, and q's heads a "
         "multiple of k's",
         operation, q.describe(), k.describe());
  if (tiles.BQ > flash_BQ || flash_BK % tiles.BK != 0)
    fail(where, "{}: tiles of {} x {}; on the CPU BQ is at most {}, and {} a multiple of BK",
         operation, tiles.BQ, tiles.BK, flash_BQ, flash_BK);
  if (tiles.queries != s.Tq || tiles.keys != s.Tk || (tiles.B != 1 && tiles.B != s.B) ||
      (tiles.H != 1 && tiles.H != s.H))
    fail(where,
         "{}: the block mask is for B {}, H {}, {} queries and {} keys, but q is {} and k is {}; "
         "make it with create_block_mask for these sizes, B and H as here or 1",
         operation, tiles.B, tiles.H, tiles.queries, tiles.keys, q.describe(), k.describe());
  return s;
}

// ---- cost --------------------------------------------------------------------------------------

// Scores that are computed, of all sequences and heads.
inline int64_t flex_scores(const FlexSizes& s, const BlockTiles& tiles) {
  return computed_scores(tiles) * (s.B / tiles.B) * (s.H / tiles.H);
}
// Each row of tiles reads its queries, and of each of its tiles the keys and values.
inline int64_t flex_numbers_read(const FlexSizes& s, const BlockTiles& tiles) {
  int64_t keys = 0;
  for (const int column : tiles.by_row.at)
    keys += std::min(tiles.BK, tiles.keys - column * tiles.BK);
  return s.d * (s.B * s.H * s.Tq + 2 * keys * (s.B / tiles.B) * (s.H / tiles.H));
}
inline OpCost flex_attention_cost(DType dtype, const FlexSizes& s, const BlockTiles& tiles) {
  return op_cost("flex_attention", dtype, 4 * s.d * flex_scores(s, tiles),
                 flex_numbers_read(s, tiles), s.B * s.H * s.Tq * (s.d + 1));
}
inline OpCost flex_attention_backward_cost(DType dtype, const FlexSizes& s,
                                           const BlockTiles& tiles) {
  const int64_t queries = s.B * s.H * s.Tq * s.d, keys = s.stores * s.Hkv * s.Tk * s.d;
  return op_cost("flex_attention_backward", dtype, 10 * s.d * flex_scores(s, tiles),
                 2 * flex_numbers_read(s, tiles) + queries, queries + 2 * keys);
}

// ---- the naive version: every score, in double -------------------------------------------------

// o (B, Tq, H, d) f64 and L (B, H, Tq) f64.
template <class ScoreMod, class Mask>
FlashAttention flex_attention_dense(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const ScoreMod& score_mod, const Mask& mask,
                                    Where where = Where::current()) {
  const FlexSizes s{q.dim(0), q.dim(1), k.dim(1), q.dim(2), k.dim(2), q.dim(3), k.dim(0)};
  const std::vector<double> Q = q.values(), K = k.values(), V = v.values();
  FlashAttention out{Tensor::zeros({s.B, s.Tq, s.H, s.d}, DType::f64),
                     Tensor::zeros({s.B, s.H, s.Tq}, DType::f64)};
  double *O = out.o.data<double>(where), *L = out.log_sum_exp.data<double>(where);
  for (int64_t i = 0; i < s.B * s.H * s.Tq; ++i) {
    const int t = static_cast<int>(i % s.Tq), h = static_cast<int>(i / s.Tq % s.H),
              b = static_cast<int>(i / s.Tq / s.H);
    const int64_t row = ((b * s.Tq + t) * s.H + h) * s.d, shared = h / s.group();
    const auto key = [&](int64_t j) {
      return (((s.stores == 1 ? 0 : b) * s.Tk + j) * s.Hkv + shared) * s.d;
    };
    std::vector<double> score(s.Tk, -INFINITY);
    double most = -INFINITY, sum = 0;
    for (int j = 0; j < s.Tk; ++j) {
      if (!mask(b, h, t, j)) continue;
      double product = 0;
      for (int64_t c = 0; c < s.d; ++c) product += Q[row + c] * K[key(j) + c];
      score[j] = score_mod(product / std::sqrt(static_cast<double>(s.d)), b, h, t, j);
      most = std::max(most, score[j]);
    }
    for (const double each : score) sum += each == -INFINITY ? 0 : std::exp(each - most);
    L[i] = sum == 0 ? -INFINITY : most + std::log(sum);
    for (int64_t j = 0; j < s.Tk; ++j)
      for (int64_t c = 0; c < s.d && score[j] != -INFINITY; ++c)
        O[row + c] += std::exp(score[j] - L[i]) * V[key(j) + c];
  }
  return out;
}

// ---- what lesson 07's loops are told -----------------------------------------------------------

// The loops work on some queries and keys of one head, and count both from 0; masks and score_mod
// want positions in the whole sequence.
struct FlexPlace {
  int b, h;
  int first_query = 0, first_key = 0, end_key = 0;
  int query(int64_t t) const { return first_query + static_cast<int>(t); }
  int key(int64_t j) const { return first_key + static_cast<int>(j); }
};

template <class Mask>
struct FlexMask {
  const BlockMask<Mask>& tiles;
  FlexPlace at;

  int64_t queries() const { return tiles.BQ; }
  bool operator()(int64_t t, int64_t j) const {
    return tiles.mask(at.b, at.h, at.query(t), at.key(j));
  }
  // visit(j, n, whole) for what is in the list of the row of tiles that begins with query `begin`.
  template <class Visit>
  void runs(int64_t begin, int64_t /*end*/, Visit&& visit) const {
    const int line = tiles.mask_of(at.b, at.h) * tiles.rows() + at.query(begin) / tiles.BQ;
    each_run(tiles, line, at.first_key, at.end_key, flash_BK, [&](int key, int n, TileKind kind) {
      visit(key - at.first_key, n, kind == TileKind::full);
    });
  }
};

// What the scores of a row add to the gradients of captured numbers, one place a score and number:
// the loop that fills it has no branch and no sum to wait for, so it computes a register full of
// scores at once.
template <class Real, int K>
struct CapturedRow {
  int64_t count = 0;           // scores so far
  bool too_many = false;       // one depends on more captured numbers than score_mod says
  int index[K + 1][flash_BK];  // which number, -1 for none (K may be 0)
  Real share[K + 1][flash_BK];

  // dy: the gradient of the changed score y.
  void add(const Dual<Real, K>& y, Real dy) {
    for (int i = 0; i < K; ++i) {
      index[i][count] = i < y.used ? y.index[i] : -1;
      share[i][count] = dy * y.partial[i];
    }
    too_many = too_many || y.overflowed();
    ++count;
  }
};

// The gradients of captured numbers that one key head finds. Helper threads must not throw, so a
// mistake is noted, and reported at the end.
struct CapturedSums {
  std::vector<double> sums;  // (n)
  bool too_many = false;     // a score depends on more of them than score_mod says
  bool outside = false;      // or on one that is none of the n

  template <class Real, int K>
  void add(const Dual<Real, K>& y, Real dy) {
    too_many = too_many || y.overflowed();
    for (int i = 0; i < y.used && !too_many; ++i)
      add_share(y.index[i], static_cast<double>(dy * y.partial[i]));
  }
  void add_share(int index, double share) {
    if (index >= 0 && index < static_cast<int>(sums.size()))
      sums[index] += share;
    else
      outside = true;
  }
  // Neighbours mostly read the same number (a head's slope): then it is looked up once for them.
  template <class Real, int K>
  void add_row(CapturedRow<Real, K>& row) {
    too_many = too_many || row.too_many;
    for (int i = 0; i < K && !too_many; ++i)
      for (int64_t c = 0, end; c < row.count; c = end) {
        const int* const index = row.index[i];
        for (end = c + 1; end < row.count && index[end] == index[c];) ++end;
        const Real sum = sum_lanes<Real>(
            end - c, [&](int64_t l, auto count) { return load(row.share[i] + c + l, count); });
        if (index[c] >= 0) add_share(index[c], static_cast<double>(sum));
      }
    row.count = 0;
  }
};

// score_mod and its derivative: the same code, called with a Dual.
template <class ScoreMod, class Captures = CapturedSums>
struct FlexScore {
  const ScoreMod& score_mod;
  FlexPlace at;
  Captures* captured = nullptr;

  template <class Score>
  Score operator()(Score s, int64_t t, int64_t j) const {
    return score_mod(s, at.b, at.h, at.query(t), at.key(j));
  }
  template <class Real>
  Real backward(Real d, Real s, int64_t t, int64_t j) const {
    const auto y = (*this)(Dual<Real, captured_reads<ScoreMod>()>::score(s), t, j);
    captured->add(y, d);
    return d * y.slope;
  }
};
// What flash_forward is told: without a score_mod its own fast path.
template <class ScoreMod>
auto forward_score(const ScoreMod& score_mod, const FlexPlace& at) {
  if constexpr (std::is_same_v<ScoreMod, NoScoreMod>)
    return SameScore{};
  else
    return FlexScore<ScoreMod>{score_mod, at};
}

// What flash_backward is told: the same, and after each row its shares go to the sums.
template <class ScoreMod, class Real>
struct FlexRowScore : FlexScore<ScoreMod, CapturedRow<Real, captured_reads<ScoreMod>()>> {
  CapturedSums* sums = nullptr;
  void end_of_row() const { sums->add_row(*this->captured); }
};

// ---- forward -----------------------------------------------------------------------------------

// Head h of sequence b in x (B, T, heads, d): a (T, d) matrix whose rows are heads d apart.
template <class T>
MatrixView<T> head_rows(T* x, int64_t length, int64_t heads, int64_t d, int64_t b, int64_t h) {
  return row_major(x + (b * length * heads + h) * d, length, d, heads * d);
}

// Rows of tiles that a thread takes at once.
inline constexpr int rows_at_once = 32;

// The keys that rows [first, last) of tiles need, as spans without gaps. Most masks have one; pages
// of a store are many, and what lies between them is not read.
struct KeySpan {
  int begin, end;
};
inline std::vector<KeySpan> key_spans(const BlockTiles& tiles, int mask, int first, int last) {
  const auto& [from, at, kind] = tiles.by_row;
  std::vector<int> columns(at.begin() + from[mask * tiles.rows() + first],
                           at.begin() + from[mask * tiles.rows() + last]);
  std::sort(columns.begin(), columns.end());
  std::vector<KeySpan> spans;
  for (const int column : columns) {
    const int begin = column * tiles.BK, end = std::min(begin + tiles.BK, tiles.keys);
    if (spans.empty() || begin > spans.back().end) spans.push_back({begin, end});
    spans.back().end = end;
  }
  return spans.empty() ? std::vector<KeySpan>{{0, 0}} : spans;
}

// Rows [first, last) of tiles of one head. Each span of keys gives a part of softmax's sum, and
// parts are merged as in lesson 07.
template <class Number, class ScoreMod, class Mask>
void flex_rows(const FlashHead<Number>& head, int b, int h, int first, int last,
               const ScoreMod& score_mod, const BlockMask<Mask>& tiles) {
  using Real = Computed<Number>;
  const int begin = first * tiles.BQ, end = std::min(last * tiles.BQ, tiles.queries);
  const int64_t rows = end - begin, d = head.q.cols;
  const MatrixView<Real> o = detail::rows_of(head.o, begin, end);
  const PackBuffer<Real> part_o(rows * d), part_L(rows);
  bool merging = false;
  for (const KeySpan& span : key_spans(tiles, tiles.mask_of(b, h), first, last)) {
    const FlexPlace at{b, h, begin, span.begin, span.end};
    const FlashHead<Number> part{detail::rows_of(head.q, begin, end),
                                 detail::rows_of(head.k, span.begin, span.end),
                                 detail::rows_of(head.v, span.begin, span.end),
                                 merging ? row_major(part_o.data(), rows, d) : o,
                                 merging ? part_L.data() : head.log_sum_exp + begin};
    flash_forward(part, 0, rows, FlexMask<Mask>{tiles, at}, forward_score(score_mod, at));
    for (int64_t r = 0; r < rows && merging; ++r) {
      Real& L = head.log_sum_exp[begin + r];
      const MergeWeights<Real> weigh = merge_weights(L, part.log_sum_exp[r]);
      for (int64_t c = 0; c < d; ++c) o(r, c) = weigh.first * o(r, c) + weigh.second * part.o(r, c);
      L = weigh.log_sum_exp;
    }
    merging = true;
  }
}

// o (B, Tq, H, d) and L (B, H, Tq), both f32 for bf16: what these keys give may be a part of a sum.
template <class ScoreMod, class Mask>
FlashAttention flex_attention_part(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const ScoreMod& score_mod, const BlockMask<Mask>& tiles,
                                   Where where = Where::current()) {
  const FlexSizes s = flex_sizes("flex_attention", q, k, v, tiles, where);
  charge(flex_attention_cost(q.dtype(), s, tiles));
  const DType type = computed(q.dtype());
  FlashAttention out{empty_beside(q, q.shape(), type, where),
                     empty_beside(q, {s.B, s.H, s.Tq}, type, where)};
  if (q.device() == Device::meta) return out;
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const Number *Q = q.data<Number>(where), *K = k.data<Number>(where), *V = v.data<Number>(where);
    Real *O = out.o.template data<Real>(), *L = out.log_sum_exp.template data<Real>();
    const int64_t parts = ceil_div(tiles.rows(), rows_at_once);
    parallel_for(s.B * s.H * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / parts / s.H, h = i / parts % s.H, store = s.stores == 1 ? 0 : b;
        const FlashHead<Number> head{head_rows(Q, s.Tq, s.H, s.d, b, h),
                                     head_rows(K, s.Tk, s.Hkv, s.d, store, h / s.group()),
                                     head_rows(V, s.Tk, s.Hkv, s.d, store, h / s.group()),
                                     head_rows(O, s.Tq, s.H, s.d, b, h), L + (b * s.H + h) * s.Tq};
        const int first = static_cast<int>(i % parts) * rows_at_once;
        flex_rows(head, static_cast<int>(b), static_cast<int>(h), first,
                  std::min(first + rows_at_once, tiles.rows()), score_mod, tiles);
      }
    });
  });
  return out;
}

// The same as a whole: o in q's type.
template <class ScoreMod, class Mask>
FlashAttention flex_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                              const ScoreMod& score_mod, const BlockMask<Mask>& tiles,
                              Where where = Where::current()) {
  const FlashAttention out = flex_attention_part(q, k, v, score_mod, tiles, where);
  return {as_type(out.o, q.dtype()), out.log_sum_exp};
}

// ---- backward ----------------------------------------------------------------------------------

struct FlexGradients {
  Tensor dq, dk, dv;
  Tensor dcaptured;  // (n) f64, of the n captured numbers of score_mod
};

// All heads, a thread for each key head of a sequence: its query heads add to the same dk and dv.
// Gradients of captured numbers are summed per key head, then in order: the same for any number of
// threads.
template <class Number, class ScoreMod, class Mask>
void flex_backward_heads(const FlexSizes& s, const Tensor& dout, const Tensor& q, const Tensor& k,
                         const Tensor& v, const FlashAttention& saved, const ScoreMod& score_mod,
                         const BlockMask<Mask>& tiles, AttentionGradients& d, Tensor& dcaptured,
                         Where where) {
  using Real = Computed<Number>;
  const auto of = [&](const Tensor& x) { return x.data<Number>(where); };
  std::vector<CapturedSums> found(s.B * s.Hkv, {std::vector<double>(dcaptured.numel())});
  parallel_for(s.B * s.Hkv, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first * s.group(); i < last * s.group(); ++i) {
      const int b = static_cast<int>(i / s.H), h = static_cast<int>(i % s.H);
      const auto queries = [&](auto* x) { return head_rows(x, s.Tq, s.H, s.d, b, h); };
      const auto keys = [&](auto* x) { return head_rows(x, s.Tk, s.Hkv, s.d, b, h / s.group()); };
      const FlashBackwardHead<Number> head{queries(of(q)),
                                           keys(of(k)),
                                           keys(of(v)),
                                           queries(of(saved.o)),
                                           queries(of(dout)),
                                           saved.log_sum_exp.data<Real>(where) + i * s.Tq,
                                           queries(d.dq.data<Real>()),
                                           keys(d.dk.data<Real>()),
                                           keys(d.dv.data<Real>())};
      const FlexPlace at{b, h, 0, 0, tiles.keys};
      const FlexMask<Mask> mask{tiles, at};
      if constexpr (std::is_same_v<ScoreMod, NoScoreMod>) {
        flash_backward(head, mask, SameScore{});
      } else {
        CapturedRow<Real, captured_reads<ScoreMod>()> row;
        flash_backward(head, mask,
                       FlexRowScore<ScoreMod, Real>{{score_mod, at, &row}, &found[i / s.group()]});
      }
    }
  });
  for (const CapturedSums& each : found) {
    if (each.too_many || each.outside)
      fail(where,
           "flex_attention_backward: a score depends on {}, which are {}; score_mod says how many "
           "one score reads (static constexpr int reads), the call how many there are",
           each.too_many ? "more captured numbers than score_mod says"
                         : "captured numbers beyond the last",
           each.too_many ? captured_reads<ScoreMod>() : dcaptured.numel());
    for (int64_t i = 0; i < dcaptured.numel(); ++i) dcaptured.data<double>()[i] += each.sums[i];
  }
}

// Adds these keys' part of dq, dk and dv to `d`, made by zero_sums(), and of the gradients of
// captured numbers to dcaptured (n) f64. saved: o and L of all parts together.
template <class ScoreMod, class Mask>
void flex_attention_part_backward(const Tensor& dout, const Tensor& q, const Tensor& k,
                                  const Tensor& v, const FlashAttention& saved,
                                  const ScoreMod& score_mod, const BlockMask<Mask>& tiles,
                                  AttentionGradients& d, Tensor& dcaptured,
                                  Where where = Where::current()) {
  const char* operation = "flex_attention_backward";
  const FlexSizes s = flex_sizes(operation, q, k, v, tiles, where);
  expect_same(operation, "dout", dout, "q", q, where);
  expect_same(operation, "o", saved.o, "q", q, where);
  expect_shape(operation, "log_sum_exp", saved.log_sum_exp, {s.B, s.H, s.Tq}, where);
  if (s.stores != s.B)
    fail(where, "{}: k is {} for a batch of {}; keys that sequences share have no backward pass",
         operation, k.describe(), s.B);
  charge(flex_attention_backward_cost(q.dtype(), s, tiles));
  if (q.device() == Device::meta) return;
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    flex_backward_heads<Number>(s, dout, q, k, v, saved, score_mod, tiles, d, dcaptured, where);
  });
}

// dq, dk, dv from dout (B, Tq, H, d) and what the forward pass returned; and the gradients of the
// `captured` numbers that score_mod reads.
template <class ScoreMod, class Mask>
FlexGradients flex_attention_backward(const Tensor& dout, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const FlashAttention& saved,
                                      const ScoreMod& score_mod, const BlockMask<Mask>& tiles,
                                      int64_t captured = 0, Where where = Where::current()) {
  AttentionGradients d{zero_sums(q, where), zero_sums(k, where), zero_sums(v, where)};
  Tensor dcaptured = Tensor::zeros({captured}, DType::f64, where);
  flex_attention_part_backward(dout, q, k, v, saved, score_mod, tiles, d, dcaptured, where);
  AttentionGradients out = rounded(std::move(d), q.dtype());
  return {out.dq, out.dk, out.dv, dcaptured};
}

}  // namespace yotta
