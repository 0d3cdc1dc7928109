// Every layout of the mesh trains the model of a single rank: losses, gradient norms, and all weights after three
// steps of AdamW with clipping, in double. Each pair of techniques, then random layouts up to 8 ranks.
#include "yotta/model/nd_parallel.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/model/transformer.hpp"
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
ParameterPtrs trained(ParameterPtrs all) {
  std::erase_if(all, [](const auto& each) { return each->name.ends_with("attention.k.bias"); });
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
  AdamW optimizer(trained(parameters(model.stack())), {.weight_decay = 0.1});
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

// Has one step refused twice: for a weight that is not a number, and for a loss that is none.
void refuse_steps(NdParallel& model, double& added_to_loss, const std::function<void()>& step) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor broken = parameters(model.stack()).back()->value;
  double& number = broken.data<double>()[0];
  const double before = std::exchange(number, nan);
  CHECK(contains(message_of(step), "was not finite before this step"));
  number = before;
  added_to_loss = nan;
  CHECK(contains(message_of(step), "every layer is finite on its own"));
  added_to_loss = 0;
}

void check_layout(const TransformerConfig& config, const MeshShape& shape, const NdOptions& options,
                  const Outcome& whole, int64_t B = 8, bool with_refused_steps = false) {
  const std::string layout = fmt::format(
      "seed {}: {} {}, {} layers, width {}, {} heads, {} sequences of {}, {}, {} microbatches, {} "
      "chunks, recompute {}, ZeRO-{}, {}, context {}, sequence parallel {}, gathered "
      "kept {}",
      config.seed, name(config.dialect), config.tied ? "tied" : "untied", config.layers,
      config.width, config.heads, B, config.context, describe(shape), options.microbatches,
      options.chunks, static_cast<int>(options.checkpoint.what), options.zero.stage,
      name(options.schedule), static_cast<int>(options.context), options.sequence_parallel,
      options.keep_gathered);
  CAPTURE(layout);
  RunOptions run;
  run.threads = 1;
  run_ranks(
      static_cast<int>(shape.ranks()),
      [&](Communicator& world) {
        Mesh mesh(world, shape);
        NdParallel model(config, mesh, options);
        AdamW optimizer(trained(model.parameters()), {.weight_decay = 0.1});
        TrainHooks hooks = model.hooks();
        double added_to_loss = 0;
        const auto sum = hooks.sum_over_ranks;
        hooks.sum_over_ranks = [&](double loss) { return sum(loss) + added_to_loss; };
        Trainer trainer(model.stack(), optimizer, options_of(config), hooks);
        Outcome outcome;
        for (int64_t step = 0; step < steps; ++step) {
          const Text text = text_of(step, config, B);
          const BatchShard share = model.share(B);
          const std::vector<Microbatch> batches =
              model.microbatches(text.inputs.rows(share.begin, share.end),
                                 text.targets.rows(share.begin, share.end), share.begin);
          const auto take_step = [&] { return trainer.step(step, batches, text.inputs.numel()); };
          if (with_refused_steps) refuse_steps(model, added_to_loss, take_step);
          take(outcome, take_step());
        }
        for (size_t step = 0; step < steps; ++step) {
          CHECK(std::abs(outcome.losses[step] - whole.losses[step]) <= 1e-11);
          CHECK(std::abs(outcome.norms[step] - whole.norms[step]) <= 1e-10);
        }
        for (const NamedTensor& each : model.gather_weights())  // on rank 0
          check_equal(each.value, whole.weights.at(each.name), layout + ": " + each.name,
                      options.sequence_parallel ? 1e-10 : 1e-9);
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
      check_layout(tied, shape, options, whole_tied);
    }
}

TEST_CASE("ZeRO-1 and ZeRO-2 alone, and with each axis that they can have") {
  const TransformerConfig tied = config_of(Dialect::gpt2, true);
  const TransformerConfig untied = config_of(Dialect::llama, false);
  const Outcome whole_tied = serial(tied), whole_untied = serial(untied);
  for (const int stage : {1, 2}) {
    NdOptions options{.microbatches = 2, .zero = {.stage = stage, .bucket_bytes = 4000}};
    for (const MeshShape& shape :
         {MeshShape{}, MeshShape{.dp_replicate = 4}, MeshShape{.cp = 2},
          MeshShape{.tp = 2, .dp_replicate = 2}, MeshShape{.cp = 2, .pp = 2, .dp_replicate = 2}})
      if (stage == 1)
        check_layout(tied, shape, options, whole_tied);
      else
        check_layout(untied, shape, options, whole_untied);
    options.microbatches = 1;
    check_layout(tied, {.dp_replicate = 3}, options, whole_tied);  // shares of 3, 3 and 2
    check_layout(untied, {.dp_replicate = 8}, options, whole_untied);
  }
}

TEST_CASE("a tied table on two pipeline stages is cut alike on both, by FSDP and by ZeRO") {
  for (const Dialect dialect :
       {Dialect::gpt2, Dialect::llama}) {  // llama: nothing beside the table
    TransformerConfig config = config_of(dialect, true);
    config.tied = true, config.vocabulary = 23;  // which two ranks cannot share evenly
    const Outcome whole = serial(config);
    const auto check = [&](const MeshShape& shape, NdOptions options) {
      options.microbatches = 2, options.fsdp.prefetch = shape.pp == 2;
      check_layout(config, shape, options, whole);
    };
    const auto interleaved = PipelineKind::interleaved;
    check({.pp = 2, .dp_shard = 2, .dp_replicate = 2}, {});
    check({.pp = 1, .dp_shard = 3}, {.schedule = interleaved, .chunks = 2});  // both on each rank
    check({.pp = 2, .dp_shard = 4}, {.schedule = interleaved, .chunks = 2});
    check({.pp = 3, .dp_replicate = 2}, {.zero = {.stage = 1}});
    check({.pp = 2, .dp_replicate = 3},
          {.schedule = interleaved, .chunks = 2, .zero = {.stage = 2}});
  }
}

TEST_CASE("HSDP, FSDP inside and DDP around it, takes the algorithms that its options name") {
  const TransformerConfig config = config_of(Dialect::gpt2, true);
  const Outcome whole = serial(config);
  for (const Algorithm algorithm : {Algorithm::multi_rail, Algorithm::hierarchical}) {
    NdOptions options{.microbatches = 2};
    options.fsdp.comm = options.ddp.comm = {algorithm, nullptr, 2};
    check_layout(config, {.dp_shard = 4, .dp_replicate = 2}, options, whole);
  }
}

TEST_CASE("HSDP's shards leave for the other groups while the last microbatch goes backward") {
  const TransformerConfig config = config_of(Dialect::llama, false);
  NdOptions options{.microbatches = 2};
  options.ddp.bucket_bytes = 1;  // a parameter a bucket
  const Timed run = run_on(ideal(4, 1, 1), 4, [&](Communicator& world) {
    Mesh mesh(world, {.dp_shard = 2, .dp_replicate = 2});
    NdParallel model(config, mesh, options);
    AdamW optimizer(trained(model.parameters()));
    Trainer trainer(model.stack(), optimizer, options_of(config), model.hooks());
    const Text text = text_of(0, config, 8);
    const BatchShard share = model.share(8);
    const Tensor inputs = text.inputs.rows(share.begin, share.end);
    const Tensor targets = text.targets.rows(share.begin, share.end);
    trainer.step(0, model.microbatches(inputs, targets, share.begin), text.inputs.numel());
  });
  for (const std::vector<TraceEvent>& events : run.trace.ranks) {
    std::vector<double> backward;  // when a wgrad ends
    for (const TraceEvent& event : events)
      if (event.name == "linear_backward_weight") backward.push_back(event.end);
    REQUIRE(backward.size() % 2 == 0);
    int before = 0, after = 0;
    for (const TraceEvent& event : events)
      if (event.kind == EventKind::send && event.name == "ddp.gradients") {
        CHECK(event.begin > backward[backward.size() / 2]);  // none in the first microbatch
        (event.begin < backward.back() ? before : after)++;
      }
    CHECK(before > 8);  // of 22
    CHECK(after > 0);
  }
}

TEST_CASE("zero-bubble pipelines, with every axis, recomputing and ZeRO") {
  const TransformerConfig config = config_of(Dialect::gpt2, true);
  const Outcome whole = serial(config);
  for (const PipelineKind kind : {PipelineKind::zb_h1, PipelineKind::zb_h2}) {
    NdOptions options{.microbatches = 4, .schedule = kind};
    check_layout(config, {.pp = 4}, options, whole);
    check_layout(config, {.tp = 2, .pp = 2, .dp_shard = 2}, options, whole);
    options.checkpoint = {.what = Recompute::all};
    check_layout(config, {.cp = 2, .pp = 2, .dp_replicate = 2}, options, whole);
    options.zero.stage = kind == PipelineKind::zb_h1 ? 1 : 2;
    check_layout(config, {.cp = 2, .pp = 2, .dp_replicate = 2}, options, whole);
  }
}

TEST_CASE("folded, bidirectional, interleaved and searched pipelines, with every axis") {
  TransformerConfig tied = config_of(Dialect::gpt2, true, 4);
  TransformerConfig untied = config_of(Dialect::llama, false, 4);
  const Outcome whole_tied = serial(tied), whole_untied = serial(untied);
  using enum PipelineKind;
  for (const PipelineKind kind : {zb_v, dual_pipe, dual_pipe_v, interleaved_zb, automatic}) {
    NdOptions options{.microbatches = 4, .schedule = kind};
    if (kind == interleaved_zb) options.chunks = 2;
    if (kind == automatic) options.hold = 1;
    check_layout(untied, {.pp = 2}, options, whole_untied);
    check_layout(tied, {.pp = 2, .dp_replicate = 2}, options, whole_tied);
    check_layout(tied, {.pp = 2, .dp_shard = 2, .dp_replicate = 1}, options, whole_tied);
    check_layout(tied, {.tp = 2, .cp = 2, .pp = 2}, options, whole_tied);
    options.sequence_parallel = true;
    check_layout(untied, {.tp = 2, .pp = 2, .dp_shard = 2}, options, whole_untied);
    options.checkpoint = {.what = Recompute::all};
    options.zero = {.stage = kind == dual_pipe ? 2 : 1, .bucket_bytes = 4000};
    check_layout(untied, {.tp = 2, .pp = 2, .dp_replicate = 2}, options, whole_untied);
    options.sequence_parallel = false;
    check_layout(tied, {.cp = 2, .pp = 2, .dp_replicate = 2}, options, whole_tied);
  }
  const NdOptions eight{.microbatches = 8, .schedule = dual_pipe};
  check_layout(tied, {.pp = 4}, eight, whole_tied);
  check_layout(untied, {.pp = 4}, eight, whole_untied);
  check_layout(tied, {.pp = 1}, {.microbatches = 3, .schedule = zb_v}, whole_tied);  // one rank's V
}

TEST_CASE("a tied table's gradient is sent from end to end, but not by ZB-V: one rank has both") {
  for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::zb_v}) {
    int64_t sent[2] = {};
    for (const bool tied : {false, true})
      run_ranks(2, [&](Communicator& world) {
        const TransformerConfig config = config_of(Dialect::gpt2, tied);
        Mesh mesh(world, {.pp = 2});
        NdParallel model(config, mesh, {.microbatches = 4, .schedule = kind});
        AdamW optimizer(trained(model.parameters()), {});
        Trainer trainer(model.stack(), optimizer, options_of(config), model.hooks());
        const Text text = text_of(0, config, 8);
        context().ledger.reset();
        trainer.step(0, model.microbatches(text.inputs, text.targets, 0), text.inputs.numel());
        if (world.rank() == 0) sent[tied ? 1 : 0] = context().ledger.total_traffic().bytes_sent;
      });
    const int64_t table = V * 16 * 8;
    CHECK(sent[1] - sent[0] == (kind == PipelineKind::zb_v ? 0 : table));
  }
}

TEST_CASE("Ulysses in place of the ring") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    const TransformerConfig config = config_of(dialect, true);
    const Outcome whole = serial(config);
    NdOptions options{.microbatches = 2, .context = ContextParallel::ulysses};
    check_layout(config, {.cp = 4}, options, whole);
    check_layout(config, {.tp = 2, .cp = 2, .dp_shard = 2}, options, whole);
    options.checkpoint = {.what = Recompute::all}, options.zero = {.stage = 2};
    check_layout(config, {.cp = 2, .pp = 2, .dp_replicate = 2}, options, whole);
  }
}

TEST_CASE("sequence parallelism with each axis, every schedule, ZeRO and recomputing") {
  TransformerConfig tied = config_of(Dialect::gpt2, true);
  TransformerConfig untied = config_of(Dialect::llama, false);
  tied.context = untied.context = 10;  // which 4 ranks cannot share evenly; 5 x 2 a rank of cp
  tied.attention = AttentionKind::plain, tied.attention_dropout = 0.2;
  const Outcome whole_tied = serial(tied), whole_untied = serial(untied);
  const auto check = [&](const MeshShape& shape, NdOptions options) {
    options.sequence_parallel = true, options.microbatches = 2;
    if (shape.cp == 1) check_layout(tied, shape, options, whole_tied);
    options.keep_gathered = true;
    if (options.checkpoint.what != Recompute::attention)
      check_layout(untied, shape, options, whole_untied);
  };
  check({.tp = 4}, {});
  check({.tp = 8}, {});
  check({.tp = 4, .dp_replicate = 2}, {});
  check({.tp = 2, .dp_replicate = 2}, {.naive_gradients = true});
  check({.tp = 2, .dp_shard = 2, .dp_replicate = 2}, {});
  check({.tp = 4, .dp_shard = 2}, {});
  for (const int stage : {1, 2}) check({.tp = 4, .dp_replicate = 2}, {.zero = {.stage = stage}});
  check({.tp = 4, .cp = 1}, {.checkpoint = {.what = Recompute::attention}});
  check({.tp = 4, .dp_shard = 2}, {.checkpoint = {.what = Recompute::all}});
  check({.tp = 4}, {.checkpoint = {.what = Recompute::revolve}});
  for (const PipelineKind kind :
       {PipelineKind::naive, PipelineKind::gpipe, PipelineKind::one_f_one_b})
    check({.tp = 4, .pp = 2}, {.schedule = kind});
  check({.tp = 4, .pp = 2}, {.schedule = PipelineKind::interleaved, .chunks = 2});
  for (const PipelineKind kind : {PipelineKind::zb_h1, PipelineKind::zb_h2})
    check({.tp = 4, .pp = 2}, {.schedule = kind});
  untied.context = 12;
  const Outcome whole_in_chunks = serial(untied);
  for (const ContextParallel context : {ContextParallel::ring, ContextParallel::ulysses}) {
    const NdOptions options{.microbatches = 2, .context = context, .sequence_parallel = true};
    check_layout(untied, {.tp = 4, .cp = 2}, options, whole_in_chunks);
  }
}

TEST_CASE("with sequence parallelism a tp-th of what flows travels from stage to stage") {
  const TransformerConfig config = config_of(Dialect::llama, false);
  for (const bool shares : {false, true})
    run_ranks(4, [&](Communicator& world) {
      context().threads = 1;
      Mesh mesh(world, {.tp = 2, .pp = 2});
      NdParallel model(config, mesh, {.microbatches = 2, .sequence_parallel = shares});
      AdamW optimizer(trained(model.parameters()), {});
      Trainer trainer(model.stack(), optimizer, options_of(config), model.hooks());
      const Text text = text_of(0, config, 8);
      context().ledger.reset();
      trainer.step(0, model.microbatches(text.inputs, text.targets, 0), text.inputs.numel());
      const int64_t flows = 8 * T * config.width;  // y or dx of both microbatches
      CHECK(context().ledger.traffic("send").bytes_sent == 8 * flows / (shares ? 2 : 1));
    });
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

TEST_CASE("a run that catches TrainingDiverged goes on as if the refused step had never been") {
  const TransformerConfig config = config_of(Dialect::gpt2, true);
  const Outcome whole = serial(config);
  const auto check = [&](const MeshShape& shape, NdOptions options = {}) {
    options.microbatches = 2;
    options.ddp.bucket_bytes = options.zero.bucket_bytes = 4000;
    check_layout(config, shape, options, whole, 8, true);
  };
  check({});
  check({.dp_replicate = 2});
  check({.dp_replicate = 2}, {.naive_gradients = true});
  check({.dp_replicate = 2}, {.zero = {.stage = 1}});
  check({.dp_replicate = 2}, {.zero = {.stage = 2}});
  check({.dp_shard = 2});
  check({.dp_shard = 2, .dp_replicate = 2});
  check({.tp = 2, .cp = 2});
  check({.tp = 2, .dp_shard = 2}, {.sequence_parallel = true});
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
    options.schedule = static_cast<PipelineKind>(below(11));
    if (options.schedule == PipelineKind::dual_pipe && shape.pp % 2 != 0)
      options.schedule = PipelineKind::dual_pipe_v;
    if (options.pipeline().interleaves()) options.chunks = 1 + below(2);
    if (options.pipeline().counts_microbatches()) options.microbatches = 2 * (shape.pp + below(2));
    if (options.schedule == PipelineKind::automatic) options.hold = 1 + below(4);
    const int stages = options.pipeline().stages(shape.pp);
    const bool llama = below(2) == 1, tied = below(2) == 0;
    const int groups = 1 + below(2), kv_heads = shape.tp * (1 + below(2));
    const int heads = kv_heads * (llama ? groups : 1), head_size = 2 * (1 + below(2));
    TransformerConfig config = config_of(llama ? Dialect::llama : Dialect::gpt2, tied,
                                         std::max(stages, 1 + below(4)), seed);
    if (kv_heads / shape.tp % shape.cp == 0 && below(2) == 0)
      options.context = ContextParallel::ulysses;
    config.heads = heads, config.kv_heads = kv_heads, config.width = heads * head_size;
    config.feed_forward = shape.tp * (1 + below(9));
    config.vocabulary = shape.tp * (3 + below(9));
    config.context = 2 * shape.cp * (1 + below(3));
    if (below(2) == 0) options.checkpoint = {.what = Recompute::all, .every = 1 + below(2)};
    options.fsdp = {.layers_per_unit = 1 + below(3), .prefetch = below(3) > 0};
    options.fsdp.reshard_after_forward = below(3) > 0, options.fsdp.keep_last = below(2) == 0;
    options.ddp.bucket_bytes = 1 << (8 + below(8));
    options.naive_gradients = below(4) == 0;
    options.zero.bucket_bytes = options.ddp.bucket_bytes;
    if (shape.dp_shard == 1 && !options.naive_gradients) options.zero.stage = below(3);
    const int64_t batch = shape.dp_shard * shape.dp_replicate * options.microbatches + below(4);
    options.sequence_parallel = config.context / shape.cp >= shape.tp && below(2) == 0;
    options.keep_gathered = below(2) == 0;
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

// Sums of bf16 products come in another order and are rounded elsewhere. Before the first step that changes the
// loss and the norm of the gradients by less than a rounding, 2^-8, of them. Then AdamW makes whole steps of
// gradients that are rounding, and the models differ by these.
TEST_CASE("bf16 on every axis: the losses of one rank, and activations that travel in 2 bytes") {
  TransformerConfig config = config_of(Dialect::llama, false);
  config.dtype = DType::bf16;
  config.dropout = 0;
  const Outcome whole = serial(config);
  struct Case {
    MeshShape shape;
    NdOptions options;
    DType weights = DType::bf16;
  };
  NdOptions ulysses, gathered;
  ulysses.context = ContextParallel::ulysses;
  gathered.fsdp.gathered = DType::bf16;
  const Case cases[] = {{{.tp = 2}, {}},
                        {{.cp = 2}, {}},
                        {{.cp = 2}, ulysses},
                        {{.pp = 2}, {.microbatches = 2}},
                        {{.dp_shard = 2}, {}},
                        {{.pp = 2, .dp_shard = 2}, gathered, DType::f32},
                        {{.tp = 2, .cp = 2, .pp = 2}, {.microbatches = 2}},
                        {{.tp = 4}, {.sequence_parallel = true}}};
  for (const Case& each : cases) {
    CAPTURE(describe(each.shape));
    TransformerConfig mine = config;
    mine.dtype = each.weights;
    run_ranks(static_cast<int>(each.shape.ranks()), [&](Communicator& world) {
      context().threads = 1;
      Mesh mesh(world, each.shape);
      NdParallel model(mine, mesh, each.options);
      AdamW optimizer(trained(model.parameters()), {.weight_decay = 0.1});
      Trainer trainer(model.stack(), optimizer, options_of(config), model.hooks());
      for (int64_t step = 0; step < std::ssize(whole.losses); ++step) {
        const Text text = text_of(step, config, 8);
        const BatchShard share = model.share(8);
        context().ledger.reset();
        const StepReport report =
            trainer.step(step,
                         model.microbatches(text.inputs.rows(share.begin, share.end),
                                            text.targets.rows(share.begin, share.end), share.begin),
                         text.inputs.numel());
        const auto at = static_cast<size_t>(step);
        CHECK(std::abs(report.loss - whole.losses[at]) <= 0x1p-8 * whole.losses[at]);
        const double part = step == 0 ? 0x1p-8 : 0x1p-4;
        CHECK(std::abs(report.gradient_norm - whole.norms[at]) <= part * whole.norms[at]);
      }
      if (each.shape.pp == 2 && each.shape.ranks() == 2)  // y or dx of each of 2 microbatches
        CHECK(context().ledger.traffic("send").bytes_sent == 2 * (8 * T * config.width));
    });
  }
}
