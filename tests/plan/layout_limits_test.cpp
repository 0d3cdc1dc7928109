#include "yotta/plan/layout_limits.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "yotta/model/llama3_rows.hpp"
#include "yotta/plan/mfu.hpp"
#include "yotta/plan/step_estimate.hpp"

using namespace yotta;

namespace {

doctest::Approx within(double value, double share) {
  return doctest::Approx(value).epsilon(share).scale(0);
}

constexpr double mebi16 = int64_t{16} << 20;
constexpr double nodes = 8 * 50e9;  // H100: a card for each of 8
BatchLimits h100(double batch, double sequence) {
  return {batch, sequence, chip_named("h100").bf16, nodes};
}
BatchLimits v5p(double batch, double sequence, int axes) {
  const Chip& chip = chip_named("v5p");
  return {batch, sequence, chip.bf16, 2.0 * axes * chip.link, false};
}

HandLayout by_hand(const DescribedStep& step) {
  HandLayout l;
  l.shape = step.shape, l.batch = step.batch, l.sequence = step.options.tokens(step.config);
  l.microbatch = step.batch / step.shape.data_ranks() / step.options.microbatches;
  l.chunks = step.options.chunks, l.zero = step.options.zero.stage > 0;
  l.recomputed = step.options.checkpoint.what == Recompute::all;
  return l;
}
// The formulas against the planner's, which count every tensor.
void check(const DescribedStep& step, const char* cluster, double share) {
  const MemoryParts exact = estimate_step(cluster_named(cluster), step).memory;
  const HandMemory hand = memory_by_hand(counted_model(step.config), by_hand(step));
  CAPTURE(describe(step.shape));
  CHECK(hand.weights == within(exact.weights, share));
  CHECK(hand.gradients == within(exact.gradients, share));
  CHECK(hand.optimizer == within(exact.optimizer, share));
  CHECK(hand.activations == within(exact.activations, share));
}

}  // namespace

TEST_CASE("what helps names the axes that move a limit that was passed, and no others") {
  const auto moves = [](const BatchLimits& l, LimitCase reached, const MeshShape& shape) {
    const FedChips before = fed_chips(l, {}), after = fed_chips(l, shape);
    const bool batch = reached != LimitCase::communication,
               communication = reached != LimitCase::batch;
    return (batch && after.by_batch > before.by_batch) ||
           (communication && after.by_communication > before.by_communication);
  };
  for (const BatchLimits& l : {h100(8e6, 8192), v5p(8e6, 8192, 2)})
    for (const LimitCase reached : {LimitCase::batch, LimitCase::communication, LimitCase::both}) {
      const std::string help = what_helps(l, reached);
      CAPTURE(help);
      const auto named = [&](const char* words) { return help.find(words) != std::string::npos; };
      CHECK(named("tp") == moves(l, reached, {.tp = 2}));
      CHECK(named("cp") == moves(l, reached, {.cp = 2}));
      CHECK(named("pp") == moves(l, reached, {.pp = 2}));
      CHECK_FALSE(named("HSDP"));
      CHECK(named("larger batch"));
      BatchLimits critical = l;
      critical.critical = l.batch;
      CHECK(what_helps(critical, reached).find("larger batch") == std::string::npos);
    }
}

TEST_CASE("a layout of two blocks, counted by hand") {
  // C 8, 4 heads of 2, F 16, V 10: 2 (4 x 64 + 2 x 128) + 80 weights.
  const CountedModel m{2, 8, 4, 4, 2, 16, 2, 10, true};
  HandLayout l{.shape = {.tp = 2, .cp = 2, .pp = 2}, .batch = 12, .sequence = 40, .microbatch = 3};
  CHECK(all_weights(m) == 1104);
  HandMemory held = memory_by_hand(m, l);
  CHECK(held.weights == 2 * 1104 / 4);
  CHECK(held.gradients == 4 * 1104 / 4);
  CHECK(held.optimizer == 12 * 1104 / 4);
  // A rank has 30 of a microbatch's 120 tokens, one block, and two microbatches in flight.
  CHECK(kept_bytes(m) == 2 * (4 * 8 + 2 * 8 + 2 * 8 + 2 * 16));
  CHECK(held.activations == 2 * 30 * kept_bytes(m));
  CHECK(held.bytes() == 18 * 1104 / 4 + 2 * 30 * 192);
  l.recomputed = true;
  CHECK(activations_by_hand(m, l) == 2 * 30 * 2 * 8);
  l.batch = 3;  // one microbatch
  CHECK(activations_by_hand(m, l) == 30 * 2 * 8);
  l.batch = 48, l.shape.dp_replicate = 4, l.zero = true;
  held = states_by_hand(m, l);
  CHECK(held.states() == (6 + 12 / 8.0) * 1104 / 4);
  l.shape.dp_shard = 3, l.zero = false;
  held = states_by_hand(m, l);
  CHECK(held.states() == 18 * 1104 / 4 / 6.0);
  l.zero = true;  // over dp alone: FSDP has cut it over cp already
  held = states_by_hand(m, l);
  CHECK(held.optimizer == 12 * 1104 / 4 / 6.0 / 4);
}

TEST_CASE("by hand within a tenth of what every tensor adds up to") {
  DescribedStep step;
  step.config = llama3_8b();
  step.config.dtype = DType::bf16;
  step.batch = 64;
  step.options.sequence_parallel = true;
  step.efficiency = h100_kernels;
  step.shape = {.tp = 8, .pp = 2, .dp_replicate = 4};
  step.options.microbatches = 16, step.options.zero = {.stage = 1};
  check(step, "h100x64", 0.1);
  step.shape = {.tp = 2, .cp = 2, .pp = 2, .dp_replicate = 8};
  step.options.microbatches = 8;
  check(step, "h100x64", 0.1);
  DescribedStep row = llama3_step(llama3_rows[0]);
  row.options.zero.bucket_bytes = int64_t{1} << 25;
  check(row, "h100x8192", 0.1);
}

TEST_CASE("more stages at fixed GPUs and batch: the bubble stays nearly where it is") {
  // 16 GPUs, 32 sequences: dp = 16 / p, so a rank has 2 p microbatches.
  for (const auto& [p, share] : {std::pair{2, 1 / 5.0}, {4, 3 / 11.0}, {8, 7 / 23.0}}) {
    HandLayout l{.shape = {.pp = p, .dp_replicate = 16 / p}, .batch = 32, .sequence = 8};
    CHECK(microbatches(l) == 2 * p);
    CHECK(bubble_by_hand(l) == within(share, 1e-12));
    l.microbatch = 2;
    CHECK(bubble_by_hand(l) == within((p - 1.0) / (2 * p - 1), 1e-12));
  }
  // A lecture's figures, with as many microbatches as stages: 33, 43, 47, 48%.
  for (const auto& [p, percent] : {std::pair{2, 33}, {4, 43}, {8, 47}, {16, 48}})
    CHECK(std::lround(100 * bubble_by_hand({.shape = {.pp = p}, .batch = p})) == percent);
}

TEST_CASE("published limits: 976 sequences, 18,823 chips, 2474 tokens") {
  CHECK(chips_with_sequence(h100(8e6, 8192)) == within(976.5625, 1e-12));
  CHECK(chips_hidden(v5p(16e6, 8192, 3)) == within(18823.5, 1e-5));
  CHECK(flops_per_sent_byte(h100(1, 1).flops, nodes) == within(2475, 1e-3));
  BatchLimits capped = h100(16e6, 8192);
  capped.critical = 8e6;
  CHECK(usable_batch(capped) == 8e6);
  CHECK(chips_hidden(capped) == within(8e6 / 2473.5, 1e-12));
}

TEST_CASE("four cases, and which is which") {
  CHECK(limit_case(h100(8e6, 8192), 900) == LimitCase::neither);
  CHECK(limit_case(h100(8e6, 8192), 1000) == LimitCase::batch);
  CHECK(limit_case(h100(8e6, 8192), 4000) == LimitCase::both);
  CHECK(limit_case(h100(8e6, 1024), 4000) == LimitCase::communication);
  CHECK(limit_case(h100(8e6, 8000), 1000) == LimitCase::neither);  // a sequence each
  CHECK(limit_case(v5p(8e6, 8192, 3), 4000) == LimitCase::batch);
}

TEST_CASE("how many chips axes can feed: by the formula, and by the two inequalities") {
  for (const BatchLimits& l : {h100(mebi16, 8192), h100(mebi16, 1024), v5p(4e6, 8192, 1)})
    for (const int tp : {1, 8})
      for (const int cp : {1, 2, 16})
        for (const int pp : {1, 4, 16}) {
          const double most = fed_chips(l, {.tp = tp, .cp = cp, .pp = pp}).most();
          const auto works = [&](double chips) {
            const double data = chips / (tp * cp * pp), tokens = l.batch / (data * cp);
            const double weights = 1e9 / (tp * pp);
            const double sends = l.tp_shares_links ? l.sends / tp : l.sends;
            return data * pp * l.sequence <= l.batch &&
                   6 * weights * tokens / l.flops >= 6 * weights / sends;
          };
          CHECK(works(0.999 * most));
          CHECK_FALSE(works(1.001 * most));
        }
}

TEST_CASE("Llama 3's second and third rows stand at the batch limit of their axes, to the chip") {
  CHECK(fed_chips(h100(mebi16, 8192), {.tp = 8, .pp = 16}).most() == 16384);
  CHECK(fed_chips(h100(mebi16, 131072), {.tp = 8, .cp = 16, .pp = 16}).most() == 16384);
  CHECK(fed_chips(h100(mebi16, 131072), {.tp = 8, .pp = 16}).most() == 1024);
}

TEST_CASE("axes to feed so many chips: the one that moves the lower limit, tp before cp and pp") {
  const MostRanks most{8, 16, 16};
  CHECK(axes_to_feed(h100(mebi16, 8192), 1024, most) == MeshShape{});
  CHECK(axes_to_feed(h100(mebi16, 8192), 4096, most) == MeshShape{.tp = 2});
  // 6781 chips hide FSDP's trips on nodes; beyond them only pp helps.
  CHECK(axes_to_feed(h100(mebi16, 8192), 8192, most) == MeshShape{.tp = 4, .pp = 2});
  CHECK(axes_to_feed(h100(mebi16, 8192), 16384, most) == MeshShape{.tp = 8, .pp = 4});
  CHECK(axes_to_feed(h100(mebi16, 131072), 16384, most) == MeshShape{.tp = 8, .cp = 16, .pp = 4});
  CHECK(axes_to_feed(v5p(mebi16, 8192, 2), 16384, most) == MeshShape{.tp = 8});
  // As far as they go: 16 x 8 x 128 sequences.
  CHECK(axes_to_feed(h100(mebi16, 131072), 1e6, most) == MeshShape{.tp = 8, .cp = 16, .pp = 4});
  // Both limits at 100 chips: pp alone would not help where cp cannot grow.
  CHECK(axes_to_feed({1e4, 100, 1000, 10}, 200, {1, 1, 8}) == MeshShape{});
  for (const double chips : {500.0, 3000.0, 7000.0, 12000.0, 30000.0}) {
    const MeshShape shape = axes_to_feed(h100(mebi16, 8192), chips, {8, 64, 64});
    CHECK(fed_chips(h100(mebi16, 8192), shape).most() >= chips);
  }
}

TEST_CASE("alpha log p <= (B S / C - 1 / bandwidth) n: a lecture's thresholds, 3.75 and 0.19") {
  const double n = 1 << 30, S = 8e3, C = 1500e12;
  for (const auto& [bandwidth, threshold] : {std::pair{50e9, 3.75}, {1e12, 0.1875}}) {
    const AlphaBeta link{1e-6, 1 / bandwidth, 0};
    CHECK(most_ranks_by_latency(link, n, 0.999 * threshold * S, C) == 0);
    CHECK(most_ranks_by_latency(link, n, 1.001 * threshold * S, C) > 1);
  }
  // 64 ranks need 6 us: (B S / C - beta) n = 6 us.
  const AlphaBeta link{1e-6, 2e-11, 0};
  CHECK(most_ranks_by_latency(link, 1e6, 1.3e-11 / 5e-13, 1e12) == within(64, 1e-9));
}

TEST_CASE("days, chips and MFU of Llama 3 70B, 15T tokens") {
  const Chip &tpu = chip_named("v5p"), &gpu = chip_named("h100");
  const RunAnswer pod = run_answer({70e9, 15e12, 8960, tpu.bf16, tpu.memory, 0.4});
  CHECK(pod.flops == within(6.3e24, 1e-9));
  CHECK(pod.days == within(44.3, 1e-2));
  CHECK(run_answer({70e9, 15e12, 18823, tpu.bf16, tpu.memory, 0.5}).days == within(16.9, 1e-2));
  const RunAnswer nodes4096 = run_answer({70e9, 15e12, 4096, gpu.bf16, gpu.memory, 0.4});
  CHECK(nodes4096.days == within(45.0, 1e-2));
  CHECK(nodes4096.least_chips == 16);
  CHECK(nodes4096.month_chips == 6142);
  const TrainingRun run{70e9, 15e12, 4096, gpu.bf16, gpu.memory, 0};
  CHECK(mfu_of_days(run, nodes4096.days) == within(0.4, 1e-12));
  const double rate = run.tokens / (86400 * nodes4096.days);
  CHECK(mfu(6 * run.parameters, rate, run.chips, run.flops) == within(0.4, 1e-12));
}
