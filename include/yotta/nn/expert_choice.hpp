// Expert choice: one token's experts, the weights they get, and the weighted sum of what they make.
//
// A token has a score s_e for each of E experts, and is to run through k of them. Which ones, how
// much does each count, and what do the scores learn from it?
//
//     E = 4, k = 2            e    0    1    2    3
//     scores                  s   .1   .4   .3   .2
//     the k largest                    ^    ^            expert  1    2
//     weights w = s / S                                  weight  4/7  3/7      S = .4 + .3
//     what the experts make                              row     r_1  r_2
//     the token's sum                                    y = 4/7 r_1 + 3/7 r_2
//
// A bias b may be added to the scores: the experts with the largest s + b are chosen then. It only
// chooses; the weights are made of s. Of equal experts the first is chosen, so every rank and every
// layout chooses alike. Without renormalising the weights are the scores themselves.
//
// Backward. The sum passes on dr_j = w_j dy, and dw_j = dy . r_j: an expert whose row points along
// -dy gets a larger weight. The choice has no gradient: a score that moves a little chooses the
// same experts. The weights have one. S holds all chosen scores, so each of them is in all weights:
//
//     w_j = s_j / S      ds_j = (dw_j - A) / S      A = sum over the chosen of dw_i w_i
//     w_j = s_j          ds_j = dw_j                experts that are not chosen: 0
//
// With dw = (1, 0) above, A = 4/7 and ds = 0, .61, -.82, 0. From scores the gradient goes on to the
// logits z. Softmax's scores add up to 1, so each logit is in all of them: here dz = 0, .24, -.24,
// 0, what one gains the other loses. A sigmoid's score is its own logit's alone.
//
//     softmax            dz_e = s_e (ds_e - B)      B = sum over all E of ds_i s_i
//     sigmoid            dz_e = ds_e s_e (1 - s_e)
//
// Renormalised weights do not change if all scores are doubled, so their part of B is 0. A loss on
// all scores, as load_balance.hpp's, has its part in B; so have weights that are not renormalised.
//
// Dropped: an expert with a capacity may refuse a token. Then there is no row: it adds nothing to
// the sum, the other weights stay as they are, and its own gets the gradient 0.
//
// Cost of a token: k E comparisons, and k E k / 2 to see who is taken; some 5 E FLOPs backward. The
// sum has 2 k C FLOPs, backward 3 k C, next to nothing beside the experts' 6 k C F.
// Contract: functions of one token, whose caller has checked sizes: router.hpp and expert_rows.hpp
// run them over all tokens, in parallel. 1 <= k <= E; the sum S is not 0 where it divides. Real is
// the scores' type, f32 or f64; rows of bf16 are added up in f32.
// Letters: C width, E experts, k experts of a token, F hidden width of an expert.
// References: Shazeer et al. 2017; Mixtral (Jiang et al. 2024), section 2.1; Switch (Fedus et al.
// 2021); DeepSeek-V3 (2024), section 2.1.2 (sigmoid, bias).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

#include "yotta/nn/router_options.hpp"

namespace yotta {

// Weights of a layer of E swiglu experts that one token is multiplied with.
constexpr int64_t weights_met(int64_t C, int64_t F, int64_t E, int64_t k) {
  return C * E + k * 3 * C * F;
}

// Is e one of the first j choices?
inline bool taken(std::span<const int32_t> expert, size_t j, size_t e) {
  const auto end = expert.begin() + static_cast<int64_t>(j);
  return std::find(expert.begin(), end, static_cast<int32_t>(e)) != end;
}

// By what an expert is chosen: s + b. b (E) may be empty: no bias.
template <class Real>
Real biased(std::span<const Real> s, std::span<const Real> b, size_t e) {
  return b.empty() ? s[e] : s[e] + b[e];
}
template <class Real>
void divide_by_sum(std::span<Real> x) {
  const Real sum = std::accumulate(x.begin(), x.end(), Real{0});
  for (Real& each : x) each /= sum;
}

// The k experts of scores s (E) with the largest s + b, the largest first, and their weights. Of
// equal ones the first. If `renormalise`, the weights add up to 1.
template <class Real>
void choose_experts(std::span<const Real> s, std::span<const Real> b, bool renormalise,
                    std::span<int32_t> expert, std::span<Real> weight) {
  const size_t none = s.size();
  for (size_t j = 0; j < expert.size(); ++j) {
    size_t best = none;
    for (size_t e = 0; e < none; ++e)
      if (!taken(expert, j, e) && (best == none || biased(s, b, e) > biased(s, b, best))) best = e;
    expert[j] = static_cast<int32_t>(best);
    weight[j] = s[best];
  }
  if (renormalise) divide_by_sum(weight);
}

// A choice as an index.
inline size_t index_of(std::span<const int32_t> expert, size_t j) {
  return static_cast<size_t>(expert[j]);
}

// ds (E) holds the gradient that the scores s (E) get from elsewhere; adds what the weights of the
// chosen experts pass on, and turns the whole into the logits' gradient, in place.
template <class Real>
void choose_experts_backward(std::span<const Real> s, std::span<const int32_t> expert,
                             std::span<const Real> dweight, RouterScore score, bool renormalise,
                             std::span<Real> ds) {
  Real S = 0, A = 0, B = 0;
  for (size_t j = 0; j < expert.size(); ++j) S += s[index_of(expert, j)];
  for (size_t j = 0; j < expert.size(); ++j) A += dweight[j] * s[index_of(expert, j)];
  for (size_t j = 0; j < expert.size(); ++j)
    ds[index_of(expert, j)] += renormalise ? (dweight[j] - A / S) / S : dweight[j];
  for (size_t e = 0; e < s.size(); ++e) B += ds[e] * s[e];
  for (size_t e = 0; e < s.size(); ++e)
    ds[e] = score == RouterScore::softmax ? s[e] * (ds[e] - B) : ds[e] * s[e] * (1 - s[e]);
}

// sum (C) += weight[j] times row number row_of[j] of `rows` (m, C), for each of a token's k
// experts; row_of[j] = -1: that expert has dropped the token.
template <class Number>
void combine_token(const Number* rows, std::span<const int64_t> row_of,
                   std::span<const Computed<Number>> weight, std::span<Computed<Number>> sum) {
  for (size_t j = 0; j < row_of.size(); ++j) {
    if (row_of[j] < 0) continue;
    const Number* row = rows + row_of[j] * std::ssize(sum);
    for (Computed<Number>& each : sum) each += weight[j] * static_cast<Computed<Number>>(*row++);
  }
}

// One of these rows, backward: drow (C) of dy (C), the gradient of the token's sum. Returns the
// gradient of its weight, dy . row.
template <class Number>
Computed<Number> combine_token_backward(std::span<const Number> dy, std::span<const Number> row,
                                        Computed<Number> weight, std::span<Number> drow) {
  Computed<Number> along = 0;
  for (size_t c = 0; c < dy.size(); ++c) {
    const auto each = static_cast<Computed<Number>>(dy[c]);
    along += each * static_cast<Computed<Number>>(row[c]);
    drow[c] = static_cast<Number>(weight * each);
  }
  return along;
}

}  // namespace yotta
