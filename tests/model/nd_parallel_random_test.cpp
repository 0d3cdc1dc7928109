// Random layouts up to 8 ranks of random models, with any mixture of the techniques, train as a
// single rank does (layout_check.hpp).
#include "yotta/model/nd_parallel.hpp"

#include <doctest/doctest.h>

#include "model/layout_check.hpp"
#include "support/not_run.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// A model, a layout and a batch, drawn from a seed. What a layout cannot have (layout_works) is
// drawn again. A new axis is in all_axes; a new technique is one more line of draw_options() or
// draw_model(), and a row of the test of what is drawn.
struct Drawn {
  TransformerConfig config;
  MeshShape shape;
  NdOptions options;
  int64_t batch;
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed, "layout") {}
  int below(uint32_t n) { return static_cast<int>(random_.below(drawn_++, n)); }
  bool one_in(uint32_t n) { return below(n) == 0; }

 private:
  Random random_;
  uint64_t drawn_ = 0;
};

// 2 to 8 ranks: each prime factor of their number goes to some axis.
MeshShape draw_shape(Draw& draw, bool is_mixture) {
  MeshShape shape;
  int left = draw.one_in(2) ? 8 : 2 + draw.below(6);
  for (int factor = 2; left > 1; ++factor)
    for (; left % factor == 0; left /= factor) {
      const Axis axis = all_axes[static_cast<size_t>(draw.below(all_axes.size()))];
      shape[axis == Axis::ep && !is_mixture ? Axis::dp_shard : axis] *= factor;
    }
  return shape;
}

void draw_schedule(Draw& draw, int pp, NdOptions& options) {
  options.schedule = static_cast<PipelineKind>(draw.below(11));
  if (options.pipeline().interleaves()) options.chunks = 1 + draw.below(2);
  if (options.pipeline().counts_microbatches()) options.microbatches = 2 * (pp + draw.below(2));
  if (options.schedule == PipelineKind::automatic) options.hold = 1 + draw.below(4);
}

NdOptions draw_options(Draw& draw, const MeshShape& shape) {
  NdOptions options{.microbatches = 1 + draw.below(4)};
  draw_schedule(draw, shape.pp, options);
  if (draw.one_in(2)) options.context = ContextParallel::ulysses;
  options.checkpoint = {.what = static_cast<Recompute>(draw.below(4)),
                        .every = draw.below(3),
                        .snapshots = 1 + draw.below(2)};
  options.fsdp = {.layers_per_unit = 1 + draw.below(3), .prefetch = !draw.one_in(3)};
  options.fsdp.reshard_after_forward = !draw.one_in(3), options.fsdp.keep_last = draw.one_in(2);
  options.ddp.bucket_bytes = options.zero.bucket_bytes = 1 << (8 + draw.below(8));
  options.ddp.overlap = !draw.one_in(4);
  options.naive_gradients = draw.one_in(5);
  if (shape.dp_shard == 1 && !options.naive_gradients) options.zero.stage = draw.below(3);
  options.sequence_parallel = draw.one_in(2), options.keep_gathered = draw.one_in(2);
  if (options.sequence_parallel) options.pieces = static_cast<Pieces>(draw.below(3));
  return options;
}

// In place of each MLP. Losses and a capacity that look at the whole batch are for a single
// microbatch.
MixtureConfig draw_mixture(Draw& draw, const MeshShape& shape, NdOptions& options) {
  MixtureConfig mixture;
  mixture.experts = shape.dp_shard > 1 ? shape.ep * (1 + draw.below(3)) : shape.ep + draw.below(6);
  mixture.top_k = 1 + draw.below(static_cast<uint32_t>(mixture.experts));
  mixture.shared = draw.below(2);
  mixture.score = draw.one_in(2) ? RouterScore::softmax : RouterScore::sigmoid;
  mixture.bias_rate = draw.below(2) * 0.01;
  if (options.pipeline().counts_microbatches() || draw.one_in(2)) return mixture;
  options.microbatches = 1;
  mixture.balance_loss = 0.1, mixture.z_loss = 0.01;
  if (shape.cp == 1 && draw.one_in(2)) mixture.capacity = 0.5 + 0.25 * draw.below(4);
  return mixture;
}

// A model whose heads and widths tp divides.
TransformerConfig draw_model(Draw& draw, uint64_t seed, const MeshShape& shape,
                             const NdOptions& options) {
  const bool llama = draw.one_in(2);
  const int groups = 1 + draw.below(2), kv_heads = shape.tp * (1 + draw.below(2));
  TransformerConfig config =
      config_of(llama ? Dialect::llama : Dialect::gpt2, draw.one_in(2),
                std::max(options.pipeline().stages(shape.pp), 1 + draw.below(4)), seed);
  config.kv_heads = kv_heads, config.heads = kv_heads * (llama ? groups : 1);
  config.width = config.heads * 2 * (1 + draw.below(2));
  config.feed_forward = shape.tp * (1 + draw.below(9));
  config.vocabulary = shape.tp * 2 + 1 + draw.below(20);  // tp may not divide it: padded
  config.context = 2 * shape.cp * (1 + draw.below(3));
  if (options.checkpoint.what == Recompute::attention || (shape.cp == 1 && draw.one_in(2)))
    config.attention = AttentionKind::plain, config.attention_dropout = 0.2;
  return config;
}

Drawn draw_layout(uint64_t seed) {
  Draw draw(seed);
  for (;;) {
    const bool is_mixture = draw.one_in(3);
    const MeshShape shape = draw_shape(draw, is_mixture);
    NdOptions options = draw_options(draw, shape);
    TransformerConfig config = draw_model(draw, seed, shape, options);
    if (is_mixture) config.mixture = draw_mixture(draw, shape, options);
    const int64_t batch = shape.data_ranks() * options.microbatches + draw.below(4);
    if (layout_works(config, shape, batch, options)) return {config, shape, options, batch};
  }
}

constexpr uint64_t drawn_layouts = 200;  // five times as many in the suite's long form

}  // namespace

TEST_CASE("what is drawn: every technique, with each of the others") {
  using Technique = std::function<bool(const Drawn&)>;
  std::vector<std::pair<std::string, Technique>> all;
  for (const Axis axis : all_axes)
    all.push_back({name(axis), [=](const Drawn& d) { return d.shape[axis] > 1; }});
  const auto is_hsdp = [](const Drawn& d) {
    return d.shape.dp_shard > 1 && d.shape.dp_replicate > 1;
  };
  all.push_back({"HSDP", is_hsdp});
  all.push_back({"sequence parallelism",
                 [](const Drawn& d) { return d.shape.tp > 1 && d.options.shares_tokens(); }});
  all.push_back(
      {"a mixture of experts", [](const Drawn& d) { return d.config.mixture.experts > 0; }});
  std::map<std::string, int> others, pairs;
  for (uint64_t seed = 1; seed <= drawn_layouts; ++seed) {
    const Drawn drawn = draw_layout(seed);
    const auto& [config, shape, options, batch] = drawn;
    CHECK(shape.ranks() <= 8);
    for (size_t a = 0; a < all.size(); ++a)
      for (size_t b = 0; b < a; ++b)
        pairs[all[a].first + " with " + all[b].first] +=
            all[a].second(drawn) && all[b].second(drawn);
    if (shape.pp > 1) ++others[name(options.schedule)];
    if (options.zero.stage > 0 && shape.dp_replicate > 1)
      ++others[fmt::format("ZeRO-{}", options.zero.stage)];
    if (shape.tp > 1) ++others[fmt::format("pieces {}", static_cast<int>(options.pieces))];
    ++others[fmt::format("recomputing {}", static_cast<int>(options.checkpoint.what))];
  }
  for (const auto& [words, count] : pairs) CHECK_MESSAGE(count > 0, words);
  CHECK(others.size() == 11 + 2 + 3 + 4);
  for (const auto& [words, count] : others) CHECK_MESSAGE(count > 1, words);
}

// Under AddressSanitizer one takes ten times as long, so that a part of them must do.
TEST_CASE("random layouts up to 8 ranks, random models, sizes, seeds and options") {
  const uint64_t layouts = (long_form() ? 5 : 1) * drawn_layouts / (YOTTA_ASAN ? 4 : 1);
  for (uint64_t seed = 1; seed <= layouts; ++seed) {
    const Drawn drawn = draw_layout(seed);
    check_layout(drawn.config, drawn.shape, drawn.options, serial(drawn.config, drawn.batch),
                 drawn.batch);
  }
}
