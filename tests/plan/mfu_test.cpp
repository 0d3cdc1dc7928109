#include "yotta/plan/mfu.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "yotta/comm/run_on.hpp"
#include "yotta/model/described_step.hpp"
#include "yotta/model/nd_parallel.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/parallel/expert_parallel.hpp"

using namespace yotta;

namespace {

// Matrix FLOPs of one sequence, forward and backward, counted by running the model on shapes.
double counted(TransformerConfig config, Recompute again = Recompute::none) {
  double flops = 0;
  run_ranks(1, [&](Communicator&) {
    const DeviceScope meta(Device::meta);
    const Transformer model = serial_model(config);
    const auto layers = checkpointed(model.stack(), {again}, 1, config.layers + 1);
    Saved saved({0, 0, 0, 0, true});
    const Tensor logits = forward(layers, Tensor::empty({1, config.context}, DType::i32), saved);
    backward(layers, logits, saved);
    for (const auto& [name, count] : context().ledger.ops())
      if (is_matrix_product(name)) flops += count.flops;
  });
  return flops;
}

double per_sequence(const TransformerConfig& config, Scores scores,
                    Recomputed again = Recomputed::none) {
  const auto T = static_cast<double>(config.context);
  return T * hardware_flops(counted_model(config), T, scores, again);
}

TransformerConfig small(Dialect dialect) {
  TransformerConfig config = dialect == Dialect::llama ? llama_config(3, 48, 80, 6, 2, 64, 100)
                                                       : gpt2_config(3, 48, 6, 64, 100);
  config.attention = AttentionKind::plain;
  return config;
}

// Three steps of a transformer on shapes, as train takes them. With `experts` each block has so
// many, of which a token meets two.
TransformerConfig trained(int64_t experts) {
  TransformerConfig config = gpt2_config(4, 256, 8, 128, 512);
  config.dtype = DType::bf16;
  config.mixture.experts = experts;
  return config;
}
Timed train(const Cluster& machine, const MeshShape& shape, const NdOptions& options = {},
            const Stragglers& stragglers = {}, int64_t experts = 0) {
  const TransformerConfig config = trained(experts);
  return run_on(
      machine, static_cast<int>(shape.ranks()),
      [&](Communicator& world) {
        const DeviceScope meta(Device::meta);
        Mesh mesh(world, shape);
        NdParallel model(config, mesh, options);
        AdamW optimizer(model.parameters());
        Trainer trainer(model.stack(), optimizer, {}, model.hooks());
        const BatchShard mine = model.share(8);
        const Tensor ids = Tensor::empty({mine.end - mine.begin, config.context}, DType::i32);
        for (int step = 0; step < 3; ++step)
          trainer.step(step, model.microbatches(ids, ids, mine.begin), 8 * config.context);
      },
      {.stragglers = stragglers});
}
double needed(int64_t steps, int64_t experts = 0) {
  return static_cast<double>(steps * 8) * per_sequence(trained(experts), Scores::causal);
}

double sum_of(const Waterfall& fall) {
  double sum = fall.model_flops / fall.peak;
  for (const LostTime& each : fall.lost) sum += each.seconds;
  return sum;
}
double of(const Waterfall& fall, Loss loss) { return fall.share(loss) * fall.all(); }

void compute(const char* name, double flops, double bytes = 0, DType dtype = DType::f32) {
  charge({name, dtype, flops, bytes, 0});
}

}  // namespace

// ---- FLOPs ----

TEST_CASE("scores that a mask leaves, counted one by one") {
  for (const MaskOptions& mask : {MaskOptions{},
                                  {.window = 5},
                                  {.prefix = 3},
                                  {.window = 4, .prefix = 2},
                                  {.window = 2, .prefix = 40}})
    for (const int64_t n : {1, 4, 13}) {
      int64_t seen = 0;
      for (int64_t q = 0; q < n; ++q)
        for (int64_t kv = 0; kv < n; ++kv)
          seen += kv < mask.prefix || (kv <= q && (mask.window == 0 || q - kv < mask.window));
      CHECK(seen_scores(mask, n) == seen);
    }
}

TEST_CASE("model FLOPs are those that our model computes, in both dialects") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    const TransformerConfig config = small(dialect);
    CHECK(counted(config) == per_sequence(config, Scores::all));
    CHECK(counted(config, Recompute::all) == per_sequence(config, Scores::all, Recomputed::all));
  }
}

TEST_CASE("of a mixture of experts as well: the router, k experts of a token and the shared ones") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const int64_t shared : {0, 1, 2}) {
      TransformerConfig config = small(dialect);
      config.mixture = {.experts = 8, .top_k = 3, .shared = shared};
      CHECK(counted(config) == per_sequence(config, Scores::all));
      CHECK(counted(config, Recompute::all) == per_sequence(config, Scores::all, Recomputed::all));
    }
}

TEST_CASE(
    "blockwise attention computes 7 of 12 parts: half, and the scores once more in backward") {
  TransformerConfig config = small(Dialect::llama);
  config.attention = AttentionKind::blockwise;
  const double all = per_sequence(config, Scores::all), none = per_sequence(config, Scores::none);
  CHECK(counted(config) - none == doctest::Approx((all - none) * 7 / 12).epsilon(0.02).scale(0));
  CHECK(per_sequence(config, Scores::causal) - none == doctest::Approx((all - none) / 2).scale(0));
}

TEST_CASE("parts of a token: grouped queries, a gate, experts") {
  CountedModel m{2, 8, 4, 2, 2, 16, 3, 10, false};
  const TokenFlops f = forward_flops(m, 6, Scores::all);
  CHECK(f.projections == 2 * 2 * (8 * 8 + 8 * 8 + 2 * 8 * 4));
  CHECK(f.scores == 2 * 4 * 4 * 2 * 6);
  CHECK(f.feed_forward == 2 * 2 * 3 * 8 * 16);
  CHECK(f.output == 2 * 8 * 10);
  m.experts = 8, m.active = 2;
  CHECK(forward_flops(m, 6, Scores::all).feed_forward == 2 * (2 * 2 * 3 * 8 * 16 + 2 * 8 * 8));
  m.shared = 1;
  CHECK(forward_flops(m, 6, Scores::all).feed_forward == 2 * (2 * 3 * 3 * 8 * 16 + 2 * 8 * 8));
  for (const CountedModel& each :
       {m, palm_540b(), mixtral_8x7b(), counted_model(llama3_8b()), deepseek_v3_671b()})
    CHECK(forward_flops(each, 1, Scores::none).sum() ==
          doctest::Approx(2 * met_weights(each)).epsilon(1e-12).scale(0));
}

TEST_CASE("latents: each part of DeepSeek-V3's FLOPs, and their sum as 6 N and causal scores") {
  const TokenFlops f = forward_flops(deepseek_v3_671b(), 4096, Scores::causal);
  CHECK(f.projections == 2 * 61 * 187'105'280.0);
  CHECK(f.scores == 61 * 2 * 128.0 * (128 + 64 + 128) * 2048);
  CHECK(f.feed_forward == 2 * (58 * 9 * 3 * 7168.0 * 2048 + 3 * 396'361'728.0 + 58 * 7168.0 * 256));
  CHECK(f.output == 2 * 129'280 * 7168.0);
  const double with_table = 3 * (f.sum() + f.output);  // of tokens, which 6 N counts
  CHECK(with_table ==
        doctest::Approx(causal_step_flops(deepseek_v3(), 1, 4096) / 4096).epsilon(1e-4).scale(0));
}

TEST_CASE("Megatron's formula with full recomputation is hardware_flops") {
  const double s = 2048, h = 2304, l = 24, V = 51200;
  const CountedModel m = counted_model(gpt2_config(24, 2304, 24, 2048, 51200));
  CHECK(s * hardware_flops(m, s, Scores::all, Recomputed::all) ==
        doctest::Approx(96 * s * l * h * h * (1 + s / (6 * h) + V / (16 * l * h)))
            .epsilon(1e-12)
            .scale(0));
  CHECK(hardware_flops(m, s, Scores::all, Recomputed::attention) - model_flops(m, s, Scores::all) ==
        doctest::Approx(4 * l * h * s).scale(0));
}

TEST_CASE("MFU and tokens per second are each other's inverse") {
  CHECK(mfu(6e9, 1e5, 8, 1e15) == doctest::Approx(0.075).scale(0));
  CHECK(tokens_a_second(0.075, 6e9, 8, 1e15) == doctest::Approx(1e5).scale(0));
}

TEST_CASE("MFU of a log: the median step, all ranks' tokens, the dense peak") {
  RunLog log{{9, 1, 2, 1, 40}, 1, 100, 4, 16, 200, false};
  CHECK(mfu_of_log(log, 8) == doctest::Approx(8 * 400 / 2.0 / (16 * 200)).scale(0));
  log.sparse = true;
  CHECK(mfu_of_log(log, 8) == doctest::Approx(8 * 400 / 2.0 / (16 * 100)).scale(0));
  log.warm_up = 5;
  CHECK_THROWS_WITH_AS(mfu_of_log(log, 8), doctest::Contains("5 steps of warm-up"), Error);
  CHECK_THROWS_AS(median_of({}), Error);
  for (const double none : {0.0, -1.0, std::nan("")}) {
    log = {{1, none, 1}, 0, 100, 4, 16, 200, false};
    CHECK_THROWS_WITH_AS(mfu_of_log(log, 8), doctest::Contains("longer than 0 s"), Error);
  }
}

// ---- the waterfall ----

TEST_CASE("an operation's seconds, by the roofline") {
  Chip chip = ideal_chip(10);
  chip.bf16 = 20, chip.bandwidth = 5, chip.launch_overhead = 0.5;
  const MfuMachine machine = mfu_machine(chip, DType::bf16);
  const auto time = [&](const char* name, double flops, double bytes, DType dtype) {
    TraceEvent op{EventKind::op, 0, 0, 1, name, {}};
    op.flops = flops, op.bytes = static_cast<int64_t>(bytes), op.dtype = dtype;
    return op_time(op, machine);
  };
  const OpTime product = time("linear", 40, 5, DType::bf16);
  CHECK(product.counted == 2);
  CHECK(product.memory == 0);
  CHECK(product.launch == 0.5);
  const OpTime narrow = time("linear", 40, 15, DType::bf16),
               wide = time("linear", 40, 5, DType::f32);
  CHECK(narrow.memory == 1);
  CHECK(wide.wider == 2);
  CHECK(wide.counted == 2);
  const OpTime other = time("gelu", 40, 50, DType::bf16);
  CHECK(other.counted == 0);
  CHECK(other.memory == 10);
  CHECK(op_time({EventKind::op, 0, 0, 3, "gelu", {}}, {10, {}}).memory == 3);
}

TEST_CASE("a wait is the messages and the other rank's work that lie within it") {
  // Rank 0 computes 1, then waits for a message of 3 seconds that rank 1 sends after computing 5.
  Cluster machine = ideal(2, 1, 1);
  machine.chip.bandwidth = no_limit;
  const Timed run = run_on(machine, 2, [](Communicator& world) {
    std::vector<uint8_t> bytes(3);
    compute("linear", world.rank() == 0 ? 1 : 5);
    if (world.rank() == 1) world.send(bytes, 0);
    if (world.rank() == 0) world.recv(bytes, 1);
    if (world.rank() == 0) compute("gelu", 2);
  });
  REQUIRE(run.seconds() == 10);
  const Waterfall fall = waterfall_of(run.trace, mfu_machine(machine.chip, DType::f32), 4);
  CHECK(of(fall, Loss::bubble) ==
        doctest::Approx(4 + 2).scale(0));  // rank 0 from 1 to 5, rank 1 at the end
  CHECK(of(fall, Loss::communication) ==
        doctest::Approx(3 + 3).scale(0));  // rank 0, and rank 1's own send
  CHECK(of(fall, Loss::memory) == doctest::Approx(2).scale(0));
  CHECK(of(fall, Loss::recomputation) == doctest::Approx(6 - 4).scale(0));
  CHECK(fall.mfu() == doctest::Approx(4 / 20.0).scale(0));
  CHECK(sum_of(fall) == doctest::Approx(20).epsilon(1e-12).scale(0));
}

TEST_CASE("what an ended rank waits for is the rest of the run") {
  const Timed run = run_on(
      ideal(2), 2, [](Communicator& world) { compute("linear", world.rank() == 0 ? 1 : 5); });
  const Waterfall fall = waterfall_of(run.trace, mfu_machine(ideal_chip(1), DType::f32), 6);
  CHECK(of(fall, Loss::bubble) == doctest::Approx(4).scale(0));
  CHECK(sum_of(fall) == doctest::Approx(10).epsilon(1e-12).scale(0));
}

TEST_CASE("the lines add up to 100% for every layout, and to all that is computed") {
  struct Way {
    MeshShape shape;
    NdOptions options;
  };
  NdOptions four, again, zero;
  four.microbatches = 4;
  again.checkpoint = {Recompute::all};
  zero.zero.stage = 1;
  for (const auto& [shape, options] :
       {Way{{}, {}}, Way{{.dp_replicate = 4}, {}}, Way{{.dp_shard = 4}, again},
        Way{{.tp = 2, .dp_shard = 2}, {}}, Way{{.pp = 4}, four}, Way{{.cp = 2, .pp = 2}, four},
        Way{{.dp_replicate = 2}, zero}, Way{{.tp = 2, .pp = 2, .dp_replicate = 2}, four}}) {
    const Cluster machine = cluster_named("h100x8");
    const Timed run = train(machine, shape, options);
    const MfuMachine h100 = mfu_machine(machine.chip, DType::bf16);
    const std::vector<double> ends = step_ends(run.trace, 3);
    const Waterfall all = waterfall_of(run.trace, h100, needed(3));
    const Waterfall steady = waterfall_of(run.trace, h100, needed(2), ends[0], ends[2]);
    for (const Waterfall& fall : {all, steady})
      CHECK(std::abs(sum_of(fall) / fall.all() - 1) <= 1e-9);
    CHECK(of(steady, Loss::between) <= 1e-12);
    CHECK(std::abs(steady.share(Loss::clock) + steady.share(Loss::straggler)) <= 1e-9);
    if (shape.pp > 1) CHECK(steady.share(Loss::bubble) > 0.1);
    if (shape.ranks() == shape.dp_replicate && options.zero.stage == 0)
      CHECK(steady.share(Loss::bubble) <= 1e-9);  // all ranks do the same
    CHECK((all.share(Loss::communication) > 0) == (shape.ranks() > 1));
    CHECK(all.hfu() == doctest::Approx(matrix_flops(run.trace) / h100.peak / all.all()).scale(0));
  }
}

TEST_CASE("the lines add up for split backward passes, pieces of Async-TP, and experts") {
  struct Way {
    MeshShape shape;
    NdOptions options;
    int64_t experts = 0;
  };
  NdOptions zb_v, dual_pipe, async_tp, parts;
  zb_v.microbatches = dual_pipe.microbatches = 4, parts.microbatches = 2;
  zb_v.schedule = PipelineKind::zb_v, zb_v.chunks = 2;
  dual_pipe.schedule = PipelineKind::dual_pipe, dual_pipe.chunks = 2;
  async_tp.pieces = Pieces::both_ways;
  for (const auto& [shape, options, experts] :
       {Way{{.pp = 2}, zb_v}, Way{{.pp = 2}, dual_pipe}, Way{{.tp = 4}, async_tp},
        Way{{.ep = 4}, {}, 8}, Way{{.pp = 2, .ep = 2}, parts, 4}}) {
    const Timed run = train(cluster_named("h100x8"), shape, options, {}, experts);
    const MfuMachine h100 = mfu_machine(cluster_named("h100x8").chip, DType::bf16);
    const std::vector<double> ends = step_ends(run.trace, 3);
    const double model = needed(2, experts);
    const Waterfall fall = waterfall_of(run.trace, h100, model, ends[0], ends[2]);
    CHECK(std::abs(sum_of(fall) / fall.all() - 1) <= 1e-9);
    CHECK(of(fall, Loss::between) <= 1e-12);
    // Nothing is computed again but blockwise attention's scores in backward.
    CHECK(fall.hfu() > fall.mfu());
    CHECK(fall.hfu() < 1.03 * fall.mfu());
  }
}

TEST_CASE("a clock that is slower on all chips is the clock, one chip's is a straggler's") {
  const Cluster machine = cluster_named("h100x4");
  const MfuMachine h100 = mfu_machine(machine.chip, DType::bf16);
  const auto fall = [&](const std::vector<SlowRank>& slow) {
    const Timed run = train(machine, {.dp_replicate = 4}, {}, {.slow_ranks = slow});
    const Waterfall found = waterfall_of(run.trace, h100, needed(3));
    CHECK(std::abs(sum_of(found) / found.all() - 1) <= 1e-9);
    return found;
  };
  const Waterfall right = fall({}), all = fall({{0, 1.5}, {1, 1.5}, {2, 1.5}, {3, 1.5}}),
                  one = fall({{2, 1.5}});
  const double computed =
      of(right, Loss::memory) + of(right, Loss::launch) + right.hfu() * right.all();
  CHECK(of(all, Loss::clock) == doctest::Approx(computed / 2).epsilon(1e-6).scale(0));
  CHECK(std::abs(all.share(Loss::straggler)) <= 1e-9);
  CHECK(std::abs(one.share(Loss::clock)) <= 1e-9);
  // Its own operations, and what three others wait for them.
  CHECK(of(one, Loss::straggler) > computed / 2 / 4 * 2);
  CHECK(one.share(Loss::straggler) > 0.05);
}

TEST_CASE("parts of a run add up to the run") {
  const Timed run = train(cluster_named("h100x4"), {.pp = 2, .dp_shard = 2}, {.microbatches = 2});
  const MfuMachine h100 = mfu_machine(cluster_named("h100x4").chip, DType::bf16);
  const double middle = run.seconds() / 3, end = run.seconds();
  const Waterfall all = waterfall_of(run.trace, h100, 0),
                  one = waterfall_of(run.trace, h100, 0, 0, middle),
                  two = waterfall_of(run.trace, h100, 0, middle, end);
  for (int loss = 0; loss < loss_kinds; ++loss) {
    const auto kind = static_cast<Loss>(loss);
    if (kind == Loss::bubble || kind == Loss::communication || kind == Loss::straggler) continue;
    CHECK(of(one, kind) + of(two, kind) == doctest::Approx(of(all, kind)));
  }
  CHECK(sum_of(one) + sum_of(two) == doctest::Approx(sum_of(all)).epsilon(1e-9).scale(0));
}

TEST_CASE("a window without time is refused") {
  const Timed run = train(ideal(1), {});
  for (const double end : {1.0, 0.5, std::nan("")})
    CHECK_THROWS_WITH_AS(waterfall_of(run.trace, {1, {}}, 1, 1, end),
                         doctest::Contains("there is no time"), Error);
}

TEST_CASE("a timeline by the wall clock adds up as well") {
  Trace trace;
  trace.ranks.resize(1);
  const auto add = [&](EventKind kind, double begin, double end, const char* name, double flops) {
    TraceEvent event{kind, compute_lane, begin, end, name, {}};
    event.flops = flops;
    trace.ranks[0].push_back(event);
  };
  add(EventKind::op, 1, 4, "linear", 20);
  add(EventKind::op, 4, 6, "gelu", 5);
  add(EventKind::wait, 7, 9, "wait", 0);
  const Waterfall fall = waterfall_of(trace, {10, {}}, 15);
  CHECK(of(fall, Loss::between) == doctest::Approx(1 + 1).scale(0));
  CHECK(of(fall, Loss::memory) == doctest::Approx(2).scale(0));
  CHECK(of(fall, Loss::clock) == doctest::Approx(1).scale(0));
  CHECK(of(fall, Loss::communication) == doctest::Approx(2).scale(0));
  CHECK(of(fall, Loss::recomputation) == doctest::Approx(0.5).scale(0));
  CHECK(sum_of(fall) == doctest::Approx(9).epsilon(1e-12).scale(0));
}
