// FSDP and tensor parallelism mixed: how many of N chips for each.
//
//     N = X Y chips     X shards of the batch, weights gathered over them      FSDP
//                       Y parts of every width, tokens gathered over them      tp
//
// Two matrices (D, F) and (F, D), a batch of B tokens, bf16. In the forward pass a chip
//
//     computes          4 B D F / N   FLOPs
//     gathers weights   4 D F / Y     bytes    less with more tp: only its part of the widths
//     gathers tokens    4 B D / X     bytes    less with more FSDP: only its part of the batch
//
// With links alike these are 4 D (F X + B N / X) / N bytes in all. A sum of a rising and a falling
// term is least where they are equal: at X = sqrt(B N / F). With M_X and M_Y axes of a torus for
// FSDP and tp, each W bytes per second:
//
//     X_opt = sqrt((B / F) (M_X / M_Y) N)
//
// and with it computing takes longer than both gathers, one after the other, as long as
//
//     B / N > 4 alpha^2 / (M_X M_Y F),     alpha = C / W
//
// FSDP alone needs B / N > alpha / M_X: a number that no F makes smaller.
// Contract: overlap is perfect, latency 0. The backward pass has twice of everything.
// Letters, those of the source: B tokens in a batch, D width of the model, F of the feed-forward
// layer, N chips, C FLOP/s of a chip, W bytes per second of an axis.
// Reference: Austin et al. (2025), "How to Scale Your Model", on training: FSDP with tensor
// parallelism.
#pragma once

#include <cmath>
#include <cstdint>

namespace yotta {

struct FsdpTpMixture {
  double B, D, F, N;
  double C, W;              // FLOP/s, bytes/s
  double M_X = 1, M_Y = 1;  // axes of the mesh for FSDP, for tp
};

constexpr double mixture_math_seconds(const FsdpTpMixture& m) {
  return 4 * m.B * m.D * m.F / (m.N * m.C);
}
constexpr double mixture_fsdp_seconds(const FsdpTpMixture& m, double X) {
  return 4 * m.D * m.F * X / m.N / (m.M_X * m.W);
}
constexpr double mixture_tp_seconds(const FsdpTpMixture& m, double X) {
  return 4 * m.B * m.D / X / (m.M_Y * m.W);
}
constexpr double mixture_sent_seconds(const FsdpTpMixture& m, double X) {
  return mixture_fsdp_seconds(m, X) + mixture_tp_seconds(m, X);
}

// The X at which least time is sent; any number, not a divisor of N.
inline double best_fsdp_ranks(const FsdpTpMixture& m) {
  return std::sqrt(m.B / m.F * m.M_X / m.M_Y * m.N);
}
// The same by trying the powers of two up to N.
constexpr int64_t best_fsdp_ranks_tried(const FsdpTpMixture& m) {
  int64_t best = 1;
  for (int64_t X = 2; static_cast<double>(X) <= m.N; X *= 2)
    if (mixture_sent_seconds(m, static_cast<double>(X)) <
        mixture_sent_seconds(m, static_cast<double>(best)))
      best = X;
  return best;
}

// The fewest tokens per chip with which the best mixture is still bound by FLOPs.
constexpr double least_tokens_per_chip(const FsdpTpMixture& m) {
  const double alpha = m.C / m.W;
  return 4 * alpha * alpha / (m.M_X * m.M_Y * m.F);
}

}  // namespace yotta
