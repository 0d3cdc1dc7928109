// The bodies of plan/train_command.hpp.
#pragma once

#include "yotta/plan/train_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace yotta {

YOTTA_INLINE std::string shell_word(const std::string& word) {
  constexpr const char* plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:@%+";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

namespace detail {

inline const char* train_schedule(PipelineKind kind) {
  if (kind == PipelineKind::zb_h1) return "zb-h1";
  return kind == PipelineKind::zb_v ? "zb-v" : "1f1b";
}
inline std::string train_mesh(const MeshShape& shape) {
  std::vector<std::string> axes;
  for (const Axis axis : all_axes)
    if (shape[axis] > 1) axes.push_back(fmt::format("{}={}", short_name(axis), shape[axis]));
  return axes.empty() ? "dp=1" : fmt::format("{}", fmt::join(axes, ","));
}

inline void add_sizes(OptionWords& to, const TransformerConfig& c) {
  const bool llama = c.dialect == Dialect::llama;
  const MixtureConfig& m = c.mixture;
  to.add(true, "--dialect {} --layers {} --width {} --heads {}", name(c.dialect), c.layers, c.width,
         c.heads);
  to.add(llama, "--kv-heads {}", c.kv_heads);
  to.add(true, "--feed-forward {}", c.feed_forward);
  to.add(!llama && !c.tied, "--untied");
  to.add(llama && c.tied, "--tied");
  const LatentConfig& l = c.latent;
  to.add(c.has_latent(), "--latent {},{},{},{},{}", l.q_rank, l.kv_rank, l.plain, l.turned,
         l.value);
  if (m.experts == 0) return;
  to.add(m.groups > 1, "--expert-groups {} --top-groups {}", m.groups, m.top_groups);
  to.add(m.dense_layers > 0, "--dense-layers {} --dense-width {}", m.dense_layers, m.dense_width);
  to.add(true, "--experts {} --top-k {}", m.experts, m.top_k);
  to.add(m.shared > 0, "--shared-experts {}", m.shared);
  to.add(m.score == RouterScore::sigmoid, "--router sigmoid");
}
inline void add_mixture_rules(OptionWords& to, const MixtureConfig& m) {
  to.add(m.capacity > 0, "--capacity {}", m.capacity);
  to.add(m.balance_loss > 0, "--balance-loss {}", m.balance_loss);
  to.add(m.z_loss > 0, "--z-loss {}", m.z_loss);
  to.add(m.bias_rate > 0, "--bias-rate {}", m.bias_rate);
}
inline void add_techniques(OptionWords& to, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  const bool in_pieces = layout.pieces != Pieces::none;
  to.add(shape.tp > 1 && layout.sequence_parallel && !in_pieces, "--sequence-parallel");
  to.add(shape.tp > 1 && in_pieces, "--async-tp");
  to.add(shape.cp > 1 && layout.context == ContextParallel::ulysses, "--context-parallel ulysses");
  to.add(shape.pp > 1, "--schedule {}", train_schedule(layout.schedule));
  to.add(layout.chunks > 1, "--chunks {}", layout.chunks);
  to.add(layout.zero > 0, "--zero {}", layout.zero);
  to.add(layout.keeps_units && shape.dp_shard > 1, "--no-reshard");
  to.add(layout.recomputed != 0, "--recompute all");
  to.add(layout.recomputed > 0, "--recompute-blocks {}", layout.recomputed);
  to.add(true, "--bucket-bytes {}", bucket_bytes_of(layout));
}

}  // namespace detail

YOTTA_INLINE std::string train_command(const PlanRequest& request, const Layout& layout,
                                       const TrainFrom& from) {
  const bool here = runs_here(request, layout);
  OptionWords words(here ? "./yotta train"
                         : fmt::format("srun -n {} ./yotta train", layout.shape.ranks()));
  words.add(!from.load.empty(), "--load {}", shell_word(from.load));
  if (from.load.empty()) detail::add_sizes(words, request.config);
  detail::add_mixture_rules(words, request.config.mixture);
  words.add(true, "--dtype {} --context {} --batch {} --microbatches {} --layout {}",
            name(request.config.dtype), request.sequence, request.batch(), layout.microbatches,
            detail::train_mesh(layout.shape));
  detail::add_techniques(words, layout);
  words.add(chunks_loss(request, layout), "--loss-tokens {}", request.loss_tokens);
  words.add(here && !from.cluster.empty(), "--cluster {}", shell_word(from.cluster));
  words.add(!here, "--comm nccl");
  words.add(layout.pp_outermost,
            " # its mesh has pp inside ep: experts are farther apart than planned");
  return words.text();
}

}  // namespace yotta
