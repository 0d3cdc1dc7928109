// FSDP and tensor parallelism mixed: how many of p chips for each.
//
//     p = X Y chips     X shards of the batch, weights gathered over them      FSDP
//                       Y parts of every width, tokens gathered over them      tp
//
// Two matrices (C, F) and (F, C), a batch of B tokens, bf16. In the forward pass a chip
//
//     computes          4 B C F / p   FLOPs
//     gathers weights   4 C F / Y     bytes    less with more tp: only its part of the widths
//     gathers tokens    4 B C / X     bytes    less with more FSDP: only its part of the batch
//
// With links alike these are 4 C (F X + B p / X) / p bytes in all. A sum of a rising and a falling
// term is least where they are equal: at X = sqrt(B p / F). With M_X and M_Y axes of a torus for
// FSDP and tp, each W bytes per second:
//
//     X_opt = sqrt((B / F) (M_X / M_Y) p)
//
// and with it computing takes longer than both gathers, one after the other, as long as
//
//     B / p > 4 (P / W)^2 / (M_X M_Y F)
//
// FSDP alone needs B / p > P / (W M_X): a number that no F makes smaller.
// Contract: overlap is perfect, latency 0. The backward pass has twice of everything.
// Letters: B tokens in a batch, C width of the model, F of the feed-forward layer, p chips, P
// FLOP/s of a chip, W bytes per second of an axis. The source writes D, N and C for C, p and P.
// Reference: Austin et al. (2025), "How to Scale Your Model", on training: FSDP with tensor
// parallelism.
#pragma once

#include <cmath>
#include <cstdint>

namespace yotta {

struct FsdpTpMixture {
  double B, C, F, p;
  double P, W;              // FLOP/s, bytes/s
  double M_X = 1, M_Y = 1;  // axes of the mesh for FSDP, for tp
};

constexpr double mixture_math_seconds(const FsdpTpMixture& m) {
  return 4 * m.B * m.C * m.F / (m.p * m.P);
}
constexpr double mixture_fsdp_seconds(const FsdpTpMixture& m, double X) {
  return 4 * m.C * m.F * X / m.p / (m.M_X * m.W);
}
constexpr double mixture_tp_seconds(const FsdpTpMixture& m, double X) {
  return 4 * m.B * m.C / X / (m.M_Y * m.W);
}
constexpr double mixture_sent_seconds(const FsdpTpMixture& m, double X) {
  return mixture_fsdp_seconds(m, X) + mixture_tp_seconds(m, X);
}

// The X at which least time is sent; any number, not a divisor of p.
inline double best_fsdp_ranks(const FsdpTpMixture& m) {
  return std::sqrt(m.B / m.F * m.M_X / m.M_Y * m.p);
}
// The same by trying the powers of two up to p.
constexpr int64_t best_fsdp_ranks_tried(const FsdpTpMixture& m) {
  int64_t best = 1;
  for (int64_t X = 2; static_cast<double>(X) <= m.p; X *= 2)
    if (mixture_sent_seconds(m, static_cast<double>(X)) <
        mixture_sent_seconds(m, static_cast<double>(best)))
      best = X;
  return best;
}

// The fewest tokens per chip with which the best mixture is still bound by FLOPs.
constexpr double least_tokens_per_chip(const FsdpTpMixture& m) {
  const double per_byte = m.P / m.W;  // FLOPs while a byte is sent
  return 4 * per_byte * per_byte / (m.M_X * m.M_Y * m.F);
}

}  // namespace yotta
