// Lesson 16: shards inside a group, copies between groups. What travels over which links, what it
// costs in memory, when the trips between groups hide, and which group size is best on a described
// machine.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/hsdp_picture.hpp"
#include "yotta/comm/collectives_hierarchical.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/pictures/timeline.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/hsdp.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t steps = 3, microbatches = 1, tokens = 2048, billions = 8, only = 0, draw = 0;
};

// A text that never changes, so that the numbers in the lesson do not either.
const std::string text = [] {
  std::string all;
  for (int i = 0; i < 40; ++i)
    all += "Whole weights stay where the links are fast, and shards cross where they are slow. ";
  return all;
}();

// ---- a transformer on one rank, and in groups --------------------------------------------------

// `microbatches` of this rank's rows of a batch of 8.
std::vector<double> losses(int ranks, int p, int64_t steps, int64_t cut) {
  const TransformerConfig config = gpt2_config(2, 64, 4, 32, 256);
  std::vector<double> all;
  run_ranks(ranks, [&](Communicator& world) {
    const Transformer model(config);
    Hsdp hsdp(model.stack(), hsdp_ranks(world, p));
    TrainHooks hooks;
    hooks.before_microbatch = [&](bool last) { hsdp.before_microbatch(last); };
    hooks.after_backward = [&] { hsdp.finish(); };
    hooks.sum_of_squares = [&](double mine) { return hsdp.sum_of_squares(mine); };
    hooks.sum_over_ranks = [&](double mine) { return sum_over(world, mine, "loss"); };
    hooks.world = world;
    Sgd optimizer(parameters(hsdp.stack()));
    Trainer trainer(hsdp.stack(), optimizer, {.schedule = {0.5, 0.5, 0, steps}, .clip = 1}, hooks);
    const Batches batches(text, config.context, 1);
    const BatchShard mine = batch_shard(8, world.size(), world.rank());
    for (int64_t step = 0; step < steps; ++step) {
      const Batch batch = batches.draw(step, mine.begin, mine.end - mine.begin);
      const auto parts = microbatches(batch.inputs, batch.targets, cut, mine.begin);
      const double loss = trainer.step(step, parts, 8 * config.context).loss;
      if (world.rank() == 0) all.push_back(loss);
    }
  });
  return all;
}

void same_losses(Lesson& lesson, const Sizes& sizes) {
  lesson.section("The same losses on 1 rank and on 4, in groups of 1, 2 and 4");
  std::vector<std::vector<double>> found = {losses(1, 1, sizes.steps, 2)};
  for (const int p : {1, 2, 4}) found.push_back(losses(4, p, sizes.steps, 2));
  for (size_t step = 0; step < found[0].size(); ++step)
    lesson.say("step {}: loss {:.3f} on 1 rank; {:.3f} (p = 1), {:.3f} (p = 2), {:.3f} (p = 4)",
               step, found[0][step], found[1][step], found[2][step], found[3][step]);
  for (size_t i = 0; i < found.size(); ++i) lesson.numbers(fmt::format("loss.{}", i), found[i]);
}

// ---- what is held, and what travels over which links -------------------------------------------

constexpr LinearNetConfig net = {6, 128};

struct Counted {
  double held = 0, inside = 0, between = 0;  // bytes per parameter; elements per parameter
};

// Bytes of weights, gradients and optimizer states that this rank holds now.
double held() {
  const MemoryCount& memory = *context().ledger.memory();
  return static_cast<double>(memory.live(MemoryKind::parameters) +
                             memory.live(MemoryKind::gradients) +
                             memory.live(MemoryKind::optimizer));
}

// Returns the bytes that this rank holds after the step.
double one_step(Hsdp& hsdp, int64_t microbatches) {
  AdamW optimizer(parameters(hsdp.stack()));
  for (int64_t i = 0; i < microbatches; ++i) {
    hsdp.before_microbatch(i + 1 == microbatches);
    Saved saved({0, 0, 0, 0, true});
    const Tensor y = forward(hsdp.stack(), Tensor::full({2, net.width}, 1), saved);
    backward(hsdp.stack(), y, saved);
  }
  hsdp.finish();
  optimizer.step(0.01);
  return held();
}

// Rank 3 of 8, nodes of 4. group, apart: how many ranks share a copy, and how far they lie apart.
Counted count(int group, int apart, int64_t microbatches) {
  Cluster machine = cluster_named("h100x8");
  machine.levels = {{"node", 4, 1e-6, 1 / 450e9}, {"cluster", 8, 5e-6, 1 / 50e9}};
  const auto N = static_cast<double>(parameters(net));
  Counted counted;
  const Timed run = run_on(machine, 8, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(net);
    HsdpRanks ranks = hsdp_ranks(world, apart == 1 ? group : 8 / group);
    if (apart > 1) std::swap(ranks.group, ranks.replicas);
    Hsdp hsdp(model, ranks);
    const double bytes = one_step(hsdp, microbatches);
    if (world.rank() == 3) counted.held = bytes / N;
  });
  for (const TraceEvent& event : run.trace.ranks[3])
    if (event.kind == EventKind::send && event.name.find("sdp.") != std::string_view::npos)
      (machine.link(3, event.peer).level == 0 ? counted.inside : counted.between) +=
          static_cast<double>(event.bytes) / 4 / N;
  return counted;
}

void levels(Lesson& lesson) {
  lesson.section(
      "8 ranks in 2 nodes of 4: what rank 3 holds, in bytes, and sends in a step, in elements");
  lesson.say("{:<34}{:>12}{:>16}{:>17}", "for N parameters", "held, bytes", "in node, el.",
             "between, el.");
  struct Way {
    const char* name;
    int group, apart;
    int64_t microbatches;
  };
  for (const Way& way : {Way{"DDP (p = 1)", 1, 1, 1},
                         {"FSDP over all (p = 8)", 8, 1, 1},
                         {"HSDP (p = 4)", 4, 1, 1},
                         {"HSDP (p = 2)", 2, 1, 1},
                         {"group and replicas exchanged", 2, 4, 1},
                         {"FSDP over all, 4 microbatches", 8, 1, 4},
                         {"HSDP (p = 4), 4 microbatches", 4, 1, 4}}) {
    const Counted counted = count(way.group, way.apart, way.microbatches);
    lesson.say("{:<34}{:>10.2f} N{:>14.2f} N{:>15.2f} N", way.name, counted.held, counted.inside,
               counted.between);
    lesson.numbers(way.name, {counted.held, counted.inside, counted.between});
  }
}

// ---- time, on a described machine --------------------------------------------------------------

// Rank 0's seconds from its first gather on.
double seconds_of(const Trace& trace) {
  double start = no_limit, end = 0;
  for (const TraceEvent& event : trace.ranks[0]) {
    if (event.name == "fsdp.all_gather") start = std::min(start, event.begin);
    end = std::max(end, event.end);
  }
  return end - start;
}

// When rank 0's sums leave for the other group, since its first gather: of unit 3 first. With two
// copies an all_reduce is two messages.
std::string departures_of(const Trace& trace) {
  double start = no_limit;
  std::vector<std::string> all;
  int messages = 0;
  for (const TraceEvent& event : trace.ranks[0]) {
    if (event.name == "fsdp.all_gather") start = std::min(start, event.begin);
    if (event.kind != EventKind::send || event.name != "hsdp.all_reduce") continue;
    if (messages++ % 2 == 0) all.push_back(fmt::format("{:.2f}", event.begin - start));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

void time(Lesson& lesson) {
  lesson.section("A step of 4 units: F = 1 s, B = 2 s, g = r = 0.75 s");
  lesson.say("the sums of units 3, 2, 1 and 0 leave after {} s",
             departures_of(hsdp_picture_trace(0.5, true)));
  lesson.say("{:<6}{:>20}{:>20}", "a, s", "after backward, s", "overlapped, s");
  const double add = 1.0 / (2 * 64) / hsdp_picture_group;
  for (const double a : {0.5, 0.75, 1.5, 2.0, 3.0, 4.0}) {
    std::string line = fmt::format("{:<6}", a);
    for (const bool overlap : {false, true})
      line += fmt::format("{:>11.2f} ({:>6.2f})", seconds_of(hsdp_picture_trace(a, overlap)),
                          hsdp_seconds(hsdp_picture_units, {{1, 2, 0.75, 0.75, add}, a}, overlap));
    lesson.say("{}", line);
  }
  lesson.say("(in brackets: the closed form of hsdp_cost.hpp)");
}

// ---- which group is best -----------------------------------------------------------------------

Cluster h100(int ranks) { return cluster_named(fmt::format("h100x{}", ranks)); }

HsdpWork work_of(const Sizes& sizes) {
  HsdpWork work;
  work.parameters = 1e9 * static_cast<double>(sizes.billions);
  work.units = sizes.billions >= 70 ? 80 : 32;
  work.tokens = static_cast<double>(sizes.tokens);
  work.microbatches = sizes.microbatches;
  return work;
}

// "8e9 parameters in 32 units, 1 x 2048 tokens per rank"
std::string words_of(const Sizes& sizes) {
  return fmt::format("{}e9 parameters in {} units, {} x {} tokens per rank", sizes.billions,
                     work_of(sizes).units, sizes.microbatches, sizes.tokens);
}

void sweep(Lesson& lesson, const Sizes& sizes) {
  const int ranks = hsdp_sweep_ranks;
  lesson.section(fmt::format("{} H100 at {:.0f} TFLOP/s: {}", ranks,
                             peak(h100(ranks).chip, DType::bf16) / 1e12, words_of(sizes)));
  lesson.say("{:>5}{:>12}{:>12}{:>14}{:>8}{:>8}{:>8}{:>8}{:>11}", "p", "memory, GB", "inside, GB",
             "between, GB", "F, ms", "g, ms", "r, ms", "a, ms", "step, ms");
  const auto all = hsdp_sweep(h100(ranks), ranks, work_of(sizes));
  const HsdpGroup best = best_group(all);
  for (const HsdpGroup& group : all) {
    const FsdpTimes& times = group.times.inside;
    lesson.say("{:>5}{:>12.1f}{:>12.1f}{:>14.2f}{:>8.2f}{:>8.2f}{:>8.2f}{:>8.2f}{:>11.1f}{}",
               group.p, (group.held + group.borrowed) / 1e9, group.inside / 1e9,
               group.between / 1e9, 1e3 * times.forward, 1e3 * times.gather, 1e3 * times.reduce,
               1e3 * group.times.all_reduce, 1e3 * group.seconds,
               !group.fits         ? "  does not fit"
               : group.p == best.p ? "  best"
                                   : "");
  }
  lesson.number("sweep.best", best.p);
}

// From how many GPUs on does a group pay? FSDP over all of them against the best group.
void when(Lesson& lesson, const Sizes& sizes) {
  lesson.section(fmt::format("FSDP over all H100 and the best group: {}", words_of(sizes)));
  lesson.say("{:>7}{:>14}{:>10}{:>12}{:>10}", "GPUs", "FSDP, ms", "best p", "step, ms", "faster");
  for (const int ranks : {8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384}) {
    const auto all = hsdp_sweep(h100(ranks), ranks, work_of(sizes));
    if (!all.back().fits) continue;
    const HsdpGroup best = best_group(all);
    lesson.say("{:>7}{:>14.1f}{:>10}{:>12.1f}{:>10.2f}", ranks, 1e3 * all.back().seconds, best.p,
               1e3 * best.seconds, all.back().seconds / best.seconds);
  }
}

void whole_step(Lesson& lesson, const Cluster& machine, const HsdpWork& work) {
  const HsdpGroup node = hsdp_group(machine, 24576, 8, work);
  const HsdpGroup best = best_group(hsdp_sweep(machine, 24576, work));
  const HsdpGroup flat = hsdp_group(machine, 24576, 24576, work);
  lesson.say("a step: {:.0f} ms with p = 8, {:.0f} ms with p = {}, {:.0f} ms with FSDP over all",
             1e3 * node.seconds, 1e3 * best.seconds, best.p, 1e3 * flat.seconds);
}

// A unit's shard between 3072 nodes in 8 pods that share their links 1:7.
void three_levels(Lesson& lesson, const Sizes& sizes) {
  const Cluster machine = llama3_24k();
  const HsdpWork work = work_of(sizes);
  const double shard = work.summed * work.parameters / static_cast<double>(work.units) / 8;
  lesson.section("24,576 H100 of Llama 3 in groups of 8: an all_reduce of one unit's shard");
  const auto link = [&](int chips) {
    const Link found = machine.link(0, chips - 1);
    return AlphaBeta{found.alpha, found.beta, 0};
  };
  const int replicas = 24576 / 8;
  const auto say = [&](const char* name, double seconds, double across) {
    lesson.say("{:<44}{:>7.1f} ms{:>12.2f} MB", name, 1e3 * seconds, across / 1e6);
  };
  lesson.say("{:<44}{:>10}{:>15}", fmt::format("a shard of {:.0f} MB", shard / 1e6), "time",
             "between pods");
  say("one ring over 3072 nodes", all_reduce_ring_seconds(replicas, shard, link(24576)),
      2 * shard * (replicas - 1) / replicas);
  for (const auto& [name, chips] : {std::pair{"first in racks of 2 nodes, then between", 16},
                                    {"first in pods of 384 nodes, then between", 3072}}) {
    const int beside = chips / 8, groups = replicas / beside;
    say(name, all_reduce_hierarchical_seconds(replicas, shard, beside, link(chips), link(24576)),
        2 * shard / beside * (groups - 1) / groups);
  }
  whole_step(lesson, machine, work);
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(
      argc, argv,
      {"16", "HSDP", "shards inside a group, copies between groups: bytes, memory, time"},
      [&](Lesson& lesson) {
        if (sizes.only == 0) {
          same_losses(lesson, sizes);
          levels(lesson);
          time(lesson);
        }
        sweep(lesson, sizes);
        when(lesson, sizes);
        three_levels(lesson, sizes);
        if (sizes.draw == 1) {
          std::ofstream("hsdp.svg") << hsdp_svg();
          std::ofstream("hsdp_sweep.svg") << hsdp_sweep_svg();
        }
        lesson.say("\nNext: write it yourself, ./yotta check 16");
      },
      {{"steps", "optimizer steps of the transformer", &sizes.steps, 1, 1000},
       {"tokens", "of a rank in a microbatch, for the tables of the last three sections",
        &sizes.tokens, 1, 1 << 20},
       {"microbatches", "of a step, for the same tables", &sizes.microbatches, 1, 1024},
       {"billions", "parameters, in 1e9, for the same tables", &sizes.billions, 1, 1000},
       {"only", "1: these tables alone", &sizes.only, 0, 1},
       {"draw", "1: write hsdp.svg and hsdp_sweep.svg into this folder", &sizes.draw, 0, 1}});
}
