// Lesson 26: all axes on one mesh: who is where, who sums what, what an order of axes costs,
// mixtures, and Llama 3 405B.
#include <fmt/ranges.h>

#include <fstream>
#include <numeric>

#include "course/lesson/lesson.hpp"
#include "course/pictures/mesh_picture.hpp"
#include "yotta/model/llama3_rows.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/expert_parallel.hpp"
#include "yotta/parallel/gradient_groups.hpp"

using namespace yotta;

namespace {

using Axes = std::vector<Axis>;

std::string list(const std::vector<int>& ranks) { return fmt::format("{}", fmt::join(ranks, " ")); }

// ---- the mesh ----

void mesh(Lesson& lesson) {
  const MeshShape shape{.tp = 2, .cp = 2, .pp = 2, .dp_shard = 2};
  lesson.section("16 GPUs, rank by rank, with the groups that each is in");
  lesson.say("rank   tp cp pp dp     tp group   cp group   pp group   dp group   cp+dp group");
  for (int rank = 0; rank < 16; ++rank) {
    const Coordinates at = coordinates_of(shape, rank);
    const auto of = [&](Axis axis) { return at[static_cast<size_t>(axis)]; };
    const auto group = [&](const Axes& axes) { return list(group_of(shape, rank, axes)); };
    lesson.say("{:>4}   {:>2} {:>2} {:>2} {:>2}     {:<10} {:<10} {:<10} {:<10} {}", rank,
               of(Axis::tp), of(Axis::cp), of(Axis::pp), of(Axis::dp_shard), group({Axis::tp}),
               group({Axis::cp}), group({Axis::pp}), group({Axis::dp_shard}),
               group({Axis::cp, Axis::dp_shard}));
  }
}

// ---- the order ----

AxisBytes bytes_by_axis(const DescribedFigures& step) {
  AxisBytes bytes = {};
  for (const auto& [axes, sent] : step.sent) {
    const Axis axis = axes == "tp"   ? Axis::tp
                      : axes == "cp" ? Axis::cp
                      : axes == "pp" ? Axis::pp
                                     : Axis::dp_replicate;
    bytes[static_cast<size_t>(axis)] += sent;
  }
  return bytes;
}

std::string words_of(const AxisOrder& order, const MeshShape& shape) {
  std::string words;
  for (const Axis axis : order)
    if (shape[axis] > 1) words += fmt::format("{}{}", words.empty() ? "" : ", ", short_name(axis));
  return words;
}

void order(Lesson& lesson) {
  const DescribedStep step = llama3_step(llama3_rows[2]);
  const MeshShape& shape = step.shape;
  const Cluster cluster = cluster_named("h100x16384");
  const AxisBytes bytes = bytes_by_axis(run_described(as_seen_by(shape, cluster), step));
  lesson.section("What a rank of stage 0 sends in a step of [8, 16, 16, 8] at 131,072 tokens");
  for (const Axis axis : {Axis::tp, Axis::cp, Axis::pp, Axis::dp_replicate}) {
    const double gigabytes = bytes[static_cast<size_t>(axis)] / 1e9;
    lesson.say("{:<3} {:>8.1f} GB", short_name(axis), gigabytes);
    lesson.number(fmt::format("sent.{}", short_name(axis)), gigabytes);
  }
  lesson.section("The same bytes, one after the other, with the axes in other orders");
  lesson.say("{:<18} {:>10}   {}", "innermost first", "seconds", "leaves the node of 8");
  using O = AxisOrder;
  constexpr auto tp = Axis::tp, cp = Axis::cp, pp = Axis::pp, ep = Axis::ep, fsdp = Axis::dp_shard,
                 dp = Axis::dp_replicate;
  for (const O& order : {all_axes, O{cp, tp, pp, ep, fsdp, dp}, O{dp, tp, cp, pp, ep, fsdp},
                         O{pp, cp, tp, ep, fsdp, dp}}) {
    const double seconds = seconds_of_order(cluster, shape, bytes, order);
    std::string leaving;
    for (const Axis axis : order)
      if (shape[axis] > 1 && slowest_link(cluster, shape, axis, order).level > 0)
        leaving += fmt::format("{}{}", leaving.empty() ? "" : ", ", short_name(axis));
    lesson.say("{:<18} {:>10.2f}   {}", words_of(order, shape), seconds, leaving);
  }
  lesson.say("best of all 24: {}", words_of(best_order(cluster, shape, bytes), shape));
  lesson.say("where pods share 1:7: {}", words_of(best_order(llama3_24k(), shape, bytes), shape));
}

// ---- gradients ----

// A model's parameters as rank 0 of tp 2 has them: names, and what tp cuts.
std::vector<ParameterPtr> cut_parameters(const TransformerConfig& config) {
  std::vector<ParameterPtr> all;
  run_ranks(2, [&](Communicator& tp) {
    const DeviceScope meta(Device::meta);
    Transformer model(config);
    tensor_parallel(model, tp);
    if (config.mixture.experts > 0) mix_experts(model, {.border = std::make_shared<Border>(tp)});
    if (tp.rank() == 0) all = parameters(model.stack());
  });
  return all;
}

void gradient_table(Lesson& lesson, const std::vector<ParameterPtr>& all, bool shares_tokens) {
  Spreading spread{{2, 2, 2, 2, 2, 2}, shares_tokens};
  spread.on_both_ends = tied_table;
  lesson.say("{:<35} {:<6} {:<6} {:<6} {:<6} {:<6} {:<6} {}", "", "tp", "cp", "pp", "ep", "fsdp",
             "dp", "added up over");
  for (const ParameterPtr& each : all) {
    std::string line = fmt::format("{:<35}", each->name), sums;
    for (const Axis axis : all_axes)
      line += fmt::format(" {:<6}", name(gradient_along(axis, *each, spread)));
    for (const Axis axis : summed_over(*each, spread))
      sums += fmt::format("{}{}", sums.empty() ? "" : ", ", short_name(axis));
    lesson.say("{} {}", line, sums);
  }
}

void gradients(Lesson& lesson) {
  const auto chosen = [](const TransformerConfig& config, auto wanted) {
    std::vector<ParameterPtr> some;
    for (const ParameterPtr& each : cut_parameters(config))
      if (!each->name.starts_with("layers.1") && wanted(*each)) some.push_back(each);
    return some;
  };
  const TransformerConfig gpt2 = gpt2_config(2, 16, 4, 8, 32);
  lesson.section("GPT-2's gradients: what ranks along an axis have");
  gradient_table(lesson, chosen(gpt2, [](const Parameter&) { return true; }), false);
  lesson.section("GPT-2's gradients with sequence parallelism: what ranks along an axis have");
  gradient_table(lesson, chosen(gpt2, sees_own_tokens), true);
  TransformerConfig mixture = llama_config(2, 16, 24, 4, 4, 8, 32);
  mixture.mixture = {.experts = 2, .top_k = 1};
  lesson.section("A mixture of two experts: the gradients of one feed-forward layer");
  gradient_table(
      lesson,
      chosen(mixture, [](const Parameter& p) { return p.name.find(".mlp.") != std::string::npos; }),
      false);
}

// ---- what interacts ----

void sharded_stages(Lesson& lesson) {
  lesson.section("Llama 3 8B on 64 H100, tp 4, pp 4, dp 4: four ways to share weights along dp");
  lesson.say("{:<36} {:>10} {:>9} {:>10} {:>10}", "8 microbatches", "dp sends", "holds", "step",
             "dp exposed");
  struct Way {
    const char* name;
    bool sharded, reshards;
    int zero;
  };
  for (const Way& way : {Way{"FSDP, resharded after forward", true, true, 0},
                         Way{"FSDP, whole until backward", true, false, 0},
                         Way{"ZeRO-2: weights whole", false, false, 2},
                         Way{"ZeRO-1: gradients whole too", false, false, 1}}) {
    DescribedStep step;
    step.config = llama3_8b();
    step.config.dtype = DType::bf16;
    step.shape = {.tp = 4, .pp = 4};
    (way.sharded ? step.shape.dp_shard : step.shape.dp_replicate) = 4;
    step.batch = 32, step.options.microbatches = 8, step.options.sequence_parallel = true;
    step.options.fsdp.reshard_after_forward = way.reshards;
    step.options.zero = {.stage = way.zero, .bucket_bytes = 1 << 28};
    step.efficiency = h100_kernels;
    const DescribedFigures found =
        run_described(as_seen_by(step.shape, cluster_named("h100x64")), step);
    const double sent = bytes_by_axis(found)[static_cast<size_t>(Axis::dp_replicate)];
    double exposed = 0;
    for (const auto& [axes, seconds] : found.exposed)
      if (axes != "tp") exposed += seconds;
    lesson.say("{:<36} {:>7.1f} GB {:>6.1f} GB {:>7.0f} ms {:>7.0f} ms", way.name, sent / 1e9,
               static_cast<double>(found.bytes) / 1e9, 1e3 * found.seconds, 1e3 * exposed);
  }
}

// Scores that each rank of cp computes if a token sees its own document alone, of the mean over
// ranks.
void documents(Lesson& lesson) {
  constexpr int64_t T = 4096;
  constexpr int cp = 4;
  lesson.section("Documents in one sequence of 4096 tokens on cp 4: a rank's scores, of the mean");
  lesson.say("{:<34} {:>7} {:>7} {:>7} {:>7}", "documents", "rank 0", "rank 1", "rank 2", "rank 3");
  const std::pair<const char*, std::vector<int64_t>> all[] = {
      {"one of 4096", {4096}},
      {"four of 1024", {1024, 1024, 1024, 1024}},
      {"2560, then three of 512", {2560, 512, 512, 512}},
      {"three of 512, then 2560", {512, 512, 512, 2560}}};
  for (const auto& [name, lengths] : all) {
    std::vector<double> seen(cp);
    for (int rank = 0; rank < cp; ++rank)
      for (int64_t i = 0; i < 2; ++i) {
        const int64_t n = T / (2 * cp), begin = chunk_of(cp, rank, i) * n;
        for (int64_t token = begin; token < begin + n; ++token) {
          int64_t first = 0;
          for (size_t d = 0; first + lengths[d] <= token; ++d) first += lengths[d];
          seen[static_cast<size_t>(rank)] += static_cast<double>(token - first + 1);
        }
      }
    const double mean = std::accumulate(seen.begin(), seen.end(), 0.0) / cp;
    std::string line = fmt::format("{:<34}", name);
    for (const double each : seen) line += fmt::format(" {:>7.2f}", each / mean);
    lesson.say("{}", line);
  }
}

// ---- FSDP and tp mixed ----

void mixture(Lesson& lesson, int64_t tokens) {
  const FsdpTpMixture m = pictured_mixture(static_cast<double>(tokens));
  lesson.section(
      fmt::format("FSDP and tp on 4096 v5p, {} tokens per chip: a layer, forward", tokens));
  lesson.say("{:>6} {:>6} {:>12} {:>12} {:>12} {:>12}", "X", "tp", "FSDP", "tp", "both",
             "computing");
  for (double X = 64; X <= 4096; X *= 2)
    lesson.say("{:>6.0f} {:>6.0f} {:>9.2f} ms {:>9.2f} ms {:>9.2f} ms {:>9.2f} ms", X, m.p / X,
               1e3 * mixture_fsdp_seconds(m, X), 1e3 * mixture_tp_seconds(m, X),
               1e3 * mixture_sent_seconds(m, X), 1e3 * mixture_math_seconds(m));
  lesson.say(
      "X_opt = {:.0f} by the formula, {} by trying; computing is longer from {:.0f} tokens per "
      "chip "
      "on",
      best_fsdp_ranks(m), best_fsdp_ranks_tried(m), least_tokens_per_chip(m));
  lesson.number("mixture.best", best_fsdp_ranks(m));
  lesson.number("mixture.least", least_tokens_per_chip(m));
}

// The fewest tokens per chip for which some X computes longer than it sends, found by trying.
void bound(Lesson& lesson) {
  lesson.section(
      "Fewest tokens per chip with which 4096 v5p are bound by FLOPs, by trying and by formula");
  lesson.say("{:>8} {:>14} {:>14} {:>14}", "F", "tried", "formula", "FSDP alone");
  for (const double F : {8192.0, 16384.0, 32768.0, 65536.0}) {
    const auto bound_by_flops = [&](double tokens, bool mixes) {
      FsdpTpMixture m = pictured_mixture(tokens);
      m.F = F;
      if (!mixes) return mixture_math_seconds(m) > mixture_fsdp_seconds(m, m.p);
      double least = 1e300;
      for (double X = 1; X <= m.p; X *= 1.01) least = std::min(least, mixture_sent_seconds(m, X));
      return mixture_math_seconds(m) > least;
    };
    const auto tried = [&](bool mixes) {
      int tokens = 1;
      while (!bound_by_flops(tokens, mixes)) ++tokens;
      return tokens;
    };
    FsdpTpMixture m = pictured_mixture(1);
    m.F = F;
    lesson.say("{:>8.0f} {:>14} {:>14.1f} {:>14}", F, tried(true), least_tokens_per_chip(m),
               tried(false));
  }
}

// ---- Llama 3 405B ----

struct RowRun {
  Llama3Row row;
  std::string layout;
  DescribedFigures found;
  double causal = 0, whole = 0;  // TFLOP/s per GPU, by what is counted of attention

  // Seconds that a step would take longer at the printed rate.
  double missing() const { return found.seconds * (causal / row.tflops - 1); }
};

// How the rows are run: as the paper trains, or with something changed.
struct RowOptions {
  int64_t again = 0;   // 0: nothing, 1: norms and SwiGLU, 2: every block
  int64_t slower = 0;  // 1: kernels as in a run, llama3_kernels
  int64_t pods = 0, pieces = 0;

  Recompute what() const {
    return again == 0 ? Recompute::none : again == 1 ? Recompute::pointwise : Recompute::all;
  }
  const char* machine() const { return pods != 0 ? "llama3-24k" : "h100x16384"; }
};

RowRun run_row(const Llama3Row& row, const RowOptions& options) {
  DescribedStep step = llama3_step(row, options.what());
  if (options.slower != 0) step.efficiency = llama3_kernels;
  if (options.pieces != 0) step.options.pieces = Pieces::both_ways;
  RowRun run{row, fmt::format("{} {} {} {}", step.shape.tp, row.cp, step.shape.pp, row.dp),
             run_described(as_seen_by(step.shape, cluster_named(options.machine())), step)};
  const double per = 1e12 * run.found.seconds * row.gpus;
  run.causal = causal_step_flops(step.config, step.batch, row.sequence) / per;
  run.whole = step_flops(step.config, step.batch, row.sequence) / per;
  return run;
}

void seconds_of_rows(Lesson& lesson, const std::vector<RowRun>& runs) {
  lesson.say("{:<20} {:>7} {:>9} {:>6} {:>6} {:>6} {:>7} {:>7}", "tp cp pp dp", "holds", "computed",
             "tp", "cp", "dp", "bubble", "step");
  for (const RowRun& run : runs) {
    double exposed[3] = {};  // tp, cp, dp
    for (const auto& [axes, seconds] : run.found.exposed)
      exposed[axes == "tp" ? 0 : axes == "cp" ? 1 : 2] += seconds;
    lesson.say("{:<20} {:>4.0f} GB {:>9.2f} {:>6.2f} {:>6.2f} {:>6.2f} {:>7.2f} {:>7.2f}",
               run.layout, static_cast<double>(run.found.bytes) / 1e9, run.found.computed,
               exposed[0], exposed[1], exposed[2], run.found.bubble, run.found.seconds);
  }
}

void rates_of_rows(Lesson& lesson, const std::vector<RowRun>& runs) {
  lesson.section("The same in TFLOP/s per GPU, by what is counted of attention");
  lesson.say("{:<20} {:>12} {:>12} {:>12} {:>9} {:>9}", "tp cp pp dp", "6 N alone", "causal",
             "all of it", "printed", "causal is");
  for (const RowRun& run : runs)
    lesson.say("{:<20} {:>12.0f} {:>12.0f} {:>12.0f} {:>9.0f} {:>+8.1f}%", run.layout,
               2 * run.causal - run.whole, run.causal, run.whole, run.row.tflops,
               100 * (run.causal / run.row.tflops - 1));
}

// By how much each term alone would have to grow to make up for what is missing.
void terms_of_rows(Lesson& lesson, const std::vector<RowRun>& runs) {
  lesson.section(
      "To the printed rate a step misses seconds: of which term would that be how much?");
  lesson.say("{:<20} {:>9} {:>12} {:>9} {:>9}", "tp cp pp dp", "missing", "of computed", "of tp",
             "of bubble");
  for (const RowRun& run : runs)
    lesson.say("{:<20} {:>7.2f} s {:>11.0f}% {:>8.0f}% {:>8.0f}%", run.layout, run.missing(),
               100 * run.missing() / run.found.computed,
               100 * run.missing() / run.found.exposed.at("tp"),
               100 * run.missing() / run.found.bubble);
}

void rows(Lesson& lesson, int64_t count, const RowOptions& options) {
  std::vector<RowRun> runs;
  for (int64_t i = 0; i < count; ++i) {
    runs.push_back(run_row(llama3_rows[i], options));
    lesson.number(fmt::format("tflops.{}.{}.{}", options.again, options.slower, i + 1),
                  runs.back().causal);
  }
  constexpr const char* again[] = {"nothing", "norms and SwiGLU", "every block"};
  lesson.section(fmt::format(
      "Llama 3 405B on {}: {} computed again, kernels as {}, seconds of a step", options.machine(),
      again[options.again], options.slower != 0 ? "in a run" : "timed alone"));
  seconds_of_rows(lesson, runs);
  rates_of_rows(lesson, runs);
  if (options.slower == 0 && options.again == 0) terms_of_rows(lesson, runs);
}

void draw(Lesson& lesson) {
  std::ofstream("mesh.svg") << mesh_svg();
  std::ofstream("fsdp_tp_mixture.svg") << mixture_svg();
  lesson.say("drawn in mesh.svg and fsdp_tp_mixture.svg");
}

}  // namespace

int main(int argc, char** argv) {
  int64_t tokens = 0, count = 0, drawn = 0;
  RowOptions options;
  return run_lesson(
      argc, argv, {"26", "The mesh of a whole run", "every axis at once"},
      [&](Lesson& lesson) {
        if (drawn != 0) draw(lesson);
        if (count > 0) return rows(lesson, count, options);
        if (tokens > 0) return mixture(lesson, tokens);
        mesh(lesson);
        order(lesson);
        gradients(lesson);
        sharded_stages(lesson);
        documents(lesson);
        mixture(lesson, 500);
        bound(lesson);
        rows(lesson, 1, {});
        rows(lesson, 1, {.again = 1, .slower = 1});
        lesson.say("\nNext: write it yourself, ./yotta check 26");
      },
      {{"tokens", "only FSDP and tp mixed: of a chip; 0: everything", &tokens, 0, 100000},
       {"rows", "only the first rows of Llama 3 405B, so many; 0: everything", &count, 0, 3},
       {"again", "the rows compute again: 0 nothing, 1 norms and SwiGLU, 2 every block",
        &options.again, 0, 2},
       {"slower", "1: the rows' kernels are 0.75 as fast as timed alone", &options.slower, 0, 1},
       {"pods", "1: the rows cross pods, which share 1:7", &options.pods, 0, 1},
       {"pieces", "1: the rows' tp is Async-TP, both ways", &options.pieces, 0, 1},
       {"draw", "1: write the page's pictures into this folder", &drawn, 0, 1}});
}
