// Train command: a planned layout as ours is started: ./yotta train, or under srun on the chips.
//
//     sizes of the model       --dialect llama --layers 32 ...      or --load FOLDER
//     the batch                --context 8192 --batch 512 --microbatches 16
//     the layout               --layout tp=8,pp=4,dp=16 --sequence-parallel --schedule zb-v ...
//
// The command names the model by its sizes, or loads it. Up to 64 ranks of a small model are
// threads here, on a clock of the planned cluster; more of them are processes on the chips.
// Contract: a layout of layout_space. Letters: none.
#pragma once

#include <string>

#include "yotta/plan/layout_space.hpp"

namespace yotta {

// What a command names besides the layout.
struct TrainFrom {
  std::string load = {};     // a folder with weights; empty: a new model of the same sizes
  std::string cluster = {};  // as --cluster is told it
};
// Whether `train` can run it on this computer: ranks as threads, and a model that fits.
inline constexpr int most_threads = 64;
inline constexpr int64_t most_parameters_here = int64_t{1} << 28;
constexpr bool runs_here(const PlanRequest& request, const Layout& layout) {
  return layout.shape.ranks() <= most_threads && parameters(request.config) <= most_parameters_here;
}

// ./yotta train ...; where the chips are needed, under srun with NCCL.
YOTTA_API std::string train_command(const PlanRequest& request, const Layout& layout,
                                    const TrainFrom& from);

// A word as a shell takes it: in quotes, where it has blanks and the like.
YOTTA_API std::string shell_word(const std::string& word);

// Words with spaces between them.
class OptionWords {
 public:
  explicit OptionWords(std::string first) : text_(std::move(first)) {}
  template <class... Values>
  void add(bool given, fmt::format_string<Values...> words, Values&&... values) {
    if (given) text_ += " " + fmt::format(words, std::forward<Values>(values)...);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace yotta {

std::string shell_word(const std::string& word) {
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
  if (m.experts == 0) return;
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
  to.add(layout.zero > 0, "--zero 1");
  to.add(layout.recomputed != 0, "--recompute all");
  to.add(layout.recomputed > 0, "--recompute-blocks {}", layout.recomputed);
  to.add(true, "--bucket-bytes {}", bucket_bytes_of(layout));
}

}  // namespace detail

std::string train_command(const PlanRequest& request, const Layout& layout, const TrainFrom& from) {
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
  words.add(here && !from.cluster.empty(), "--cluster {}", shell_word(from.cluster));
  words.add(!here, "--comm nccl");
  return words.text();
}

}  // namespace yotta
#endif  // YOTTA_BODIES
