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
// Latent attention (nn/latent_attention.hpp) has matrices down to latents and up to heads in place
// of those of q, k and v. A mixture's first blocks may have a feed-forward layer without experts.
//
// Left out: norms, biases and learned positions. They are a thousandth of a model's weights or
// less, and no matrices.
//
// Letters: L layers, C width, H heads, K key/value heads, d head size, F width of a feed-forward,
// M its matrices, E experts of which a token meets k, S experts that every token
// meets, V vocabulary.
// References: PaLM 540B: Chowdhery et al. 2022, table 1; GPT-3: Brown et al. 2020, table 2.1;
// Mixtral 8x7B: Jiang et al. 2024, table 1; DeepSeek-V3 (2024), section 4.2.
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
  LatentConfig latent = {};  // in place of q, k and v; then head_size is not read
  int64_t dense_layers = 0;  // of the L, the first: without experts
  int64_t dense_width = 0;   // F of these

  // Numbers of a head's query, which meets keys, and of its value.
  constexpr int64_t query_size() const { return has_latent() ? latent.head_size() : head_size; }
  constexpr int64_t value_size() const { return has_latent() ? latent.value : head_size; }
  constexpr bool has_latent() const { return latent.kv_rank > 0; }
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
          c.mixture.shared,
          c.latent,
          c.mixture.dense_layers,
          c.mixture.dense_width};
}

// ---- weights ----
// Of latent attention: down to the latents, up to all heads, and o.
constexpr double latent_weights(const CountedModel& m) {
  const LatentConfig& l = m.latent;
  const int64_t up = l.q_rank * l.head_size() + l.kv_rank * (l.plain + l.value);  // of a head
  return static_cast<double>(m.layers * (m.width * (l.q_rank + l.kv_rank + l.turned) +
                                         m.heads * (up + l.value * m.width)));
}
constexpr double projection_weights(const CountedModel& m) {
  if (m.has_latent()) return latent_weights(m);
  return 2.0 * static_cast<double>(m.layers * m.width * m.head_size * (m.heads + m.kv_heads));
}
constexpr double expert_weights(const CountedModel& m) {  // of one expert in every layer
  return static_cast<double>((m.layers - m.dense_layers) * m.matrices * m.width * m.feed_forward);
}
constexpr double dense_weights(const CountedModel& m) {  // of the first blocks
  return static_cast<double>(m.dense_layers * m.matrices * m.width * m.dense_width);
}
constexpr double router_weights(const CountedModel& m) {
  const int64_t mixed = m.layers - m.dense_layers;
  return m.experts > 1 ? static_cast<double>(mixed * m.width * m.experts) : 0;
}
constexpr double output_weights(const CountedModel& m) {
  return static_cast<double>(m.vocabulary * m.width);
}

// All of them: N as most papers print it.
constexpr double all_weights(const CountedModel& m) {
  return projection_weights(m) + static_cast<double>(m.experts + m.shared) * expert_weights(m) +
         dense_weights(m) + router_weights(m) + (m.tied ? 1 : 2) * output_weights(m);
}
// Those that a token is multiplied with: between attention and the next block, and all.
constexpr double met_in_feed_forward(const CountedModel& m) {
  return static_cast<double>(m.active + m.shared) * expert_weights(m) + dense_weights(m) +
         router_weights(m);
}
constexpr double met_weights(const CountedModel& m) {
  return projection_weights(m) + met_in_feed_forward(m) + output_weights(m);
}

// ---- published models ----
constexpr CountedModel gpt3_175b() { return {96, 12288, 96, 96, 128, 4 * 12288, 2, 50257}; }
// One key/value head for all heads, and H d = 12,288 is less than C.
constexpr CountedModel palm_540b() { return {118, 18432, 48, 1, 256, 4 * 18432, 3, 256'000}; }
constexpr CountedModel mixtral_8x7b() {
  return {32, 4096, 32, 8, 128, 14336, 3, 32'000, false, 8, 2};
}
constexpr CountedModel deepseek_v3_671b() { return counted_model(deepseek_v3()); }

}  // namespace yotta
