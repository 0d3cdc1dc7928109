// Every layout of the mesh trains the model of a single rank: losses, gradient norms, and all weights after three
// steps of AdamW with clipping, in double. Each pair of techniques, then random layouts up to 8 ranks.
#include "yotta/model/nd_parallel.hpp"

#include <doctest/doctest.h>

#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"
#include "yotta/nn/adamw.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t T = 8, V = 24, steps = 3;

TransformerConfig config_of(Dialect dialect, bool tied, int64_t layers = 4, uint64_t seed = 5) {
  TransformerConfig c = dialect == Dialect::gpt2 ? gpt2_config(layers, 16, 8, T, V)
                                                 : llama_config(layers, 32, 24, 8, 8, T, V);
  c.tied = tied;
  c.deviation = 0.2;
  c.dropout = 0.1;
  c.dtype = DType::f64;
  c.seed = seed;
  return c;
}

struct Text {
  Tensor inputs, targets;  // (B, T) each
};
Text text_of(int64_t step, const TransformerConfig& config, int64_t B) {
  Text text{Tensor::empty({B, config.context}, DType::i32),
            Tensor::empty({B, config.context}, DType::i32)};
  const Random random(config.seed + static_cast<uint64_t>(step), "text");
  const auto all = static_cast<uint32_t>(config.vocabulary);
  for (int64_t i = 0; i < text.inputs.numel(); ++i) {
    const auto at = static_cast<uint64_t>(2 * i);
    text.inputs.data<int32_t>()[i] = static_cast<int32_t>(random.below(at, all));
    text.targets.data<int32_t>()[i] = static_cast<int32_t>(random.below(at + 1, all));
  }
  return text;
}

// GPT-2's key biases have zero gradients but for rounding, which Adam would turn into whole steps.
ParameterPtrs trained(Layers layers) {
  ParameterPtrs all;
  for (const ParameterPtr& each : parameters(layers))
    if (!each->name.ends_with("attention.k.bias")) all.push_back(each);
  return all;
}

const TrainOptions options_of(const TransformerConfig& config) {
  return {.schedule = {0.01, 0.01, 0, steps},
          .clip = 0.5,
          .seed = config.seed + 100};  // of dropout alone
}

struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, Tensor> weights;
};

void take(Outcome& outcome, const StepReport& report) {
  outcome.losses.push_back(report.loss);
  outcome.norms.push_back(report.gradient_norm);
}

Outcome serial(const TransformerConfig& config, int64_t B = 8) {
  const Transformer model(config);
  AdamW optimizer(trained(model.stack()), {.weight_decay = 0.1});
  Trainer trainer(model.stack(), optimizer, options_of(config));
  Outcome outcome;
  for (int64_t step = 0; step < steps; ++step) {
    const Text text = text_of(step, config, B);
    take(outcome,
         trainer.step(step, microbatches(text.inputs, text.targets, 1), text.inputs.numel()));
  }
  for (const ParameterPtr& each : parameters(model.stack()))
    outcome.weights[each->name] = each->value;
  return outcome;
}

void check_layout(const TransformerConfig& config, const MeshShape& shape, const NdOptions& options,
                  const Outcome& whole, int64_t B = 8) {
  const std::string layout = fmt::format(
      "seed {}: {} {}, {} layers, width {}, {} heads, {} sequences of {}, {}, {} microbatches, {} "
      "chunks, recompute {}",
      config.seed, name(config.dialect), config.tied ? "tied" : "untied", config.layers,
      config.width, config.heads, B, config.context, describe(shape), options.microbatches,
      options.chunks, static_cast<int>(options.checkpoint.what));
  CAPTURE(layout);
  RunOptions run;
  run.threads = 1;
  run_ranks(
      static_cast<int>(shape.ranks()),
      [&](Communicator& world) {
        Mesh mesh(world, shape);
        NdParallel model(config, mesh, options);
        AdamW optimizer(trained(model.stack()), {.weight_decay = 0.1});
        Trainer trainer(model.stack(), optimizer, options_of(config), model.hooks());
        Outcome outcome;
        for (int64_t step = 0; step < steps; ++step) {
          const Text text = text_of(step, config, B);
          const Share share = model.share(B);
          take(outcome, trainer.step(step,
                                     model.microbatches(text.inputs.rows(share.begin, share.end),
                                                        text.targets.rows(share.begin, share.end),
                                                        share.begin),
                                     text.inputs.numel()));
        }
        for (size_t step = 0; step < steps; ++step) {
          CHECK(std::abs(outcome.losses[step] - whole.losses[step]) <= 1e-11);
          CHECK(std::abs(outcome.norms[step] - whole.norms[step]) <= 1e-10);
        }
        for (const NamedTensor& each : model.gather_weights())  // on rank 0
          check_equal(each.value, whole.weights.at(each.name), layout + ": " + each.name, 1e-9);
      },
      run);
}

}  // namespace

TEST_CASE("each technique alone, and each pair of them, is the single rank") {
  const TransformerConfig tied = config_of(Dialect::gpt2, true);
  const TransformerConfig untied = config_of(Dialect::llama, false);
  const Outcome whole_tied = serial(tied), whole_untied = serial(untied);
  for (size_t a = 0; a < all_axes.size(); ++a)
    for (size_t b = a; b < all_axes.size(); ++b) {
      MeshShape shape;
      shape[all_axes[a]] = 2, shape[all_axes[b]] = 2;
      const NdOptions options{.microbatches = 2};
      check_layout(untied, shape, options, whole_untied);
      if (shape.pp == 1 || shape.dp_shard == 1) check_layout(tied, shape, options, whole_tied);
    }
}

TEST_CASE(
    "three ranks on an axis: shares of the batch and parts of the model that differ in size") {
  const TransformerConfig config = config_of(Dialect::llama, false);
  const Outcome whole = serial(config);
  for (const MeshShape& shape : {MeshShape{.dp_replicate = 3}, MeshShape{.dp_shard = 3},
                                 MeshShape{.pp = 3}, MeshShape{.cp = 2, .dp_shard = 3}})
    check_layout(config, shape, {.microbatches = 1}, whole);
}

TEST_CASE("activation checkpointing and interleaved pipelines with every axis") {
  const TransformerConfig config = config_of(Dialect::llama, false);
  const Outcome whole = serial(config);
  TransformerConfig plain = config;
  plain.attention = AttentionKind::plain;
  plain.attention_dropout = 0.2;
  const Outcome whole_plain = serial(plain);
  for (const Recompute what : {Recompute::all, Recompute::attention, Recompute::revolve})
    for (const Axis axis : all_axes) {
      const bool selective = what == Recompute::attention;
      if (selective && axis == Axis::cp) continue;  // the ring is blockwise: nothing to drop
      NdOptions options{.microbatches = 2, .checkpoint = {.what = what}};
      MeshShape shape;
      shape[axis] = 2;
      if (axis == Axis::pp) options.schedule = PipelineKind::interleaved, options.chunks = 2;
      check_layout(selective ? plain : config, shape, options, selective ? whole_plain : whole);
    }
}

TEST_CASE("random layouts up to 8 ranks, random models, sizes, seeds and options") {
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}) {
    const Random random(seed, "layout");
    uint64_t draw = 0;
    const auto below = [&](uint32_t n) { return static_cast<int>(random.below(draw++, n)); };
    MeshShape shape;
    int left = 2 + below(7);  // ranks: each of its prime factors goes to some axis
    for (int factor = 2; left > 1; ++factor)
      for (; left % factor == 0; left /= factor)
        shape[all_axes[static_cast<size_t>(below(5))]] *= factor;
    NdOptions options{.microbatches = 1 + below(3)};
    options.schedule = static_cast<PipelineKind>(below(4));
    if (options.schedule == PipelineKind::interleaved) options.chunks = 1 + below(2);
    const int stages = shape.pp * options.chunks;
    const bool split = stages > 1 && shape.dp_shard > 1;  // a tied table cannot be both
    const bool llama = below(2) == 1, tied = below(2) == 0 && !split;
    const int groups = 1 + below(2), kv_heads = shape.tp * (1 + below(2));
    const int heads = kv_heads * (llama ? groups : 1), head_size = 2 * (1 + below(2));
    TransformerConfig config = config_of(llama ? Dialect::llama : Dialect::gpt2, tied,
                                         std::max(stages, 1 + below(4)), seed);
    config.heads = heads, config.kv_heads = kv_heads, config.width = heads * head_size;
    config.feed_forward = shape.tp * (1 + below(9));
    config.vocabulary = shape.tp * (3 + below(9));
    config.context = 2 * shape.cp * (1 + below(3));
    if (below(2) == 0) options.checkpoint = {.what = Recompute::all, .every = 1 + below(2)};
    options.fsdp = {.layers_a_unit = 1 + below(3), .prefetch = below(3) > 0};
    options.fsdp.reshard_after_forward = below(3) > 0, options.fsdp.keep_last = below(2) == 0;
    options.ddp.bucket_bytes = 1 << (8 + below(8));
    options.naive_gradients = below(4) == 0;
    const int64_t batch = shape.dp_shard * shape.dp_replicate * options.microbatches + below(4);
    check_layout(config, shape, options, serial(config, batch), batch);
  }
}

TEST_CASE("with FSDP no rank ever holds its stage whole, not even while it is made") {
  const TransformerConfig config = config_of(Dialect::llama, false);
  const int64_t P = parameters(config) * 8;  // bytes
  for (const MeshShape& shape : {MeshShape{.dp_shard = 4}, MeshShape{.tp = 2, .dp_shard = 2}})
    run_ranks(4, [&](Communicator& world) {
      Mesh mesh(world, shape);
      const NdParallel model(config, mesh);
      const MemoryCount& memory = *context().ledger.memory();
      const int64_t norms = 8 * (2 * config.layers + 1) * config.width;  // whole on each rank of tp
      CHECK(memory.peak() == memory.live(MemoryKind::parameters));
      CHECK(memory.peak() >= P / 4);
      CHECK(memory.peak() <= P / 4 + norms);
    });
}
