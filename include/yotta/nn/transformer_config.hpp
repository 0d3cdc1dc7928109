// The transformer's sizes, and everything that follows from them by arithmetic.
//
//     C width   H heads   d = C / H head size   K key/value heads   F feed-forward width
//     L layers  V vocabulary   T context        K < H: grouped queries, H / K heads share a key
//
//                       GPT-2                          Llama
//     positions         learned, added to x            rope, turns q and k
//     norm              layernorm, weight and bias     rmsnorm, weight
//     attention         q, k, v, o with bias           q, k, v, o without; K <= H
//     feed-forward      down(gelu(up x)), bias         down(silu(gate x) * up x)
//     output matrix     the token table (tied)         its own (untied)
//
// Parameters, both dialects:  embeddings + L * block + norm + (untied: V C)
//    GPT-2  block = 4 C^2 + 4 C + 2 C F + F + C + 4 C  Llama  block = 2 C^2 + 2 C d K + 3 C F + 2 C
// Latent attention (latent_attention.hpp) has other matrices in place of q, k and v, and heads
// whose numbers do not follow from C.
// Model FLOPs of a step over n tokens: 6 N n + 12 L C T n: two for each parameter and token in the
// forward pass (multiply, add), twice that backward, and attention's two T x T products, counted
// whole although half of each is masked. N counts every parameter, as PaLM's formula does, but of a
// mixture's experts only the k that a token runs through.
// References: Radford et al. 2019 (GPT-2); Llama team 2024, table 3; Chowdhery et al. 2022, app. B.
#pragma once

#include <cstdint>

#include "yotta/core/dtype.hpp"
#include "yotta/core/options.hpp"
#include "yotta/nn/attention.hpp"
#include "yotta/nn/mask_options.hpp"
#include "yotta/nn/rope_frequencies.hpp"
#include "yotta/nn/router_options.hpp"

namespace yotta {

inline constexpr NumberRange norm_epsilon_range{1e-12, 1};
inline constexpr NumberRange rope_theta_range{1, 1e15};
inline constexpr NumberRange rope_factor_range{1, 1e6};
inline constexpr NumberRange rope_limit_range{1e-3, 1e6};  // low_freq_factor, high_freq_factor
inline constexpr NumberRange deviation_range{0, 1e3};

enum class Dialect : uint8_t { gpt2, llama };
constexpr const char* name(Dialect dialect) { return dialect == Dialect::gpt2 ? "gpt2" : "llama"; }

// A mixture of experts in place of each block's feed-forward layer (parallel/expert_parallel.hpp).
// Experts have no biases.
struct MixtureConfig {
  int64_t experts = 0;  // E of each block, F wide each; 0: no mixture
  int64_t top_k = 2;    // k of a token. With 1 its weight is its score, as in Switch
  int64_t shared = 0;   // experts that every token runs through: one layer of shared F
  RouterScore score = RouterScore::softmax;
  // Capacity and balance loss count the n tokens of a microbatch, on all ranks that share it.
  double capacity = 0;  // an expert takes capacity n k / E rows; 0: all
  double balance_loss = 0, z_loss = 0, bias_rate = 0;  // nn/load_balance.hpp
  int64_t dense_layers = 0;  // the first blocks, which have a feed-forward layer in its place
  int64_t dense_width = 0;   // F of these
  int64_t groups = 1, top_groups = 1;  // of experts, as nodes hold them (router_options.hpp)

  constexpr bool operator==(const MixtureConfig&) const = default;
};

// Multi-head latent attention in place of q, k and v (latent_attention.hpp).
struct LatentConfig {
  int64_t kv_rank = 0;  // numbers of a token from which all keys and values are made; 0: q, k and v
  int64_t q_rank = 0;   // of those from which all queries are made
  int64_t plain = 0, turned = 0;  // numbers of a head's query and key: apart from rope, and turned
  int64_t value = 0;              // numbers of a head's value

  constexpr int64_t head_size() const { return plain + turned; }
  constexpr bool operator==(const LatentConfig&) const = default;
};

struct TransformerConfig {
  Dialect dialect = Dialect::gpt2;
  int64_t layers = 2;            // L
  int64_t width = 64;            // C
  int64_t heads = 4;             // H
  int64_t kv_heads = 4;          // K
  int64_t feed_forward = 256;    // F
  int64_t vocabulary = 256;      // V
  int64_t context = 64;          // T, the longest sequence
  bool tied = true;              // the output matrix is the token table
  double dropout = 0;            // after the embedding, attention and feed-forward
  double attention_dropout = 0;  // of the probabilities; needs plain attention
  AttentionKind attention = AttentionKind::blockwise;
  MaskOptions mask = {};  // of flex attention
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  double deviation = 0.02;   // of initial weights
  DType dtype = DType::f32;  // of parameters and of what flows between layers: f32, f64 or bf16
  uint64_t seed = 0;
  MixtureConfig mixture = {};
  LatentConfig latent = {};

  constexpr bool has_latent() const { return latent.kv_rank > 0; }
  constexpr int64_t head_size() const { return has_latent() ? latent.head_size() : width / heads; }
  constexpr int64_t value_size() const { return has_latent() ? latent.value : head_size(); }
  constexpr int64_t kv_width() const { return kv_heads * head_size(); }
  constexpr bool has_bias() const { return dialect == Dialect::gpt2; }
  // Throws with the rule that is broken.
  void check(Where where = Where::current()) const;
  // The part of it about numbers that are no sizes.
  void check_numbers(Where where = Where::current()) const;
  // The part of it about attention's mask.
  void check_mask(Where where = Where::current()) const;
  // The part of it about heads.
  void check_heads(Where where = Where::current()) const;
  void check_latent(Where where = Where::current()) const;
  // The part of it about the mixture.
  void check_mixture(Where where = Where::current()) const;
  constexpr bool operator==(const TransformerConfig&) const = default;
};

// GPT-2's proportions: F = 4 C, as many key heads as heads, tied.
constexpr TransformerConfig gpt2_config(int64_t layers, int64_t width, int64_t heads,
                                        int64_t context, int64_t vocabulary) {
  TransformerConfig config;
  config.layers = layers, config.width = width, config.heads = config.kv_heads = heads;
  config.feed_forward = 4 * width, config.context = context, config.vocabulary = vocabulary;
  return config;
}

// Llama's: F and the number of key/value heads are free, untied.
constexpr TransformerConfig llama_config(int64_t layers, int64_t width, int64_t feed_forward,
                                         int64_t heads, int64_t kv_heads, int64_t context,
                                         int64_t vocabulary) {
  TransformerConfig config = gpt2_config(layers, width, heads, context, vocabulary);
  config.dialect = Dialect::llama;
  config.feed_forward = feed_forward, config.kv_heads = kv_heads;
  config.tied = false;
  return config;
}

// Published models: GPT-2 (small), and Llama 3 with 8 key/value heads and 8192 tokens of context.
constexpr TransformerConfig gpt2_124m() { return gpt2_config(12, 768, 12, 1024, 50257); }
constexpr TransformerConfig llama3_config(int64_t layers, int64_t width, int64_t feed_forward,
                                          int64_t heads) {
  TransformerConfig config = llama_config(layers, width, feed_forward, heads, 8, 8192, 128256);
  config.rope_theta = 500000;
  return config;
}
constexpr TransformerConfig llama3_8b() { return llama3_config(32, 4096, 14336, 32); }
constexpr TransformerConfig llama3_70b() { return llama3_config(80, 8192, 28672, 64); }
constexpr TransformerConfig llama3_405b() { return llama3_config(126, 16384, 53248, 128); }

// DeepSeek-V3 (2024), section 4.2, without the layers that predict a second token: latent
// attention, and from the fourth block on 256 small experts, of which a token meets 8, and a shared
// one.
constexpr TransformerConfig deepseek_v3() {
  TransformerConfig config = llama_config(61, 7168, 2048, 128, 128, 4096, 129280);
  config.latent = {512, 1536, 128, 64, 128};
  config.mixture.experts = 256, config.mixture.top_k = 8, config.mixture.shared = 1;
  config.mixture.score = RouterScore::sigmoid;
  config.mixture.dense_layers = 3, config.mixture.dense_width = 18432;
  config.mixture.groups = 8, config.mixture.top_groups = 4;
  config.norm_epsilon = 1e-6;
  return config;
}

// What the first blocks of a mixture are made from, those without experts.
constexpr TransformerConfig dense_config(TransformerConfig c) {
  c.feed_forward = c.mixture.dense_width;
  c.mixture = {};
  return c;
}

// ---- parameters ----
constexpr int64_t norm_parameters(const TransformerConfig& c) {
  return c.has_bias() ? 2 * c.width : c.width;
}
constexpr int64_t latent_parameters(const TransformerConfig& c) {
  const LatentConfig& l = c.latent;
  const int64_t down = c.width * (l.q_rank + l.kv_rank + l.turned), norms = l.q_rank + l.kv_rank;
  const int64_t up = l.q_rank * l.head_size() + l.kv_rank * (l.plain + l.value);  // of a head
  return down + norms + c.heads * (up + l.value * c.width);
}
constexpr int64_t attention_parameters(const TransformerConfig& c) {
  if (c.has_latent()) return latent_parameters(c);
  const int64_t outputs = 2 * c.width + 2 * c.kv_width();  // of q and o, of k and v
  return outputs * c.width + (c.has_bias() ? outputs : 0);
}
// `experts`: how many of the mixture's are counted.
constexpr int64_t mixture_parameters(const TransformerConfig& c, int64_t experts) {
  const MixtureConfig& m = c.mixture;
  const int64_t each = (c.dialect == Dialect::llama ? 3 : 2) * c.width * c.feed_forward;
  return (experts + m.shared) * each + m.experts * c.width + (m.bias_rate > 0 ? m.experts : 0);
}
constexpr int64_t feed_forward_parameters(const TransformerConfig& c) {
  if (c.mixture.experts > 0) return mixture_parameters(c, c.mixture.experts);
  if (c.dialect == Dialect::llama) return 3 * c.width * c.feed_forward;
  return 2 * c.width * c.feed_forward + c.feed_forward + c.width;
}
constexpr int64_t block_parameters(const TransformerConfig& c) {
  return 2 * norm_parameters(c) + attention_parameters(c) + feed_forward_parameters(c);
}
constexpr int64_t parameters(const TransformerConfig& c) {
  const int64_t table = c.vocabulary * c.width;
  const int64_t positions = c.dialect == Dialect::gpt2 ? c.context * c.width : 0;
  const int64_t dense = c.mixture.dense_layers;
  const int64_t blocks = (c.layers - dense) * block_parameters(c) +
                         (dense > 0 ? dense * block_parameters(dense_config(c)) : 0);
  return (c.tied ? 1 : 2) * table + positions + blocks + norm_parameters(c);
}

// Those that a token is multiplied with: k of the experts.
constexpr int64_t active_parameters(const TransformerConfig& c) {
  const MixtureConfig& m = c.mixture;
  if (m.experts == 0) return parameters(c);
  return parameters(c) - (c.layers - m.dense_layers) *
                             (mixture_parameters(c, m.experts) - mixture_parameters(c, m.top_k));
}

// ---- FLOPs ----
// Numbers of a token in all heads, the mean of queries and values: C, but for latent attention.
constexpr double head_numbers(const TransformerConfig& c) {
  if (!c.has_latent()) return static_cast<double>(c.width);
  return static_cast<double>(c.heads * (c.head_size() + c.value_size())) / 2;
}
// Model FLOPs of a whole training step, forward and backward, on B sequences of T tokens.
constexpr double step_flops(const TransformerConfig& c, int64_t batch, int64_t sequence) {
  const double tokens = static_cast<double>(batch * sequence);
  const double dense = 6.0 * static_cast<double>(active_parameters(c)) * tokens;
  const double attention =
      12.0 * static_cast<double>(c.layers * sequence) * head_numbers(c) * tokens;
  return dense + attention;
}

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/transformer_config.ipp"
#endif
