// The bodies of nn/transformer_config.hpp.
#pragma once

#include "yotta/nn/transformer_config.hpp"

namespace yotta {

YOTTA_INLINE void TransformerConfig::check(Where where) const {
  if (layers < 0 || width < 1 || heads < 1 || kv_heads < 1 || feed_forward < 1 || vocabulary < 1 ||
      context < 1)
    fail(where,
         "every size of a transformer is at least 1: width {}, heads {}, key/value heads {}, "
         "feed-forward {}, vocabulary {}, context {}, layers {} (0 is allowed)",
         width, heads, kv_heads, feed_forward, vocabulary, context, layers);
  check_heads(where);
  check_numbers(where);
  check_mask(where);
  check_mixture(where);
  if (dtype != DType::f32 && dtype != DType::f64 && dtype != DType::bf16)
    fail(where, "a transformer's parameters are f32, f64 or bf16, not {}", yotta::name(dtype));
}

YOTTA_INLINE void TransformerConfig::check_heads(Where where) const {
  if (latent != LatentConfig{}) return check_latent(where);
  // Each head has the same number of numbers; in Llama an even one, for rope.
  const int64_t step = dialect == Dialect::llama ? 2 * heads : heads;
  const int64_t below = width / step * step, above = below + step;
  const int64_t nearest = below > 0 && width - below <= above - width ? below : above;
  if (width % heads != 0)
    fail(where, "width {} cannot be divided among {} heads; the nearest width that works is {}",
         width, heads, nearest);
  if (width % step != 0)
    fail(where,
         "rope turns pairs of numbers, so the head size {} must be even; the nearest width that "
         "works is {}",
         head_size(), nearest);
  if (heads % kv_heads != 0)
    fail(where, "{} heads cannot share {} key/value heads evenly; heads must be a multiple", heads,
         kv_heads);
  if (dialect == Dialect::gpt2 && kv_heads != heads)
    fail(where, "GPT-2 has a key/value head for each of its {} heads, not {}", heads, kv_heads);
}

YOTTA_INLINE void TransformerConfig::check_latent(Where where) const {
  const LatentConfig& l = latent;
  if (l.kv_rank < 1 || l.q_rank < 1 || l.plain < 1 || l.turned < 1 || l.value < 1)
    fail(where,
         "every size of latent attention is at least 1: latents of {} and {} numbers, heads of {} "
         "and {} turned ones, values of {}",
         l.q_rank, l.kv_rank, l.plain, l.turned, l.value);
  if (l.turned % 2 != 0)
    fail(where, "rope turns pairs of numbers, so a head has an even number of turned ones, not {}",
         l.turned);
  if (l.value > l.head_size())
    fail(where, "a head's value has {} numbers, and its key {}: it has as many at most", l.value,
         l.head_size());
  if (dialect != Dialect::llama || kv_heads != heads || mask.alibi)
    fail(where,
         "latent attention is for the dialect llama, with rope, and a key for each of {} heads; "
         "not for {} with {} key/value heads{}",
         heads, yotta::name(dialect), kv_heads, mask.alibi ? " and ALiBi" : "");
}

YOTTA_INLINE void TransformerConfig::check_numbers(Where where) const {
  const RopeScaling& rope = rope_scaling;
  check_number(where, "the norm's epsilon", norm_epsilon, norm_epsilon_range);
  check_number(where, "the standard deviation of initial weights", deviation, deviation_range);
  check_number(where, "the rope's theta", rope_theta, rope_theta_range);
  check_number(where, "the rope's factor", rope.factor, rope_factor_range);
  check_number(where, "the rope's low_freq_factor", rope.low_freq_factor, rope_limit_range);
  check_number(where, "the rope's high_freq_factor", rope.high_freq_factor, rope_limit_range);
  if (rope_scaling.high_freq_factor <= rope_scaling.low_freq_factor ||
      rope_scaling.original_context < 1)
    fail(where,
         "rope's high_freq_factor {} must be above its low_freq_factor {}, and its original "
         "context {} 1 or more",
         rope_scaling.high_freq_factor, rope_scaling.low_freq_factor,
         rope_scaling.original_context);
  if (!(dropout >= 0 && dropout < 1))
    fail(where, "dropout {} must be at least 0 and below 1", dropout);
  if (!(attention_dropout >= 0 && attention_dropout < 1) ||
      (attention_dropout > 0 && attention != AttentionKind::plain))
    fail(where, "attention dropout {} must be 0, or below 1 with plain attention",
         attention_dropout);
}

YOTTA_INLINE void TransformerConfig::check_mask(Where where) const {
  if (attention != AttentionKind::flex && mask != MaskOptions{})
    fail(where, "a mask other than the causal one needs flex attention, not {}",
         yotta::name(attention));
  if (mask.window < 0 || mask.window > context)
    fail(where, "a window of {} tokens: it has 1 or more, and {} at most, as the context has",
         mask.window, context);
  if (mask.prefix < 0 || mask.prefix > context)
    fail(where,
         "a prefix of {} tokens in a context of {}: it has 1 or more, and the context at most, and "
         "nothing is left to be predicted after a prefix that is longer",
         mask.prefix, context);
  checked(mask, where);
  if (mask.alibi && dialect == Dialect::gpt2)
    fail(where,
         "ALiBi stands in the place of positions, and GPT-2's dialect has learned ones; take the "
         "dialect llama, whose rope it replaces");
  if (mask.alibi && mask.prefix > 0)
    fail(where,
         "ALiBi counts how far back a key is, and a prefix shows keys that are ahead: take one");
  if (mask.prefix > 0 && mixture.experts > 0)
    fail(where,
         "a prefix has no targets, and a mixture's balance counts all tokens: take one of them");
}

YOTTA_INLINE void TransformerConfig::check_mixture(Where where) const {
  const MixtureConfig& m = mixture;
  if (m.experts < 0 || m.shared < 0 || (m.shared > 0 && m.experts == 0))
    fail(where, "{} experts and {} shared ones: shared experts stand beside a mixture of 1 or more",
         m.experts, m.shared);
  if (m.dense_layers < 0 || m.dense_layers > layers || (m.dense_layers > 0 && m.dense_width < 1) ||
      (m.dense_layers > 0 && m.experts == 0))
    fail(where,
         "{} first blocks without experts, {} wide, of {}: they stand in front of a mixture, and "
         "have a width of 1 or more",
         m.dense_layers, m.dense_width, layers);
  if (m.experts == 0) return;
  RouterOptions{.width = width,
                .experts = m.experts,
                .top_k = m.top_k,
                .balance_loss = m.balance_loss,
                .z_loss = m.z_loss,
                .bias_rate = m.bias_rate,
                .groups = m.groups,
                .top_groups = m.top_groups}
      .check("a mixture of experts", where);
  if (!(m.capacity >= 0 && m.capacity <= 1e6))
    fail(where, "the capacity of an expert is {}, expected a number from 0 (drop nothing) to 1e6",
         m.capacity);
  if (m.bias_rate > 0 && dtype == DType::bf16)
    fail(where,
         "a router's bias moves by {} at a time, which bf16 rounds away; train in f32, or with a "
         "balance loss",
         m.bias_rate);
}

}  // namespace yotta
