// The graded cases of exercise 28, with sizes that are small enough to do by hand.
#include <cmath>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/core/random.hpp"
#include "yotta/machine/chip.hpp"

using namespace yotta;
using exercise::Answer;
using exercise::expect;
using exercise::Fed;
using exercise::Layout;
using exercise::Limits;
using exercise::Most;
using exercise::Reached;
using exercise::solution;
using exercise::States;

namespace {

bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(b)); }

// Two layers, C 8, 4 heads of 2, F 16, V 10, tied: 1104 weights. A block keeps 192 bytes per token.
constexpr CountedModel small{2, 8, 4, 4, 2, 16, 2, 10, true};
constexpr double N = 1104, block_bytes = 192;

Layout plain(const MeshShape& shape) { return {shape, 12, 40, 1, 1, false, false}; }

void expect_bytes(const char* what, double found, double right, const std::string& why) {
  expect(same(found, right), fmt::format("{}: {} bytes, not {}. {}", what, found, right, why));
}
void expect_activations(const Layout& l, double right, const std::string& why) {
  const double found = solution.activations(small, l);
  expect(
      same(found, right),
      fmt::format("{}, batch {}, T {}, {} sequences per microbatch: {} bytes of activations, not "
                  "{}. {}",
                  describe(l.shape), l.batch, l.sequence, l.microbatch, found, right, why));
}
void expect_bubble(const Layout& l, double right, const std::string& why) {
  const double found = solution.bubble(l);
  expect(
      same(found, right),
      fmt::format("{}, batch {}, {} sequences per microbatch: a bubble of {:.4f}, not {:.4f}. {}",
                  describe(l.shape), l.batch, l.microbatch, found, right, why));
}

const char* name(Reached reached) {
  constexpr const char* names[] = {"neither limit", "the batch limit", "the communication limit",
                                   "both limits"};
  return names[static_cast<int>(reached)];
}
// 1000 FLOP/s, 10 bytes/s: 100 tokens per chip hide FSDP's trips.
Limits limits(double batch, double sequence) { return {batch, sequence, 1000, 10, true, 1e300}; }
void expect_case(const Limits& l, double chips, Reached right, const std::string& why) {
  const Reached found = solution.limit_case(l, chips);
  expect(found == right,
         fmt::format("B {}, T {}, P / W {}, {} chips: {}, not {}. {}", l.batch, l.sequence,
                     l.flops / l.sends, chips, name(found), name(right), why));
}
void expect_fed(const Limits& l, const MeshShape& shape, const Fed& right, const std::string& why) {
  const Fed found = solution.fed_chips(l, shape);
  expect(same(found.by_batch, right.by_batch),
         fmt::format("{}: the batch limit is at {} chips, not {}. {}", describe(shape),
                     found.by_batch, right.by_batch, why));
  expect(same(found.by_communication, right.by_communication),
         fmt::format("{}: the communication limit is at {} chips, not {}. {}", describe(shape),
                     found.by_communication, right.by_communication, why));
}
void expect_axes(const Limits& l, double chips, const Most& most, const MeshShape& right,
                 const std::string& why) {
  const MeshShape found = solution.axes_to_feed(l, chips, most);
  expect(found == right,
         fmt::format("for {} chips: {}, not {}. {}", chips, describe(found), describe(right), why));
}

// Llama 3 70B's first run of 15T tokens, as the scaling book asks.
exercise::Run llama(const char* chip, double chips, double mfu) {
  const Chip& c = chip_named(chip);
  return {70e9, 15e12, chips, c.bf16, c.memory, mfu};
}
void expect_number(const char* what, double found, double right, const std::string& why) {
  expect(same(found, right), fmt::format("{}: {:.6g}, not {:.6g}. {}", what, found, right, why));
}

}  // namespace

// ---- 28.1 ----

TEST_CASE("28.1: bytes of a weight, of its gradient and of its optimizer state") {
  const States held = solution.states(small, plain({}));
  expect_bytes("weights of 1104 in bf16", held.weights, 2 * N, "A weight in bf16 has 2 bytes");
  expect_bytes("gradients of 1104 weights", held.gradients, 4 * N,
               "Gradients are held too, and summed in f32: 4 bytes for each weight");
  expect_bytes("optimizer state of 1104 weights", held.optimizer, 12 * N,
               "AdamW keeps the weights and two moments in f32, also if the weights are bf16: 12 "
               "bytes, not 6");
  const States cut = solution.states(small, plain({.tp = 2, .cp = 2, .pp = 3}));
  expect_bytes("weights with tp 2, cp 2, pp 3", cut.weights, 2 * N / 6,
               "tp and pp cut the model. Chips of cp hold the same weights");
  expect_bytes("gradients with tp 2, cp 2, pp 3", cut.gradients, 4 * N / 6,
               "A chip has gradients of its own weights alone, which tp and pp cut");
  expect_bytes("optimizer state with tp 2, cp 2, pp 3", cut.optimizer, 12 * N / 6,
               "A chip's optimizer steps its own weights alone, which tp and pp cut");
}

TEST_CASE("28.1: fsdp cuts all three, over cp too; ZeRO-1 cuts the optimizer state alone") {
  const States copies = solution.states(small, plain({.dp_replicate = 4}));
  expect_bytes("optimizer state with dp 4", copies.optimizer, 12 * N,
               "dp without ZeRO holds copies of everything");
  const States shards = solution.states(small, plain({.cp = 2, .dp_shard = 3, .dp_replicate = 2}));
  expect_bytes("weights with cp 2, fsdp 3, dp 2", shards.weights, 2 * N / 6,
               "FSDP cuts over cp and fsdp, which hold the same weights; dp holds copies");
  expect_bytes("gradients with cp 2, fsdp 3, dp 2", shards.gradients, 4 * N / 6,
               "FSDP cuts gradients as it cuts weights");
  expect_bytes("optimizer state with cp 2, fsdp 3, dp 2", shards.optimizer, 12 * N / 6,
               "FSDP cuts optimizer state as it cuts weights");
  Layout zero = plain({.cp = 2, .dp_replicate = 3});
  zero.zero = true;
  const States one = solution.states(small, zero);
  expect_bytes("weights with cp 2, dp 3 and ZeRO-1", one.weights, 2 * N,
               "ZeRO-1 cuts the optimizer state alone");
  expect_bytes("gradients with cp 2, dp 3 and ZeRO-1", one.gradients, 4 * N,
               "ZeRO-1 cuts the optimizer state alone");
  expect_bytes("optimizer state with cp 2, dp 3 and ZeRO-1", one.optimizer, 12 * N / 6,
               "ZeRO-1 cuts it over cp and dp");
}

TEST_CASE("28.1: FSDP of two ranks, and ZeRO-1 over what FSDP has left") {
  const States two = solution.states(small, plain({.dp_shard = 2}));
  expect_bytes("weights with fsdp 2", two.weights, 2 * N / 2,
               "FSDP is on where dp_shard is above 1");
  Layout both = plain({.cp = 2, .dp_shard = 3, .dp_replicate = 5});
  both.zero = true;
  const States held = solution.states(small, both);
  expect_bytes("weights with cp 2, fsdp 3, dp 5 and ZeRO-1", held.weights, 2 * N / 6,
               "ZeRO-1 cuts the optimizer state alone");
  expect_bytes("optimizer state with cp 2, fsdp 3, dp 5 and ZeRO-1", held.optimizer, 12 * N / 30,
               "FSDP has cut it over cp and fsdp already, so ZeRO-1 cuts it over dp alone");
}

// ---- 28.2 ----

TEST_CASE("28.2: tokens of a microbatch are cut by cp and tp") {
  Layout l = plain({});
  l.microbatch = 3;
  expect_activations(l, 2 * 120 * block_bytes,
                     "A microbatch has 3 x 40 tokens, and there are two blocks");
  l.shape.cp = 2;
  expect_activations(l, 2 * 60 * block_bytes,
                     "cp cuts a sequence, so a chip keeps half of its tokens");
  l.shape.tp = 4;
  expect_activations(l, 2 * 15 * block_bytes,
                     "With sequence parallelism tp cuts what a block keeps");
}

TEST_CASE("28.2: the first stage keeps the microbatches that are in flight") {
  expect_activations(
      plain({.pp = 2}), 2 * 1 * 40 * block_bytes,
      "1F1B has 2 microbatches in flight on the first of 2 stages, which has 1 block");
  Layout l = plain({.pp = 2, .dp_replicate = 12});
  expect_activations(l, 1 * 1 * 40 * block_bytes, "A rank with one microbatch has one in flight");
  expect_activations(plain({.pp = 2, .dp_shard = 12}), 1 * 1 * 40 * block_bytes,
                     "Ranks of fsdp share the batch as those of dp do: one microbatch each");
  CountedModel eight = small;
  eight.layers = 8;
  l = plain({.pp = 2});
  l.chunks = 2;
  const double found = solution.activations(eight, l);
  expect(
      same(found, 5 * 2 * 40 * block_bytes),
      fmt::format("8 blocks, pp 2, 2 chunks: {} bytes of activations, not {}. Interleaving has 5 "
                  "stages of 2 blocks in flight",
                  found, 5 * 2 * 40 * block_bytes));
  l.batch = 2;
  const double few = solution.activations(eight, l);
  expect(same(few, 4 * 2 * 40 * block_bytes),
         fmt::format("8 blocks, pp 2, 2 chunks, 2 microbatches: {} bytes of activations, not {}. A "
                     "rank runs 2 microbatches through each of 2 chunks, so no more than 4 stages "
                     "of 2 blocks are in flight",
                     few, 4 * 2 * 40 * block_bytes));
}

TEST_CASE("28.2: layers that do not divide") {
  CountedModel model = small;
  for (const auto& [layers, pp] : {std::pair{3, 2}, std::pair{7, 3}}) {
    model.layers = layers;
    const double found = solution.activations(model, plain({.pp = pp}));
    const double mean = static_cast<double>(layers) / pp, right = pp * mean * 40 * block_bytes;
    expect(same(found, right),
           fmt::format("{} blocks, pp {}: {} bytes of activations, not {}. A stage counts with its "
                       "mean of {:.2f} blocks, which is not rounded",
                       layers, pp, found, right, mean));
  }
}

TEST_CASE("28.2: a recomputed block keeps its input alone") {
  Layout l = plain({});
  l.recomputed = true;
  expect_activations(l, 2 * 40 * 2 * 8, "C numbers of bf16 a token");
  l.shape = {.tp = 2, .cp = 2};
  expect_activations(l, 2 * 10 * 2 * 8,
                     "The input that stays is that of this chip's tokens, which cp and tp cut");
  l.shape = {.pp = 2};
  expect_activations(l, 2 * 1 * 40 * 2 * 8,
                     "Of each of the 2 microbatches in flight the inputs of 1 block stay");
  l.microbatch = 3;
  expect_activations(l, 2 * 1 * 120 * 2 * 8, "A microbatch has 3 x 40 tokens, as without it");
}

// ---- 28.3 ----

TEST_CASE("28.3: idle time is a share of the whole step") {
  const Layout l{{.pp = 4}, 16, 40, 4, 1, false, false};  // 4 microbatches of 4 sequences
  expect_bubble(l, 3 / 7.0, "Of pp - 1 idle and m busy turns, pp - 1 over all of them");
}

TEST_CASE("28.3: the bubble goes by the number of microbatches, of a rank's share of the batch") {
  Layout l = plain({.pp = 4});
  l.microbatch = 4;
  expect_bubble(l, 3 / 6.0,
                "It goes by how many microbatches there are, here 3, not by how large they are");
  l = plain({.pp = 4, .dp_replicate = 3});
  expect_bubble(l, 3 / 7.0, "3 data-parallel ranks share the batch, so a rank has 4 microbatches");
  l.chunks = 2;
  expect_bubble(l, 3 / 11.0, "Interleaving makes stages smaller: v m in place of m");
  l = plain({.cp = 3, .pp = 4});
  expect_bubble(l, 3 / 15.0,
                "cp cuts each sequence, not the batch: a rank still has 12 microbatches");
  expect_bubble(plain({.tp = 2, .pp = 4}), 3 / 15.0,
                "tp cuts each product, not the batch: a rank still has 12 microbatches");
  expect_bubble(plain({.pp = 4, .dp_shard = 3}), 3 / 7.0,
                "Ranks of fsdp share the batch as those of dp do: 4 microbatches each");
}

TEST_CASE("28.3: pipelines of other sizes") {
  const Random random(exercise::seed(28), "pipelines");
  for (uint64_t i = 0; i < 4; ++i) {
    const auto drawn = [&](uint64_t k, int most) {
      return 1 + static_cast<int>(random.below(3 * i + k, static_cast<uint32_t>(most)));
    };
    Layout l = plain({.pp = 1 + drawn(0, 8)});
    l.batch = l.shape.pp * drawn(1, 9), l.chunks = drawn(2, 3);
    const double found = solution.bubble(l), idle = l.shape.pp - 1;
    const double right = idle / (static_cast<double>(l.chunks * l.batch) + idle);
    expect(same(found, right),
           fmt::format("pp {}, {} microbatches, {} chunks: a bubble of {:.4f}, not {:.4f}",
                       l.shape.pp, l.batch, l.chunks, found, right));
  }
}

// ---- 28.4 ----

TEST_CASE("28.4: each of the four cases") {
  expect_case(limits(10'000, 200), 40, Reached::neither, "A chip has 250 tokens");
  expect_case(limits(10'000, 200), 80, Reached::batch, "125 tokens per chip: less than a sequence");
  expect_case(limits(10'000, 50), 125, Reached::communication,
              "80 tokens per chip: a sequence and more, but FSDP needs 100 to hide its trips");
  expect_case(limits(10'000, 200), 125, Reached::both,
              "80 tokens per chip: less than a sequence, and than 100");
  expect_case(limits(10'000, 200), 50, Reached::neither,
              "At exactly one sequence per chip it works");
  expect_case(limits(10'000, 50), 100, Reached::neither,
              "At exactly P / W tokens per chip FSDP's trips are hidden");
}

TEST_CASE("28.4: a batch above the critical one does not help") {
  Limits l = limits(40'000, 200);
  l.critical = 10'000;
  expect_case(l, 125, Reached::both, "Of 40,000 tokens 10,000 can be used, 80 a chip");
  l.batch = 5000;
  expect_case(l, 40, Reached::batch,
              "A batch below the critical one is used as it is: 5000 tokens, 125 a chip");
}

// ---- 28.5 ----

TEST_CASE("28.5: what each axis moves") {
  const Limits l = limits(10'000, 200);  // 50 and 100 chips
  expect_fed(l, {}, {50, 100}, "B / T, and B W / P");
  expect_fed(l, {.cp = 4}, {200, 100}, "cp chips share a sequence, and each gathers all weights");
  expect_fed(l, {.pp = 4}, {50, 400},
             "A chip of a pipeline gathers 1/pp of the weights; and pp stages need pp sequences at "
             "once");
  expect_fed(l, {.cp = 2, .pp = 8}, {100, 800}, "Each axis moves its own limit");
  Limits capped = limits(40'000, 200);
  capped.critical = 10'000;
  expect_fed(capped, {.cp = 4}, {200, 100}, "Of 40,000 tokens 10,000 can be used");
}

TEST_CASE("28.5: tp shares sequences, and weights if its links are its own") {
  Limits l = limits(10'000, 200);
  expect_fed(l, {.tp = 2}, {100, 100}, "In a node of GPUs tp shares the network cards");
  l.tp_shares_links = false;
  expect_fed(l, {.tp = 2}, {100, 200}, "On a torus tp has an axis of its own");
  expect_fed(l, {.tp = 2, .pp = 4}, {100, 800},
             "On a torus a chip gathers 1 / (tp pp) of the weights");
}

// ---- 28.6 ----

TEST_CASE("28.6: nothing is doubled before it is needed, and tp first") {
  const Limits l = limits(10'000, 200);
  expect_axes(l, 50, {8, 8, 8}, {}, "FSDP alone feeds 50");
  expect_axes(l, 100, {8, 8, 8}, {.tp = 2},
              "tp moves the batch limit to 100, and costs no sequences");
}

TEST_CASE("28.6: then the axis that moves the lower limit") {
  const Limits l = limits(10'000, 200);
  expect_axes(l, 400, {2, 8, 8}, {.tp = 2, .cp = 4, .pp = 4},
              "With tp 2 the batch limit is at 100 and the communication limit too: cp moves the "
              "one, pp the other, and both are needed four times");
  expect_axes(l, 400, {8, 8, 8}, {.tp = 8, .pp = 4},
              "tp 8 moves the batch limit to 400, and pp 4 the other one");
}

TEST_CASE("28.6: against the communication limit tp helps if its links are its own") {
  Limits l = limits(10'000, 50);  // 200 and 100 chips
  expect_axes(l, 200, {8, 8, 8}, {.pp = 2},
              "The communication limit is the lower one. In a node tp shares the network cards and "
              "does not move it, so pp does");
  l.tp_shares_links = false;
  expect_axes(l, 200, {8, 8, 8}, {.tp = 2},
              "tp has links of its own here, so it moves the communication limit too");
}

TEST_CASE("28.6: it ends where an axis has reached its most") {
  const Limits l = limits(10'000, 200);
  expect_axes(l, 1e6, {2, 4, 4}, {.tp = 2, .cp = 4, .pp = 4},
              "The axes stay at the most they can have");
  expect_axes(
      l, 1e6, {3, 6, 7}, {.tp = 2, .cp = 4, .pp = 4},
      "An axis of 2 that may have 3 at most is not doubled, nor is one of 4 that may have 6");
  expect_axes(limits(10'000, 10), 1e6, {1, 8, 7}, {.pp = 4},
              "pp 4 may have 7 at most: it is not doubled");
  expect_axes(l, 400, {1, 2, 8}, {.cp = 2},
              "cp is at its most and the batch limit is the lower one: pp would not help");
}

// ---- 28.7 ----

TEST_CASE("28.7: Llama 3 70B on 8960 TPU v5p, at an MFU of 40%") {
  const Answer found = solution.run_answer(llama("v5p", 8960, 0.4));
  expect_number("FLOPs of 15e12 tokens", found.flops, 6.3e24,
                "A token costs 6 FLOPs per parameter: 2 forward, 4 backward");
  expect_number("days", found.days, 6.3e24 / (8960 * 459e12 * 0.4) / 86400,
                "The chips reach the MFU's share of their peak, all day");
  expect_number("least chips", found.least_chips, 14, "18 bytes per parameter, and 95 GB per chip");
  expect_number("chips for 30 days", found.month_chips, 13239,
                "13,238.3 chips would do: with 13,238 it takes longer, so round up");
}

TEST_CASE("28.7: runs of other sizes") {
  const Random random(exercise::seed(28), "runs");
  for (uint64_t i = 0; i < 4; ++i) {
    const auto drawn = [&](uint64_t k, double low, double high) {
      return low + (high - low) * random.uniform(6 * i + k);
    };
    const exercise::Run run{drawn(0, 1e9, 1e12),  drawn(1, 1e12, 2e13), drawn(2, 100, 20000),
                            drawn(3, 1e14, 2e15), drawn(4, 4e10, 2e11), drawn(5, 0.2, 0.6)};
    const Answer found = solution.run_answer(run);
    const double flops = 6 * run.parameters * run.tokens, a_day = 86400 * run.flops * run.mfu;
    const std::string of =
        fmt::format(" of {:.3g} parameters on {:.3g} tokens", run.parameters, run.tokens);
    expect_number(("FLOPs" + of).c_str(), found.flops, flops, "6 for each parameter and token");
    expect_number(("days" + of).c_str(), found.days, flops / (run.chips * a_day),
                  "All chips share it");
    expect_number(("least chips" + of).c_str(), found.least_chips,
                  std::ceil(18 * run.parameters / run.memory), "18 bytes per parameter");
    expect_number(("chips for 30 days" + of).c_str(), found.month_chips,
                  std::ceil(flops / (30 * a_day)), "Rounded up");
  }
}

TEST_CASE("28.7: Llama 3 70B on 4096 H100, at an MFU of 40%") {
  const Answer found = solution.run_answer(llama("h100", 4096, 0.4));
  expect_number("days", found.days, 6.3e24 / (4096 * 989.4e12 * 0.4) / 86400,
                "4096 chips share it");
  expect_number("least chips", found.least_chips, 16, "15.75 chips of 80 GB are 16");
  expect_number("chips for 30 days", found.month_chips,
                std::ceil(6.3e24 / (989.4e12 * 0.4 * 30 * 86400)),
                "What a chip computes in 30 days, and how often that goes into the run");
}
