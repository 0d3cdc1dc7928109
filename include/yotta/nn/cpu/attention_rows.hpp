// Causal attention on a GPU, one row at a time: the bodies of the kernels behind attention.hpp and
// flash_attention.hpp.
//
//     a query's row (forward, dq)              a key's row (dk, dv)
//     keys ->                                  queries that see key j
//     t [ x x x x . . ]   one warp             [ . . ]
//         walks over the keys it sees          [ x . ]
//                                              [ x . ]   one warp walks down,
//                                              [ x . ]   over its group's heads too
//
// The 32 lanes of a warp share the d numbers of a head: a score is a sum over them. Every number of
// the result is summed by one warp in one order, without atomics, so that two runs agree to the
// bit. The formulas are those of the two headers. Kernels with tiles read each key once for many
// queries; they compute what nn/cuda/attention_tiles.hpp and attention_f32.hpp say, and these
// bodies the rest. The CPU computes tiles (flash_attention.hpp); the tests compare all.
//
// With bf16 inputs o, dq, dk and dv are f32 sums, which the op rounds.
// Cost: the FLOPs of the formulas; each key and value is read once per query, mostly from L2.
// Letters: B, T, H, Hkv, d as in attention.hpp; n queries, as many keys; P probabilities,
// L log-sum-exp.
#pragma once

#include <cmath>

#include "yotta/nn/cpu/body.hpp"
#include "yotta/nn/softmax.hpp"

namespace yotta::detail {

// Where the rows of q, k, v and of tensors of their shapes are: queries from column `query` of T,
// keys from `key`.
struct AttentionRows {
  int64_t T, n, H, Hkv, d, query, key, ahead;

  // Offset of query t of head h, of key j of head h's keys.
  YOTTA_HOST_DEVICE int64_t q(int64_t b, int64_t t, int64_t h) const {
    return ((b * T + query + t) * H + h) * d;
  }
  YOTTA_HOST_DEVICE int64_t k(int64_t b, int64_t j, int64_t shared) const {
    return ((b * T + key + j) * Hkv + shared) * d;
  }
  YOTTA_HOST_DEVICE int64_t shared(int64_t h) const { return h / (H / Hkv); }
  YOTTA_HOST_DEVICE int64_t seen(int64_t t) const {  // keys, of all
    const int64_t keys = t + ahead + 1;
    return keys < 0 ? 0 : keys > n ? n : keys;
  }
  YOTTA_HOST_DEVICE int64_t first_query(int64_t j) const { return j > ahead ? j - ahead : 0; }
};

// The sum of a b over a head's d numbers, on all of the team.
template <class Number, class Team>
YOTTA_BODY Computed<Number> dot(const Number* a, const Number* b, int64_t d, Team team) {
  return team.sum(d,
                  [&](int64_t c, auto count) { return load(a + c, count) * load(b + c, count); });
}
// to = 0; to = factor to; to += factor x.
template <class Number, class Team>
YOTTA_BODY void clear(Number* to, int64_t d, Team team) {
  team.each(d,
            [&](int64_t c, auto count) { store(to + c, decltype(load(to + c, count)){}, count); });
}
template <class Real, class Team>
YOTTA_BODY void multiply_row(Real* to, Real factor, int64_t d, Team team) {
  team.each(d, [&](int64_t c, auto count) { store(to + c, factor * load(to + c, count), count); });
}
template <class Number, class Real, class Team>
YOTTA_BODY void add_scaled(Real* to, Real factor, const Number* x, int64_t d, Team team) {
  team.each(d, [&](int64_t c, auto count) {
    store(to + c, load(to + c, count) + factor * load(x + c, count), count);
  });
}
template <class Real>
YOTTA_HOST_DEVICE Real one_over_root(int64_t d) {
  return Real{1} / std::sqrt(static_cast<Real>(d));
}

// ---- blockwise: item (b H + h) n + t is a query, (b Hkv + h) n + j a key ------------------------

template <class Number, class Real = Computed<Number>>
struct BlockwiseRow {
  AttentionRows at;
  const Number *q, *k, *v;
  Real *o, *L;  // (B, n, H, d), (B, H, n)
  template <class Team>
  YOTTA_BODY void operator()(int64_t i, Team team) const {
    const int64_t t = i % at.n, h = i / at.n % at.H, b = i / at.n / at.H, d = at.d;
    const Real factor = one_over_root<Real>(d);
    const Number* query = q + at.q(b, t, h);
    Real* to = o + ((b * at.n + t) * at.H + h) * d;
    Real m = -static_cast<Real>(__builtin_inf()), l = 0;
    clear(to, d, team);
    for (int64_t j = 0; j < at.seen(t); ++j) {
      const int64_t key = at.k(b, j, at.shared(h));
      const Real score = factor * dot(query, k + key, d, team), most = score > m ? score : m;
      const Real kept = std::exp(m - most), p = std::exp(score - most);
      multiply_row(to, kept, d, team);
      add_scaled(to, p, v + key, d, team);
      l = l * kept + p;
      m = most;
    }
    if (l != 0) multiply_row(to, Real{1} / l, d, team);
    team.once([&] { L[i] = m + std::log(l); });
  }
};

// What both backward bodies read: (B, T, ., d), and L (B, H, T).
template <class Number, class Real = Computed<Number>>
struct BlockwiseSaved {
  AttentionRows at;
  const Number *q, *k, *v, *o, *dout;
  const Real* L;

  // P and dS of query t and key j, whose rows begin at `query` and `key`.
  struct Score {
    Real p, ds;
  };
  template <class Team>
  YOTTA_BODY Score score(int64_t query, int64_t key, Real log_sum_exp, Team team) const {
    const Real factor = one_over_root<Real>(at.d);
    const std::array<Real, 3> sums = team.template sums<3>(at.d, [&](int64_t c, auto count) {
      const auto g = load(dout + query + c, count);
      return std::array{load(q + query + c, count) * load(k + key + c, count),
                        g * load(v + key + c, count), g * load(o + query + c, count)};
    });
    const Real p = std::exp(factor * sums[0] - log_sum_exp);
    return {p, factor * p * (sums[1] - sums[2])};
  }
  YOTTA_HOST_DEVICE Real log_sum_exp(int64_t b, int64_t h, int64_t t) const {
    return L[(b * at.H + h) * at.T + at.query + t];
  }
};

template <class Number, class Real = Computed<Number>>
struct BlockwiseQueryGradient {
  BlockwiseSaved<Number> saved;
  Real* dq;  // (B, T, H, d), added to
  template <class Team>
  YOTTA_BODY void operator()(int64_t i, Team team) const {
    const AttentionRows& at = saved.at;
    const int64_t t = i % at.n, h = i / at.n % at.H, b = i / at.n / at.H, query = at.q(b, t, h);
    for (int64_t j = 0; j < at.seen(t); ++j) {
      const int64_t key = at.k(b, j, at.shared(h));
      const auto score = saved.score(query, key, saved.log_sum_exp(b, h, t), team);
      add_scaled(dq + query, score.ds, saved.k + key, at.d, team);
    }
  }
};

template <class Number, class Real = Computed<Number>>
struct BlockwiseKeyGradient {
  BlockwiseSaved<Number> saved;
  Real *dk, *dv;  // (B, T, Hkv, d), added to
  template <class Team>
  YOTTA_BODY void operator()(int64_t i, Team team) const {
    const AttentionRows& at = saved.at;
    const int64_t j = i % at.n, shared = i / at.n % at.Hkv, b = i / at.n / at.Hkv;
    const int64_t key = at.k(b, j, shared), group = at.H / at.Hkv;
    for (int64_t h = shared * group; h < (shared + 1) * group; ++h)
      for (int64_t t = at.first_query(j); t < at.n; ++t) {
        const int64_t query = at.q(b, t, h);
        const auto score = saved.score(query, key, saved.log_sum_exp(b, h, t), team);
        add_scaled(dk + key, score.ds, saved.q + query, at.d, team);
        add_scaled(dv + key, score.p, saved.dout + query, at.d, team);
      }
  }
};

// ---- plain: the same items; P (B, H, T, T) is kept, and a mask of it where there is dropout -----

// P of one query: softmax of its scores, zero for the keys after it.
template <class Number, class Real = Computed<Number>>
struct PlainProbabilities {
  AttentionRows at;
  const Number *q, *k;
  Real* S;    // scores, scratch
  Number* P;  // may be S
  template <class Team>
  YOTTA_BODY void operator()(int64_t i, Team team) const {
    const int64_t t = i % at.T, h = i / at.T % at.H, b = i / at.T / at.H;
    const Real factor = one_over_root<Real>(at.d);
    Real* row = S + i * at.T;
    clear(P + i * at.T, at.T, team);
    team.meet();
    for (int64_t j = 0; j <= t; ++j) {
      const Real score = factor * dot(q + at.q(b, t, h), k + at.k(b, j, at.shared(h)), at.d, team);
      team.once([&] { row[j] = score; });
    }
    team.meet();
    SoftmaxRow<Real, Number>{t + 1, row, P + i * at.T}(0, team);
  }
};

// P of key j as it weighs: dropped, or grown by 1 / (1 - p).
template <class Number, class Real>
YOTTA_HOST_DEVICE Real weight(const Number* P, const uint8_t* mask, Real grow, int64_t at) {
  const Real p = static_cast<Real>(P[at]);
  return mask == nullptr ? p : mask[at] != 0 ? p * grow : Real{0};
}

// to = the sum of weight(j) times row j of x (k or v) over the keys j that query t of head h sees.
template <class Number, class Real, class Weight, class Team>
YOTTA_BODY void sum_seen(const AttentionRows& at, int64_t b, int64_t t, int64_t h, const Number* x,
                         Weight weight, Real* to, Team team) {
  clear(to, at.d, team);
  for (int64_t j = 0; j <= t; ++j)
    add_scaled(to, weight(j), x + at.k(b, j, at.shared(h)), at.d, team);
}

template <class Number, class Real = Computed<Number>>
struct PlainOutput {
  AttentionRows at;
  const Number *P, *v;
  const uint8_t* mask;
  Real grow;
  Real* o;
  template <class Team>
  YOTTA_BODY void operator()(int64_t i, Team team) const {
    const int64_t t = i % at.T, h = i / at.T % at.H, b = i / at.T / at.H;
    sum_seen(
        at, b, t, h, v, [&](int64_t j) { return weight(P, mask, grow, i * at.T + j); },
        o + at.q(b, t, h), team);
  }
};

// dS (B, H, T, T) and dq of one query.
template <class Number, class Real = Computed<Number>>
struct PlainQueryGradient {
  AttentionRows at;
  const Number *P, *k, *v, *dout;
  const uint8_t* mask;
  Real grow;
  Real *dS, *dq;
  template <class Team>
  YOTTA_BODY void operator()(int64_t i, Team team) const {
    const int64_t t = i % at.T, h = i / at.T % at.H, b = i / at.T / at.H, row = i * at.T;
    const Real factor = one_over_root<Real>(at.d);
    for (int64_t j = 0; j <= t; ++j) {
      const Real dp = dot(dout + at.q(b, t, h), v + at.k(b, j, at.shared(h)), at.d, team);
      team.once([&] { dS[row + j] = mask == nullptr ? dp : mask[row + j] != 0 ? dp * grow : 0; });
    }
    team.meet();
    SoftmaxBackwardRow<Real, Number>{t + 1, dS + row, P + row, dS + row}(0, team);
    team.meet();
    sum_seen(
        at, b, t, h, k, [&](int64_t j) { return factor * dS[row + j]; }, dq + at.q(b, t, h), team);
  }
};

template <class Number, class Real = Computed<Number>>
struct PlainKeyGradient {
  AttentionRows at;
  const Number* P;
  const Real* dS;
  const Number *q, *dout;
  const uint8_t* mask;
  Real grow;
  Real *dk, *dv;
  template <class Team>
  YOTTA_BODY void operator()(int64_t i, Team team) const {
    const int64_t j = i % at.T, shared = i / at.T % at.Hkv, b = i / at.T / at.Hkv;
    const int64_t key = at.k(b, j, shared), group = at.H / at.Hkv;
    const Real factor = one_over_root<Real>(at.d);
    clear(dk + key, at.d, team);
    clear(dv + key, at.d, team);
    for (int64_t h = shared * group; h < (shared + 1) * group; ++h)
      for (int64_t t = j; t < at.T; ++t) {
        const int64_t score = ((b * at.H + h) * at.T + t) * at.T + j;
        add_scaled(dk + key, factor * dS[score], q + at.q(b, t, h), at.d, team);
        add_scaled(dv + key, weight(P, mask, grow, score), dout + at.q(b, t, h), at.d, team);
      }
  }
};

// ---- plain, as kernels ------------------------------------------------------------------------

// All rows of P, then all of o, which holds sums. mask: undefined without dropout.
inline void plain_rows(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionRows& at,
                       double p, Tensor& probabilities, const Tensor& mask, Tensor& o,
                       Where where) {
  const uint8_t* kept = p > 0 ? mask.address<uint8_t>(Device::cuda) : nullptr;
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const auto of = [&](const Tensor& x) { return x.address<Number>(Device::cuda, where); };
    const int64_t queries = probabilities.numel() / std::max<int64_t>(1, at.T);
    Number* P = probabilities.address<Number>(Device::cuda);
    const auto fill = [&](Real* scores) {
      run_kernel("attention_plain", PlainProbabilities<Number>{at, of(q), of(k), scores, P},
                 queries, where);
    };
    if constexpr (std::is_same_v<Number, Real>)
      fill(P);
    else
      fill(DeviceScratch(probabilities.numel() * int64_t{sizeof(Real)}, where).as<Real>());
    run_kernel("attention_plain",
               PlainOutput<Number>{at, P, of(v), kept, static_cast<Real>(1 / (1 - p)),
                                   o.address<Real>(Device::cuda)},
               queries, where);
  });
}

// dq, dk and dv hold sums.
inline void plain_rows_backward(const Tensor& dout, const Tensor& q, const Tensor& k,
                                const Tensor& v, const AttentionRows& at, double p,
                                const Tensor& probabilities, const Tensor& mask, Tensor& dq,
                                Tensor& dk, Tensor& dv, Where where) {
  const uint8_t* kept = p > 0 ? mask.address<uint8_t>(Device::cuda, where) : nullptr;
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const auto of = [&](const Tensor& x) { return x.address<Number>(Device::cuda, where); };
    const Number* P = of(probabilities);
    const Real grow = static_cast<Real>(1 / (1 - p));
    const DeviceScratch dS(probabilities.numel() * int64_t{sizeof(Real)}, where);
    Real *dQ = dq.address<Real>(Device::cuda), *dK = dk.address<Real>(Device::cuda);
    Real* dV = dv.address<Real>(Device::cuda);
    run_kernel(
        "attention_plain_backward",
        PlainQueryGradient<Number>{at, P, of(k), of(v), of(dout), kept, grow, dS.as<Real>(), dQ},
        q.dim(0) * at.H * at.T, where);
    run_kernel("attention_plain_backward",
               PlainKeyGradient<Number>{at, P, dS.as<Real>(), of(q), of(dout), kept, grow, dK, dV},
               q.dim(0) * at.Hkv * at.T, where);
  });
}

}  // namespace yotta::detail
