// Lesson 28: which layout for this model, this batch and this cluster: memory, time, a search, its
// limits by hand, and four predictions.
#include <cctype>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <set>

#include "course/lesson/lesson.hpp"
#include "course/pictures/plan_sliders.hpp"
#include "course/pictures/planner_picture.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/parallel/fsdp_tp_mixture.hpp"
#include "yotta/parallel/gradient_groups.hpp"
#include "yotta/parallel/ring_attention.hpp"
#include "yotta/plan/calibration.hpp"
#include "yotta/plan/measured_rows.hpp"
#include "yotta/plan/mfu.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t gpus = 16, batch = 1, sequence = 8192, cards = 50, only = 0, predict = 0, draw = 0;
  int64_t guess = -1;
  std::string sliders = {};
};

// What rounding leaves of nothing is not printed as -0.
double none_below(double value) { return std::abs(value) < 1e-4 ? 0 : value; }
double percent(double share) { return none_below(100 * share); }
double gb(double bytes) { return bytes / 1e9; }

PlanRequest request_of(const TransformerConfig& config, int64_t gpus, int64_t tokens,
                       int64_t sequence) {
  PlanRequest request;
  request.config = config;
  request.config.dtype = DType::bf16;
  request.cluster = cluster_named(fmt::format("h100x{}", gpus));
  request.tokens = tokens, request.sequence = sequence;
  return request;
}
// What the options say of the search.
PlanRequest searched(const Sizes& sizes) {
  PlanRequest request = request_of(llama3_8b(), sizes.gpus, sizes.batch << 20, sizes.sequence);
  for (size_t i = 1; i < request.cluster.levels.size(); ++i)
    request.cluster.levels[i].beta = 1e-9 / static_cast<double>(sizes.cards);
  return request;
}
DescribedFigures run_of(const PlanRequest& request, const Layout& layout) {
  return run_described(as_seen_by(layout.shape, request.cluster), described(request, layout));
}

// ---- memory and time of a layout ---------------------------------------------------------------

HandLayout by_hand(const PlanRequest& request, const Layout& layout) {
  HandLayout hand;
  hand.shape = layout.shape, hand.batch = request.batch(), hand.sequence = request.sequence;
  hand.microbatch = request.batch() / layout.shape.data_ranks() / layout.microbatches;
  hand.chunks = layout.chunks, hand.zero = layout.zero > 0, hand.recomputed = layout.recomputed < 0;
  return hand;
}

// Ways to train Llama 3 70B on 256 H100, one after the other.
std::vector<Layout> seventy_layouts() {
  return {{.shape = {.dp_replicate = 256}, .microbatches = 2},
          {.shape = {.dp_replicate = 256}, .microbatches = 2, .zero = 1},
          {.shape = {.dp_shard = 256}, .microbatches = 2},
          {.shape = {.dp_shard = 256}, .microbatches = 2, .recomputed = -1},
          {.shape = {.tp = 8, .dp_replicate = 32},
           .sequence_parallel = true,
           .microbatches = 16,
           .zero = 1},
          {.shape = {.tp = 8, .pp = 4, .dp_replicate = 8},
           .sequence_parallel = true,
           .microbatches = 64,
           .zero = 1},
          {.shape = {.tp = 8, .cp = 2, .dp_shard = 4, .dp_replicate = 4},
           .sequence_parallel = true,
           .microbatches = 32}};
}
PlanRequest seventy() { return request_of(llama3_70b(), 256, int64_t{4} << 20, 8192); }

void memory(Lesson& lesson) {
  const PlanRequest request = seventy();
  lesson.section("Memory of the fullest GPU, GB: Llama 3 70B on 256 H100, 512 sequences of 8192");
  lesson.say("{:<54}{:>8}{:>7}{:>7}{:>8}{:>8}{:>9}", "", "weights", "grad.", "opt.", "activ.",
             "sum", "by hand");
  for (const Layout& layout : seventy_layouts()) {
    const MemoryParts m = estimate_step(request.cluster, described(request, layout)).memory;
    const HandMemory hand = memory_by_hand(counted_model(request.config), by_hand(request, layout));
    lesson.say("{:<54}{:>8.1f}{:>7.1f}{:>7.1f}{:>8.1f}{:>8.1f}{:>9.1f}", text_of(layout),
               gb(m.weights), gb(m.gradients), gb(m.optimizer), gb(m.activations + m.buffers),
               gb(m.bytes()), gb(hand.bytes()));
    lesson.number(fmt::format("memory.{}", text_of(layout)), m.bytes());
  }
}

void times(Lesson& lesson) {
  const PlanRequest request = seventy();
  lesson.section("A step by formula, seconds, and its MFU: those that fit");
  lesson.say("{:<54}{:>9}{:>7}{:>6}{:>7}{:>8}{:>7}{:>6}", "", "computed", "tp", "cp", "data",
             "bubble", "step", "MFU");
  for (const Layout& layout : seventy_layouts()) {
    StepEstimate e = estimate_step(request.cluster, described(request, layout));
    if (e.memory.bytes() > request.cluster.chip.memory) continue;
    lesson.say("{:<54}{:>9.2f}{:>7.2f}{:>6.2f}{:>7.2f}{:>8.2f}{:>7.2f}{:>5.1f}%", text_of(layout),
               e.time.computed, e.time[Exposed::tp], e.time[Exposed::cp], e.time[Exposed::data],
               none_below(e.bubble), e.seconds, percent(e.mfu));
    lesson.number(fmt::format("step.{}", text_of(layout)), e.seconds);
  }
}

// ---- the search --------------------------------------------------------------------------------

void say_layout(Lesson& lesson, const PlannedLayout& p) {
  lesson.say("{:<60}{:>7.3f} s{:>7.1f} GB{:>7.1f}%", text_of(p.layout), p.estimate.seconds,
             gb(p.estimate.memory.bytes()), percent(p.estimate.mfu));
}

// The same search on chips and links as software usually finds them.
void best_at_usual_rates(Lesson& lesson, const PlanRequest& request) {
  const Plan plan = make_plan(reached_request(request, stack_named("usual")));
  lesson.section("The same at the rates that software usually reaches");
  for (size_t i = 0; i < std::min<size_t>(5, plan.best.size()); ++i)
    say_layout(lesson, plan.best[i]);
}

void best_of(Lesson& lesson, const Plan& plan, const Sizes& sizes) {
  lesson.section(fmt::format("Llama 3 8B on {} H100, {} x 2^20 tokens in sequences of {}",
                             sizes.gpus, sizes.batch, sizes.sequence));
  lesson.say("{} layouts keep the rules, {} of them fit", plan.layouts, plan.fitting);
  lesson.number("layouts", static_cast<double>(plan.layouts));
  for (size_t i = 0; i < std::min<size_t>(5, plan.best.size()); ++i)
    say_layout(lesson, plan.best[i]);
}

// A reason without its numbers, up to the first mark.
std::string kind_of(const std::string& why) {
  std::string kind;
  for (const char c : why.substr(0, why.find_first_of(":;,")))
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
  return kind;
}

// The best of other meshes: three that nearly won, and three that did not.
void others_of(Lesson& lesson, const Plan& plan) {
  lesson.section("Why others lose");
  size_t said = 0;
  for (const PlannedLayout& p : plan.losers) {
    const bool early = said < 3;
    const bool much = p.estimate.seconds > 1.1 * plan.best[0].estimate.seconds;
    if (!early && !much) continue;
    lesson.say("{:<52} {}", text_of(p.layout), why_slower(p.estimate, plan.best[0].estimate));
    if (++said == 6) break;
  }
}

void refused_of(Lesson& lesson, const Plan& plan) {
  lesson.section("And why others cannot be: one of each kind");
  std::set<std::string> kinds;
  for (const RefusedLayout& each : plan.refused)
    if (kinds.insert(kind_of(each.why)).second) lesson.say("{}: {}", each.layout, each.why);
}

void frontier_of(Lesson& lesson, const Plan& plan) {
  lesson.section("The frontier: no layout is faster and smaller. Each line has 30% less memory");
  double last = 1e300;
  for (size_t i = plan.frontier.size(); i-- > 0;) {
    const double bytes = plan.frontier[i].estimate.memory.bytes();
    if (bytes > 0.7 * last) continue;
    say_layout(lesson, plan.frontier[i]);
    last = bytes;
  }
}

void confirmed(Lesson& lesson, const Plan& plan) {
  lesson.section("The best three, run under the clock");
  lesson.say("{:<60}{:>10}{:>10}{:>8}", "", "formula", "run", "apart");
  for (size_t i = 0; i < std::min<size_t>(3, plan.best.size()); ++i) {
    const Layout& layout = plan.best[i].layout;
    // The run mirrors ranks, for which links along each axis, and with cp of all but tp, are equal.
    const Cluster seen = as_seen_by(layout.shape, plan.request.cluster);
    const double found = estimate_step(seen, described(plan.request, layout)).seconds;
    const double run = run_of(plan.request, layout).seconds;
    lesson.say("{:<60}{:>8.3f} s{:>8.3f} s{:>7.2f}%", text_of(layout), found, run,
               percent(found / run - 1));
    lesson.number(fmt::format("confirmed.{}", i), found / run);
    if (found > 1.01 * plan.best[i].estimate.seconds)
      lesson.say("  with all links but those of tp as slow as the slowest; the search has {:.3f} s",
                 plan.best[i].estimate.seconds);
  }
}

void search(Lesson& lesson, const Sizes& sizes) {
  const Plan plan = make_plan(searched(sizes));
  best_of(lesson, plan, sizes);
  if (plan.best.empty()) return refused_of(lesson, plan);
  best_at_usual_rates(lesson, plan.request);
  others_of(lesson, plan);
  refused_of(lesson, plan);
  frontier_of(lesson, plan);
  confirmed(lesson, plan);
}

// ---- calibration -------------------------------------------------------------------------------

// A cluster that is not as described: matrix products reach 60% of the peak, cards 35 GB/s. It
// stands for a real one.
PlanRequest slower(PlanRequest request) {
  request.efficiency.matmul = 0.6;
  request.cluster.levels[1].beta = 1 / 35e9;
  return request;
}

void calibration(Lesson& lesson) {
  const PlanRequest described_as = planner_request(), real = slower(planner_request());
  const std::vector<Layout> layouts = {
      {.shape = {.dp_shard = 8, .dp_replicate = 2}, .microbatches = 8},
      {.shape = {.dp_shard = 16}, .microbatches = 8},
      {.shape = {.tp = 8, .dp_replicate = 2},
       .sequence_parallel = true,
       .microbatches = 8,
       .zero = 1},
      {.shape = {.tp = 4, .pp = 2, .dp_replicate = 2},
       .sequence_parallel = true,
       .microbatches = 8,
       .zero = 1}};
  std::vector<MeasuredStep> measured;
  for (const Layout& each : layouts)
    measured.push_back({described(described_as, each), run_of(real, each).seconds});
  const MeasuredStep kept_back = measured.back();
  measured.pop_back();
  const Calibration fit = calibrate(described_as.cluster, described_as.efficiency, measured);
  const Cluster after = calibrated(described_as.cluster, fit);
  lesson.section(
      "Calibration: three steps of a cluster that is slower than described, and a fourth");
  lesson.say("{:<52}{:>11}{:>11}{:>11}", "", "measured", "before", "after");
  measured.push_back(kept_back);
  for (size_t i = 0; i < layouts.size(); ++i) {
    DescribedStep step = measured[i].step;
    const double before = estimate_step(described_as.cluster, step).seconds;
    step.efficiency = fit.efficiency;
    lesson.say("{:<52}{:>9.3f} s{:>9.3f} s{:>9.3f} s{}", text_of(layouts[i]), measured[i].seconds,
               before, estimate_step(after, step).seconds, i == 3 ? "  kept back" : "");
  }
  lesson.show(text_of(described_as.cluster, fit));
  lesson.number("calibration.before", fit.error_before);
  lesson.number("calibration.after", fit.error_after);
}

// ---- what others have measured ---------------------------------------------------------------

const std::vector<MeasuredRow>& measured() {
  static const std::string path = YOTTA_SOURCE_DIR "/course/data/measured_steps.tsv";
  static const std::vector<MeasuredRow> rows = measured_rows(read_file(path), path);
  return rows;
}

// B200's kernels, NVLink's share and the seconds of a message are from tables of a source's own
// publisher. Without them: an H100's kernels, links at their full rate, the wire's latency.
SourceErrors without_publisher(std::string_view source) {
  std::vector<MeasuredRow> rows = measured();
  std::erase_if(
      rows, [&](const MeasuredRow& row) { return row.source.find(source) == std::string::npos; });
  for (MeasuredRow& row : rows) row.request.cluster.chip.name = "unmeasured";
  return errors_by_source(unseen_errors(rows, {Cause::links, Cause::latency})).back();
}

// Errors of the default, of numbers that a source had no part in, and of those fitted to it.
void errors(Lesson& lesson) {
  lesson.section("Steps that others have measured: error of the predicted time, and of memory, %");
  const auto of = [](const std::vector<RowError>& errors) { return errors_by_source(errors); };
  const auto usual = of(row_errors(measured(), &stack_named("usual"))),
             others = of(unseen_errors(measured())), own = of(row_errors(measured(), nullptr));
  lesson.say("{:<50}{:>5}{:>14}{:>14}{:>14}{:>13}", "", "rows", "usual", "others", "own", "memory");
  for (size_t i = 0; i < usual.size(); ++i) {
    const auto both = [](double mean, double worst) {
      return fmt::format("{:.1f} / {:.0f}", percent(mean), percent(worst));
    };
    const bool has_bytes = own[i].rows_with_bytes > 0;
    lesson.say("{:<50}{:>5}{:>14}{:>14}{:>14}{:>13}", usual[i].source, usual[i].rows,
               both(usual[i].mean, usual[i].worst), both(others[i].mean, others[i].worst),
               both(own[i].mean, own[i].worst),
               has_bytes ? both(own[i].bytes_mean, own[i].bytes_worst) : "");
    lesson.number("errors." + usual[i].source, others[i].mean);
  }
  lesson.say(
      "mean / worst. others: by numbers fitted to all other sources; own: fitted to this one, "
      "Mixtral's with SimuMax's");
  const SourceErrors bare = without_publisher("SimuMax");
  double sum = others.back().mean * others.back().rows;
  for (const SourceErrors& each : others)
    if (each.source.find("SimuMax") != each.source.npos) sum += bare.rows * (bare.mean - each.mean);
  lesson.say(
      "SimuMax's rows without its publisher's own tables: {:.1f} / {:.0f}; the mean of all is then "
      "{:.1f}",
      percent(bare.mean), percent(bare.worst), percent(sum / others.back().rows));
}

// The row of which a step changes most, and by how much.
std::pair<std::string, double> most_changed(const std::vector<RowError>& with,
                                            const std::vector<RowError>& without) {
  std::pair<std::string, double> most;
  for (size_t i = 0; i < with.size(); ++i) {
    const double change = without[i].estimate.seconds / with[i].estimate.seconds - 1;
    if (std::abs(change) > std::abs(most.second)) most = {with[i].row->id, change};
  }
  return most;
}

void causes(Lesson& lesson) {
  lesson.section("What each cause costs when it is left out");
  const auto with = unseen_errors(measured());
  const auto say = [&](const char* left_out, const std::vector<RowError>& without) {
    double change = 0;
    for (size_t i = 0; i < with.size(); ++i)
      change += without[i].estimate.seconds / with[i].estimate.seconds - 1;
    const SourceErrors all = errors_by_source(without).back();
    const auto [row, by] = most_changed(with, without);
    lesson.say("{:<14}{:>7.1f}%{:>8.1f}%{:>+9.1f}%  {}", left_out, percent(all.mean),
               percent(all.bytes_mean), percent(change / static_cast<double>(with.size())),
               row.empty() ? "" : fmt::format("{} {:+.0f}%", row, percent(by)));
    lesson.number(fmt::format("without.{}", left_out), all.mean);
  };
  lesson.say("{:<14}{:>8}{:>9}{:>10}  {}", "left out", "error", "memory", "steps", "changes most");
  say("nothing", with);
  Causes all;
  for (size_t i = 0; i < cause_names.size(); ++i) {
    all.push_back(static_cast<Cause>(i));
    say(cause_names[i], unseen_errors(measured(), {all.back()}));
  }
  say("all of them", unseen_errors(measured(), all));
}

// ---- limits by hand ----------------------------------------------------------------------------

void thresholds(Lesson& lesson) {
  lesson.section(
      "Tokens a chip from which FSDP's trips are hidden: P / W, and chips for 16M tokens");
  struct Row {
    const char* name;
    BatchLimits limits;
  };
  for (const Row& row : {Row{"TPU v5p, one axis", v5p_limits(16e6, 8192, 1)},
                         {"TPU v5p, three axes", v5p_limits(16e6, 8192, 3)},
                         {"H100, across nodes, eight cards", h100_limits(16e6, 8192)},
                         {"H100, across nodes, one ring", h100_limits(16e6, 8192, true)}}) {
    const BatchLimits& l = row.limits;
    lesson.say("{:<34}{:>7.0f} TFLOP/s{:>6.0f} GB/s{:>8.0f} tokens{:>8.0f} chips", row.name,
               l.flops / 1e12, l.sends / 1e9, flops_per_sent_byte(l.flops, l.sends),
               std::floor(chips_hidden(l)));
    lesson.number(fmt::format("tokens.{}", row.name), flops_per_sent_byte(l.flops, l.sends));
  }
}

void four_cases(Lesson& lesson) {
  lesson.section("Four cases on H100, eight cards a node");
  struct Row {
    double batch, sequence, chips;
  };
  for (const Row& r :
       {Row{4e6, 8192, 256}, {8e6, 8192, 2000}, {8e6, 2048, 3600}, {8e6, 8192, 4000}}) {
    const LimitCase reached = limit_case(h100_limits(r.batch, r.sequence), r.chips);
    lesson.say("B {:.0f}M, T {}, {} chips, {:>5.0f} tokens each: {}", r.batch / 1e6, r.sequence,
               r.chips, r.batch / r.chips, name(reached));
    lesson.say("    {}", what_helps(h100_limits(r.batch, r.sequence), reached));
  }
  BatchLimits capped = h100_limits(16e6, 8192);
  capped.critical = 4e6;
  lesson.say(
      "B 16M and a critical batch of 4M: sequences for {:.0f} chips, trips hidden up to {:.0f}",
      chips_with_sequence(capped), chips_hidden(capped));
}

// How far the axes of a model of this width carry, and what the axes themselves allow.
void reach(Lesson& lesson, const char* chip, BatchLimits limits, MostRanks most,
           const char* fsdp = "FSDP alone") {
  const auto say = [&](const char* axes, const MeshShape& shape) {
    const FedChips fed = fed_chips(limits, shape);
    lesson.say("{:<10}{:>8.0f}  {:<26}{:>9.0f}{:>15.0f}{:>9.0f}", chip, limits.sequence, axes,
               fed.by_batch, fed.by_communication, fed.most());
    lesson.number(fmt::format("reach.{}.{}.{}", chip, limits.sequence, axes), fed.most());
  };
  const int tp = most.tp, cp = most.cp, pp = most.pp;
  say(fsdp, {});
  say(fmt::format("cp {}", cp).c_str(), {.cp = cp});
  say(fmt::format("pp {}", pp).c_str(), {.pp = pp});
  say(fmt::format("tp {}", tp).c_str(), {.tp = tp});
  say(fmt::format("tp {}, pp {}", tp, pp).c_str(), {.tp = tp, .pp = pp});
  say(fmt::format("tp {}, cp {}, pp {}", tp, cp, pp).c_str(), {.tp = tp, .cp = cp, .pp = pp});
}

void reaches(Lesson& lesson) {
  const double batch = int64_t{16} << 20;
  lesson.section("Llama 3 405B, 16 x 2^20 tokens: how many chips axes can feed");
  lesson.say("{:<10}{:>8}  {:<26}{:>9}{:>15}{:>9}", "", "T", "", "by batch", "communication",
             "chips");
  reach(lesson, "H100", h100_limits(batch, 8192), {8, 2, 16});
  reach(lesson, "H100", h100_limits(batch, 131072), {8, 16, 16});
  reach(lesson, "TPU v5p", v5p_limits(batch, 8192, 2), {8, 2, 16}, "FSDP on two axes");
  const Chip &h100 = chip_named("h100"), &v5p = chip_named("v5p");
  lesson.say("an axis's own limit: tp < F W / P = {:.0f} (H100, NVLink), {:.0f} (v5p, one axis);",
             most_tensor_parallel(53248, h100.bf16, h100.link),
             most_tensor_parallel(53248, v5p.bf16, 2 * v5p.link));
  lesson.say(
      "cp: {:.0f} tokens per rank and more over cards, one card each (H100), {:.0f} over a link "
      "(v5p)",
      ring_hidden_tokens(h100.bf16, 50e9, 2, 128, 8),
      ring_hidden_tokens(v5p.bf16, v5p.link, 2, 128, 8));
}

// alpha log2 p <= (n / P - beta) bytes, for a block of three models.
void latency(Lesson& lesson) {
  lesson.section(
      "Latency: ranks over which a block's all_gather hides behind 4096 tokens, 3 us, "
      "eight cards");
  const Chip& h100 = chip_named("h100");
  for (const auto& [name, config] : {std::pair{"GPT-2, 124M", gpt2_124m()},
                                     {"Llama 3 8B", llama3_8b()},
                                     {"Llama 3 405B", llama3_405b()}}) {
    const double bytes = 2.0 * static_cast<double>(block_parameters(config));
    const AlphaBeta link{3e-6, 1 / h100_limits(1, 1).sends, 0};
    const double powers = std::log2(most_ranks_by_latency(link, bytes, 4096, h100.bf16));
    lesson.say(
        "{:<14}{:>6.0f} MB per block: {}", name, bytes / 1e6,
        powers > 30 ? "as many as there are" : fmt::format("2^{:.0f} ranks", std::floor(powers)));
  }
}

void limits(Lesson& lesson) {
  thresholds(lesson);
  four_cases(lesson);
  reaches(lesson);
  latency(lesson);
}

// ---- the recipe --------------------------------------------------------------------------------

// The techniques of each model along the numbers of GPUs.
void recipes_of(Lesson& lesson, int64_t sequence, const Stack* stack, EstimateCache& cache) {
  std::string head = fmt::format("T {:<9}", sequence);
  for (const int chips : recipe_chips) head += fmt::format("{:>14}", chips);
  lesson.say("{}", head);
  for (const RecipeModel& model : recipe_models()) {
    std::string line = fmt::format("{:<11}", model.name);
    for (const int chips : recipe_chips) {
      const std::optional<Recipe> found =
          recipe_for(recipe_request(model, chips, sequence, stack), cache);
      const bool again = found && found->chosen.layout.recomputed != 0;
      line += fmt::format("{:>14}",
                          !found ? "-" : techniques_of(found->chosen.layout) + (again ? "*" : ""));
    }
    lesson.say("{}", line);
  }
}

// At the rates of a stack; nullptr: ideal ones.
void recipes(Lesson& lesson, const Stack* stack) {
  lesson.section(fmt::format(
      "The fewest techniques within 5% of the fastest, at {} rates: 16M tokens per step on H100",
      stack == nullptr ? "ideal" : stack->name));
  EstimateCache cache;
  for (const int64_t sequence : recipe_sequences) recipes_of(lesson, sequence, stack, cache);
  lesson.say("* blocks are recomputed   - nothing fits");
  std::string shares;
  for (const int chips : recipe_chips) {
    const auto found =
        recipe_for(recipe_request(recipe_models()[0], chips, recipe_sequences[0], stack), cache);
    shares += fmt::format("{:>13.0f}%", percent(found->chosen.estimate.mfu));
  }
  lesson.say("MFU of 1.5B{}", shares);
}

// ---- Llama 3 70B on TPUs and GPUs --------------------------------------------------------------

void worked_run(Lesson& lesson, const char* name, const Chip& chip, double chips,
                const BatchLimits& l, MostRanks most, const char* fsdp = "FSDP alone") {
  const TrainingRun run{70e9, 15e12, chips, chip.bf16, chip.memory, 0.4};
  const RunAnswer answer = run_answer(run);
  lesson.say("{}, {:.0f} chips: {:.1e} FLOPs; at an MFU of 40% {:.1f} days", name, chips,
             answer.flops, answer.days);
  lesson.say("  {:.0f} chips would hold it, and {:.0f} would take 30 days", answer.least_chips,
             answer.month_chips);
  lesson.say("  {:.0f} tokens per chip, and {} wants {:.0f}: {}", l.batch / chips, fsdp,
             flops_per_sent_byte(l.flops, l.sends), yotta::name(limit_case(l, chips)));
  const MeshShape shape = axes_to_feed(l, chips, most);
  lesson.say("  {} and data parallelism feed up to {:.0f} chips", describe(shape),
             fed_chips(l, shape).most());
  lesson.number(fmt::format("worked.{}.days", name), answer.days);
}

void worked(Lesson& lesson) {
  lesson.section("Llama 3 70B, 15e12 tokens, batches of 4 x 2^20 in sequences of 4096");
  const Chip &v5p = chip_named("v5p"), &h100 = chip_named("h100");
  const double batch = int64_t{4} << 20;
  lesson.say("TPU v5p, FSDP on all three axes, 8960 chips: {:.0f} tokens each, {:.0f} are wanted",
             batch / 8960, flops_per_sent_byte(v5p.bf16, v5p_limits(batch, 4096, 3).sends));
  worked_run(lesson, "TPU v5p, FSDP on two axes, tp on one", v5p, 8960, v5p_limits(batch, 4096, 2),
             {8, 4, 16}, "FSDP on two axes");
  FsdpTpMixture m{batch, 8192, 28672, 8960, v5p.bf16, 2 * v5p.link, 2, 1};
  lesson.say("  mixed, {:.0f} tokens per chip are enough; X = {:.0f} chips for FSDP, tp {:.1f}",
             least_tokens_per_chip(m), best_fsdp_ranks(m), m.p / best_fsdp_ranks(m));
  worked_run(lesson, "H100, nodes of 8", h100, 4096, h100_limits(batch, 4096), {8, 4, 16});
  lesson.say("the other way round: 4096 H100 that took 60 days had an MFU of {:.0f}%",
             percent(mfu_of_days({70e9, 15e12, 4096, h100.bf16, h100.memory}, 60)));
}

// ---- predictions -------------------------------------------------------------------------------

struct Prediction {
  const char* asks;
  double (*runs)(Lesson& lesson);  // says what it finds, and returns the answer, %
};

double run_and_say(Lesson& lesson, const PlanRequest& request, const Layout& layout,
                   DescribedFigures* figures = nullptr) {
  const DescribedFigures run = run_of(request, layout);
  lesson.say("  {:<52}{:>7.2f} s{:>6.1f}% bubble{:>6.1f} GB", text_of(layout), run.seconds,
             percent(run.bubble / run.seconds), gb(static_cast<double>(run.bytes)));
  if (figures != nullptr) *figures = run;
  return run.seconds;
}

double more_stages(Lesson& lesson) {
  const PlanRequest request = request_of(llama3_70b(), 128, 16 * 8192, 8192);
  DescribedFigures run;
  for (const int pp : {2, 4, 8, 16}) {
    Layout layout{.shape = {.tp = 8, .pp = pp, .dp_replicate = 16 / pp}, .sequence_parallel = true};
    layout.microbatches = pp, layout.zero = pp < 16;
    run_and_say(lesson, request, layout, &run);
    lesson.say("  {:>59.1f}% if all stages were equal",
               percent(bubble_by_hand(by_hand(request, layout))));
  }
  return percent(run.bubble / run.seconds);
}
double all_again(Lesson& lesson) {
  const PlanRequest request = request_of(llama3_8b(), 64, int64_t{4} << 20, 8192);
  Layout layout{.shape = {.dp_shard = 8, .dp_replicate = 8}, .microbatches = 8};
  const double once = run_and_say(lesson, request, layout);
  layout.recomputed = -1;
  return percent(run_and_say(lesson, request, layout) / once - 1);
}
double over_all(Lesson& lesson) {
  const PlanRequest request = request_of(llama3_8b(), 64, int64_t{4} << 20, 8192);
  const double node = run_and_say(lesson, request,
                                  {.shape = {.dp_shard = 8, .dp_replicate = 8}, .microbatches = 8});
  return percent(
      run_and_say(lesson, request, {.shape = {.dp_shard = 64}, .microbatches = 8}) / node - 1);
}
double longer(Lesson& lesson) {
  double before = 0, now = 0;
  for (const int64_t sequence : {8192, 131072}) {
    const PlanRequest request = request_of(llama3_8b(), 8, int64_t{1} << 18, sequence);
    Layout layout{.shape = {.cp = 8}, .zero = 1};
    layout.microbatches = request.batch();
    before = std::exchange(now, run_and_say(lesson, request, layout));
  }
  return percent(now / before - 1);
}

constexpr Prediction predictions[] = {
    {"Llama 3 70B on 128 H100, 16 sequences per step: tp 8, pp 2 and dp 8.\n"
     "GPUs and batch stay. How many % of the step is the bubble with pp 16?",
     more_stages},
    {"Llama 3 8B on 64 H100, HSDP in nodes of 8. All blocks are recomputed.\n"
     "How many % longer is a step?",
     all_again},
    {"Llama 3 8B on 64 H100, 8 microbatches: FSDP over all 64 instead of HSDP in nodes of 8.\n"
     "How many % longer is a step?",
     over_all},
    {"Llama 3 8B on a node of 8 H100, cp 8, 2^18 tokens per step: sequences of 131,072 tokens "
     "instead "
     "of 8192.\nHow many % longer is a step?",
     longer}};

void predict(Lesson& lesson, const Sizes& sizes) {
  const Prediction& asked = predictions[sizes.predict - 1];
  lesson.section(fmt::format("Prediction {}", sizes.predict));
  lesson.say("{}", asked.asks);
  double guess = static_cast<double>(sizes.guess);
  if (sizes.guess < 0) {
    lesson.show("your prediction, %: ");
    if (!(std::cin >> guess)) {
      lesson.say("none. Give one: --predict {} --guess 10", sizes.predict);
      return;
    }
  }
  const double found = asked.runs(lesson);
  lesson.say("the run: {:.1f}%; you: {:.0f}%", found, guess);
  lesson.number(fmt::format("prediction.{}", sizes.predict), found);
}

void list_predictions(Lesson& lesson) {
  lesson.section("Four predictions: ./yotta lesson 28 -- --predict 1 asks you before it runs");
  int number = 0;
  for (const Prediction& each : predictions) lesson.say("{}. {}", ++number, each.asks);
}

void draw() {
  std::ofstream("planner_frontier.svg") << frontier_svg(make_plan(planner_request()));
  std::ofstream("planner_cases.svg") << cases_svg();
  std::ofstream("planner_recipe.svg") << recipe_svg();
}

// The page that notebook 28 shows.
void write_sliders(Lesson& lesson, const std::string& path) {
  std::ofstream file(path);
  if (!file) fail(Where::current(), "cannot write {}", path);
  const SliderTable table = plan_table(plan_sliders_title, llama3_8b());
  file << slider_page(table);
  lesson.say("{} plans in {}: open it in a browser", table.points.size(), path);
  lesson.show(slider_row(table, start_of(table)));
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(
      argc, argv, {"28", "The planner", "which layout: memory, time, a search, and limits by hand"},
      [&](Lesson& lesson) {
        if (!sizes.sliders.empty()) return write_sliders(lesson, sizes.sliders);
        if (sizes.predict > 0) return predict(lesson, sizes);
        const auto wanted = [&](int part) { return sizes.only == 0 || sizes.only == part; };
        if (wanted(1)) memory(lesson), times(lesson);
        if (wanted(2)) search(lesson, sizes);
        if (wanted(7)) calibration(lesson);
        if (wanted(8)) errors(lesson), causes(lesson);
        if (wanted(3)) limits(lesson);
        if (wanted(4)) recipes(lesson, &stack_named("usual")), recipes(lesson, nullptr);
        if (wanted(5)) worked(lesson);
        if (wanted(6)) list_predictions(lesson);
        if (sizes.draw == 1) draw();
        lesson.say("\nNext: write it yourself, ./yotta check 28");
      },
      {{"gpus", "part 2: H100 in nodes of 8", &sizes.gpus, 1, 256},
       {"batch", "part 2: tokens of a step, in 2^20", &sizes.batch, 1, 64},
       {"sequence", "part 2: tokens of a sequence", &sizes.sequence, 512, 1 << 20},
       {"cards", "part 2: GB/s of a network card", &sizes.cards, 1, 1000},
       {"only",
        "1: memory and time, 2: the search, 3: limits, 4: recipe, 5: Llama 3 70B, 6: "
        "questions, 7: calibration, 8: what others measured",
        &sizes.only, 0, 8},
       {"predict", "which question to predict, 1 to 4, before its run answers", &sizes.predict, 0,
        4},
       {"guess", "your prediction, %; without it the program asks", &sizes.guess, 0, 100000},
       {"sliders", "write a page with sliders to FILE, and nothing else", nullptr, 0, 0,
        &sizes.sliders},
       {"draw", "1: write planner_frontier.svg, _cases.svg and _recipe.svg into this folder",
        &sizes.draw, 0, 1}});
}
