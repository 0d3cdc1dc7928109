// Every layout of the mesh trains the model of a single rank: losses, gradient norms, and all
// weights after three steps of AdamW with clipping, in double. Each pair of techniques, then random
// layouts up to 8 ranks.
#include "yotta/model/nd_parallel.hpp"

#include <doctest/doctest.h>

#include "model/layout_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("each technique alone, and each pair of them, is the single rank") {
  const TransformerConfig tied = config_of(Dialect::gpt2, true);
  const TransformerConfig untied = config_of(Dialect::llama, false);
  const Outcome whole_tied = serial(tied), whole_untied = serial(untied);
  for (const Axis a : dense_axes)
    for (const Axis b : dense_axes) {
      if (b < a) continue;
      MeshShape shape;
      shape[a] = 2, shape[b] = 2;
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

TEST_CASE("the loss in chunks of tokens, with each axis, pipeline and ZeRO that can have it") {
  const TransformerConfig tied = config_of(Dialect::gpt2, true);
  const TransformerConfig untied = config_of(Dialect::llama, false);
  const Outcome whole_tied = serial(tied), whole_untied = serial(untied);
  for (const int64_t tokens : {5, 1000}) {
    const NdOptions plain{.microbatches = 2, .loss_tokens = tokens};
    for (const MeshShape& shape :
         {MeshShape{}, MeshShape{.dp_replicate = 3}, MeshShape{.cp = 2, .dp_replicate = 2},
          MeshShape{.tp = 2, .pp = 2}, MeshShape{.pp = 2, .dp_replicate = 2}}) {
      check_layout(tied, shape, plain, whole_tied);
      check_layout(untied, shape, plain, whole_untied);
    }
    using enum PipelineKind;
    for (const PipelineKind kind : {gpipe, zb_h1, dual_pipe}) {
      NdOptions options = plain;
      options.microbatches = 4, options.schedule = kind;
      check_layout(tied, {.pp = 2, .dp_replicate = 2}, options, whole_tied);
      options.checkpoint = {.what = Recompute::all};
      check_layout(untied, {.pp = 2}, options, whole_untied);
    }
    for (const int stage : {1, 2}) {
      NdOptions options = plain;
      options.zero = {.stage = stage, .bucket_bytes = 4000};
      check_layout(tied, {.dp_replicate = 4}, options, whole_tied);
      check_layout(untied, {.pp = 2, .dp_replicate = 2}, options, whole_untied);
      options.microbatches = 4;  // several Fs before the first W, whose gradients ZeRO takes
      for (const PipelineKind kind : {gpipe, zb_h1}) {
        options.schedule = kind;
        check_layout(tied, {.pp = 2, .dp_replicate = 2}, options, whole_tied);
        check_layout(untied, {.pp = 2, .dp_replicate = 2}, options, whole_untied);
      }
    }
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

TEST_CASE("the first blocks of each stage recomputed, the others not") {
  const TransformerConfig config = config_of(Dialect::gpt2, true);
  const Outcome whole = serial(config);
  NdOptions options{.microbatches = 2, .checkpoint = {.what = Recompute::all}};
  for (const int64_t blocks : {0, 1, 2, 3}) {
    options.checkpoint_blocks = blocks;
    check_layout(config, {.pp = 2, .dp_shard = 2}, options, whole);
    check_layout(config, {.tp = 2, .cp = 2, .pp = 2}, options, whole);
  }
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

TEST_CASE("sequence parallelism and Async-TP with each axis, schedule, ZeRO and recomputing") {
  TransformerConfig tied = config_of(Dialect::gpt2, true);
  TransformerConfig untied = config_of(Dialect::llama, false);
  tied.context = untied.context = 10;  // which 4 ranks cannot share evenly; 5 x 2 a rank of cp
  tied.attention = AttentionKind::plain, tied.attention_dropout = 0.2;
  const Outcome whole_tied = serial(tied), whole_untied = serial(untied);
  int in_pieces = 0;
  const auto check = [&](const MeshShape& shape, NdOptions options) {
    options.sequence_parallel = true, options.microbatches = 2;
    if (shape.cp == 1) check_layout(tied, shape, options, whole_tied);
    options.keep_gathered = true;
    if (options.checkpoint.what != Recompute::attention)
      check_layout(untied, shape, options, whole_untied);
    options.keep_gathered = options.sequence_parallel = false;  // pieces mean it too
    const bool one_way = in_pieces++ % 2 == 0 || options.checkpoint.what == Recompute::attention;
    options.pieces = one_way ? Pieces::one_way : Pieces::both_ways;
    one_way ? check_layout(tied, shape, options, whole_tied)
            : check_layout(untied, shape, options, whole_untied);
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
  check({.tp = 4, .dp_shard = 2}, {.checkpoint = {.what = Recompute::pointwise}});
  for (const PipelineKind kind :
       {PipelineKind::naive, PipelineKind::gpipe, PipelineKind::one_f_one_b})
    check({.tp = 4, .pp = 2}, {.schedule = kind});
  check({.tp = 4, .pp = 2}, {.schedule = PipelineKind::interleaved, .chunks = 2});
  for (const PipelineKind kind : {PipelineKind::zb_h1, PipelineKind::zb_h2})
    check({.tp = 4, .pp = 2}, {.schedule = kind});
  untied.context = 12;
  const Outcome whole_in_chunks = serial(untied);
  for (const ContextParallel context : {ContextParallel::ring, ContextParallel::ulysses}) {
    NdOptions options{.microbatches = 2, .context = context, .sequence_parallel = true};
    for (const Pieces pieces : {Pieces::none, Pieces::one_way, Pieces::both_ways}) {
      options.pieces = pieces;
      check_layout(untied, {.tp = 4, .cp = 2}, options, whole_in_chunks);
    }
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

TEST_CASE("pieces are asked for by NdOptions alone, and travel one to one") {
  const TransformerConfig config = config_of(Dialect::llama, false);
  int64_t sent[2] = {};
  for (const bool in_pieces : {false, true})
    run_ranks(4, [&](Communicator& world) {
      context().threads = 1;
      Mesh mesh(world, {.tp = 4});
      NdOptions options{.sequence_parallel = !in_pieces};
      if (in_pieces) options.pieces = Pieces::both_ways;
      NdParallel model(config, mesh, options);
      AdamW optimizer(trained(model.parameters()), {});
      Trainer trainer(model.stack(), optimizer, options_of(config), model.hooks());
      const Text text = text_of(0, config, 8);
      context().ledger.reset();
      trainer.step(0, model.microbatches(text.inputs, text.targets, 0), text.inputs.numel());
      const Traffic alone = context().ledger.traffic("send");
      CHECK(alone.messages_sent == (in_pieces ? 3 * (10 * config.layers + 3) : 0));
      if (world.rank() == 0) sent[in_pieces] = context().ledger.total_traffic().bytes_sent;
    });
  CHECK(sent[0] == sent[1]);  // the tokens divide
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
  for (const Recompute what :
       {Recompute::all, Recompute::attention, Recompute::revolve, Recompute::pointwise})
    for (const Axis axis : dense_axes) {
      const bool selective = what == Recompute::attention;
      if (selective && axis == Axis::cp) continue;  // the ring is blockwise: nothing to drop
      NdOptions options{.microbatches = 2, .checkpoint = {.what = what}};
      MeshShape shape;
      shape[axis] = 2;
      if (axis == Axis::pp) options.schedule = PipelineKind::interleaved, options.chunks = 2;
      check_layout(selective ? plain : config, shape, options, selective ? whole_plain : whole);
    }
}

TEST_CASE("the embedding and the head count as blocks: stages of one entry each, with every axis") {
  using enum PipelineKind;
  for (const bool tied : {false, true}) {
    const TransformerConfig config = config_of(tied ? Dialect::gpt2 : Dialect::llama, tied, 2);
    const Outcome whole = serial(config);
    NdOptions options{.microbatches = 2, .schedule = interleaved, .chunks = 2, .ends_count = true};
    for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp_shard, Axis::dp_replicate}) {
      MeshShape shape{.pp = 2};
      shape[axis] = 2;
      check_layout(config, shape, options, whole);
    }
    options.checkpoint = {.what = Recompute::pointwise}, options.zero.stage = 1;
    check_layout(config, {.pp = 2, .dp_replicate = 2}, options, whole);
    options.schedule = zb_h1, options.chunks = 1;
    check_layout(config, {.pp = 4}, options, whole);
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

// Sums of bf16 products come in another order and are rounded elsewhere. Before the first step that
// changes the loss and the norm of the gradients by less than a rounding, 2^-8, of them. Then AdamW
// makes whole steps of gradients that are rounding, and the models differ by these.
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
                        {{.tp = 4}, {.sequence_parallel = true}},
                        {{.tp = 4}, {.pieces = Pieces::one_way}}};
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
