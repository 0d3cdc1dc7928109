// The bodies of model/transformer.hpp.
#pragma once

#include "yotta/model/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "yotta/model/block.hpp"
#include "yotta/model/embedding_layer.hpp"
#include "yotta/model/head.hpp"

namespace yotta {

// What a configuration says to each kind of layer.
inline EmbeddingOptions embedding_options(const TransformerConfig& c) {
  const bool learned = c.dialect == Dialect::gpt2;
  return {c.vocabulary, c.width, learned ? c.context : 0, c.dropout, normal(c.deviation)};
}

inline NormOptions norm_options(const TransformerConfig& c) {
  const bool gpt2 = c.dialect == Dialect::gpt2;
  return {gpt2 ? NormKind::layernorm : NormKind::rmsnorm, c.width, c.norm_epsilon};
}

inline std::optional<MoeOptions> mixture_options(const TransformerConfig& c,
                                                 const MlpOptions& mlp) {
  const MixtureConfig& m = c.mixture;
  if (m.experts == 0) return {};
  MoeOptions options;
  options.router = {.width = c.width,
                    .experts = m.experts,
                    .top_k = m.top_k,
                    .score = m.score,
                    .renormalise = m.top_k > 1,
                    .balance_loss = m.balance_loss,
                    .z_loss = m.z_loss,
                    .bias_rate = m.bias_rate,
                    .initial = mlp.initial};
  options.experts = {.gated = mlp.kind == MlpKind::swiglu,
                     .hidden = mlp.hidden,
                     .initial = mlp.initial,
                     .initial_down = mlp.initial_down};
  options.shared_hidden = m.shared * mlp.hidden;
  options.capacity = m.capacity;
  options.dropout = mlp.dropout;
  return options;
}

inline BlockOptions block_options(const TransformerConfig& c) {
  const bool llama = c.dialect == Dialect::llama;
  const Initial initial = normal(c.deviation);
  const double terms = 2 * static_cast<double>(c.layers);
  const Initial residual = normal(c.deviation / std::sqrt(terms));
  const AttentionOptions attention{.width = c.width,
                                   .heads = c.heads,
                                   .kv_heads = c.kv_heads,
                                   .head_size = c.head_size(),
                                   .kind = c.attention,
                                   .bias = c.has_bias(),
                                   .rope_theta = llama ? c.rope_theta : 0,
                                   .rope_scaling = c.rope_scaling,
                                   .dropout = c.dropout,
                                   .probability_dropout = c.attention_dropout,
                                   .initial = initial,
                                   .initial_o = residual};
  const MlpOptions mlp{.kind = llama ? MlpKind::swiglu : MlpKind::gelu,
                       .width = c.width,
                       .hidden = c.feed_forward,
                       .bias = c.has_bias(),
                       .dropout = c.dropout,
                       .initial = initial,
                       .initial_down = residual};
  return {norm_options(c), attention, mlp, mixture_options(c, mlp)};
}

YOTTA_INLINE void expect_divides(const TransformerConfig& c, int tp, Where where,
                                 const std::function<bool(int)>& works) {
  const std::pair<const char*, int64_t> widths[] = {
      {"heads", c.heads},
      {"key/value heads", c.kv_heads},
      {"numbers of the feed-forward width", c.feed_forward}};
  const auto divides = [&](int ranks) {
    return std::all_of(std::begin(widths), std::end(widths),
                       [&](const auto& width) { return width.second % ranks == 0; }) &&
           ranks <= c.vocabulary;
  };
  if (divides(tp)) return;
  // Down and up by turns; tp 1 always divides.
  const auto nearest = [&](const std::function<bool(int)>& fits) {
    for (int step = 1; step < tp; ++step)
      for (const int ranks : {tp - step, tp + step})
        if (fits(ranks)) return ranks;
    return 0;
  };
  const int all = nearest([&](int ranks) { return divides(ranks) && (!works || works(ranks)); });
  for (const auto& [what, size] : widths)
    if (size % tp != 0)
      fail(where,
           "tensor parallelism over {} ranks gives each a tp-th of every width, but {} {} are not "
           "divisible by {}. The nearest that {}: tp {}",
           tp, size, what, tp, all > 0 ? "works for this model" : "divides them all",
           all > 0 ? all : nearest(divides));
  fail(where, "{} tokens of the vocabulary leave some of {} ranks without any; take tp {}",
       c.vocabulary, tp, all > 0 ? all : nearest(divides));
}

YOTTA_INLINE Transformer::Transformer(const TransformerConfig& config, int64_t first, int64_t last,
                                      const LayerAxes& axes, Where where)
    : config_(config), axes_(axes) {
  config.check(where);
  expect_divides(config, axis_size(axes.tp), where);
  if (first < 0 || last < first || last > entries(config))
    fail(where, "entries {} to {} of a stack of {}", first, last, entries(config));
  for (int64_t i = first; i < last; ++i) layers_.push_back(make(i));
  for (const ParameterPtr& each : parameters(stack()))
    if (each->range.is_whole()) each->copies = axis_size(axes.tp);
}

YOTTA_INLINE LayerPtr Transformer::make(int64_t entry) {
  const ParameterOptions made{config_.seed, config_.dtype};
  if (entry == 0) {
    auto embedding =
        std::make_unique<TokenEmbedding>("embedding", embedding_options(config_), made, axes_);
    table_ = embedding->table();
    return embedding;
  }
  if (entry <= config_.layers)
    return std::make_unique<Block>("layers." + std::to_string(entry - 1), block_options(config_),
                                   made, axes_);
  return make_head(made);
}

YOTTA_INLINE LayerPtr Transformer::make_head(const ParameterOptions& made) {
  const Initial initial = normal(config_.deviation);
  const NormOptions norm = norm_options(config_);
  if (!config_.tied)
    return std::make_unique<Head>(norm, config_.vocabulary, initial, made, axes_.tp,
                                  axes_.sequence);
  if (table_ == nullptr)
    table_ = make_table(tied_table, config_.vocabulary, config_.width, initial, made, axes_.tp);
  return std::make_unique<Head>(norm, table_, made, axes_.tp, axes_.sequence);
}

}  // namespace yotta
