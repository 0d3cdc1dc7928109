// A model as its FLOPs are counted: the sizes of its matrices, and nothing else.
//
//     one of L blocks      weights                     of these a token meets
//     q and o              2 C H d                     all
//     k and v              2 C K d                     all; K < H: heads share keys
//     feed-forward         E M C F                     k M C F; M = 2 matrices, 3 with a gate
//     shared experts       S M C F                     all
//     router               C E, with experts           all
//     after the blocks
//     output matrix        V C                         all, also where it is tied to the table
//     token table          V C, if untied              one row, which is copied: no FLOPs
//
// A weight that a token meets costs 2 FLOPs forward: a multiplication and an addition. "N" in 6 N
// is all weights in one paper and those that a token meets in another. For GPT-2 it makes no
// difference, for Llama 3 8B 7%, for a model of experts a factor of 3 and more.
//
// Left out: norms, biases and learned positions. They are a thousandth of a model's weights or
// less, and no matrices.
//
// Letters: L layers, C width, H heads, K key/value heads, d head size, F width of a feed-forward,
// M its matrices, E experts of which a token meets k, S experts that every token
// meets, V vocabulary.
// References: PaLM 540B: Chowdhery et al. 2022, table 1; GPT-3: Brown et al. 2020, table 2.1;
// Mixtral 8x7B: Jiang et al. 2024, table 1.
#pragma once

#include <cstdint>

#include "yotta/nn/transformer_config.hpp"

namespace yotta {

struct CountedModel {
  int64_t layers = 1;        // L
  int64_t width = 1;         // C
  int64_t heads = 1;         // H
  int64_t kv_heads = 1;      // K
  int64_t head_size = 1;     // d; H d need not be C
  int64_t feed_forward = 1;  // F, of one expert
  int64_t matrices = 2;      // M: up and down; 3 with SwiGLU's gate
  int64_t vocabulary = 1;    // V
  bool tied = true;          // the output matrix is the token table
  int64_t experts = 1;       // E of each layer; 1: no router
  int64_t active = 1;        // k
  int64_t shared = 0;        // S
};

constexpr CountedModel counted_model(const TransformerConfig& c) {
  const bool mixture = c.mixture.experts > 0;
  return {c.layers,
          c.width,
          c.heads,
          c.kv_heads,
          c.head_size(),
          c.feed_forward,
          c.has_bias() ? 2 : 3,
          c.vocabulary,
          c.tied,
          mixture ? c.mixture.experts : 1,
          mixture ? c.mixture.top_k : 1,
          c.mixture.shared};
}

// ---- weights ----
constexpr double projection_weights(const CountedModel& m) {
  return 2.0 * static_cast<double>(m.layers * m.width * m.head_size * (m.heads + m.kv_heads));
}
constexpr double expert_weights(const CountedModel& m) {  // of one expert in every layer
  return static_cast<double>(m.layers * m.matrices * m.width * m.feed_forward);
}
constexpr double router_weights(const CountedModel& m) {
  return m.experts > 1 ? static_cast<double>(m.layers * m.width * m.experts) : 0;
}
constexpr double output_weights(const CountedModel& m) {
  return static_cast<double>(m.vocabulary * m.width);
}

// All of them: N as most papers print it.
constexpr double all_weights(const CountedModel& m) {
  return projection_weights(m) + static_cast<double>(m.experts + m.shared) * expert_weights(m) +
         router_weights(m) + (m.tied ? 1 : 2) * output_weights(m);
}
// Those that a token is multiplied with.
constexpr double met_weights(const CountedModel& m) {
  return projection_weights(m) + static_cast<double>(m.active + m.shared) * expert_weights(m) +
         router_weights(m) + output_weights(m);
}

// ---- published models ----
constexpr CountedModel gpt3_175b() { return {96, 12288, 96, 96, 128, 4 * 12288, 2, 50257}; }
// One key/value head for all heads, and H d = 12,288 is less than C.
constexpr CountedModel palm_540b() { return {118, 18432, 48, 1, 256, 4 * 18432, 3, 256'000}; }
constexpr CountedModel mixtral_8x7b() {
  return {32, 4096, 32, 8, 128, 14336, 3, 32'000, false, 8, 2};
}

}  // namespace yotta
