// ./yotta plan: which layout trains a model fastest on a cluster, and why each other one loses.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <optional>
#include <sstream>

#include "course/options/console.hpp"
#include "course/options/json_object.hpp"
#include "course/options/options.hpp"
#include "course/pictures/planner_picture.hpp"
#include "course/plan/plan_text.hpp"
#include "course/plan/request.hpp"
#include "course/plan/rows_text.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/machine/files/cluster_file.hpp"
#include "yotta/parallel/gradient_groups.hpp"
#include "yotta/plan/launch_options.hpp"

using namespace yotta;

namespace {

struct Arguments {
  std::string model = "llama3-8b", cluster = "h100x64", tokens = "4M", critical, dtype = "bf16";
  int64_t sequence = 0;
  double reserve = 0;
  int64_t loss_tokens = 0;
  int confirm = 3, best = 10, losers = 12;
  std::string svg, json, calibrate;
  std::string stack = "usual", without, rows, layout;
  int64_t microbatches = 1;
  int cards = 0;
  bool fit = false, fp8 = false;
};

std::vector<std::string> stack_names() {
  std::vector<std::string> names;
  for (const Stack& each : known_stacks) names.push_back(each.name);
  return names;
}
void add_request_options(Options& to, Arguments& a) {
  to.heading("What is trained, on what");
  to.add("--model", a.model,
         "gpt2, llama3-8b, llama3-70b, llama3-405b, mixtral-8x7b, deepseek-v3; or a config.json, "
         "ours or "
         "Hugging Face's, or its folder",
         not_empty());
  to.add("--cluster", a.cluster, "a chip and how many, as h100x64; llama3-24k; or a .json file",
         not_empty());
  to.add("--tokens", a.tokens, "of a batch, over all chips; 16M is 16 x 2^20", not_empty());
  to.add("--seq", a.sequence, "tokens in a sequence; 0: the model's own, 8192 at most",
         at_least(0));
  to.add("--dtype", a.dtype, "of weights and activations", one_of({"bf16", "f32"}));
  to.add_flag("--fp8", a.fp8, "products with weights in fp8; all else as --dtype says");
  to.add("--critical-batch", a.critical,
         "tokens from which larger batches no longer help: the batch is at most as large",
         not_empty());
  to.add("--calibrate", a.calibrate,
         "a log of measured steps (JSON of train, or a table; with the columns model and cluster "
         "of several): fits efficiencies and bandwidths, and says the error on steps left out",
         called("LOG"));
  to.add("--cards", a.cards, "network cards that a node's chips share; 0: each chip has its own",
         in_range(0, 1024));
  to.add("--stack", a.stack,
         fmt::format("what the software reaches of its chips: {}; or ideal: kernels as when timed "
                     "alone, links at their full rate; with --rows also own, that of each source, "
                     "and others, fitted to all sources but a row's own. A stack is five fitted "
                     "numbers, and up to three known facts (docs/clusters.md)",
                     fmt::join(stack_names(), ", ")),
         not_empty());
  to.add("--without", a.without,
         fmt::format("causes that the prediction leaves out, with commas: {}",
                     fmt::join(cause_names, ", ")),
         not_empty());
  to.add("--loss-tokens", a.loss_tokens,
         "tokens of a microbatch whose logits exist at once, in layouts without fsdp and Async-TP; "
         "0: all",
         at_least(0));
  to.add("--reserve", a.reserve,
         "GB of a chip's memory that stay free, for what no formula counts");
}
void add_question_options(Options& to, Arguments& a) {
  to.heading("In place of a search");
  to.add("--rows", a.rows,
         "measured steps (a table as course/data/measured_steps.tsv): predicts each at its own "
         "layout, and says by how much it is off",
         called("FILE"));
  to.add_flag(
      "--fit", a.fit,
      "of --rows: fits the five numbers of --stack to them, and says the error on rows that "
      "were left out");
  to.add("--layout", a.layout, "one layout, as tp=8,pp=16,dp=2,tp_kind=sp,chunks=2,zero=1",
         called("AXES"));
  to.add("--microbatches", a.microbatches, "of --layout: of each data-parallel rank", at_least(1));
}
void add_output_options(Options& to, Arguments& a) {
  to.heading("What is shown");
  to.add("--best", a.best, "layouts in the table", in_range(1, 100));
  to.add("--losers", a.losers, "lines that say why others lose, of either kind",
         in_range(0, 10000));
  to.add("--confirm", a.confirm, "so many of the best are run under the clock; 0: none",
         in_range(0, 10));
  to.add("--svg", a.svg, "write the picture to this file", called("FILE"));
  to.add("--json", a.json, "write the best and the refused to this file", called("FILE"));
}

// `cards` network cards for all chips of a node.
void share_cards(int cards, Cluster& cluster) {
  if (cards == 0 || cluster.levels.size() < 2) return;
  const double chips = cluster.levels[0].chips;
  for (size_t i = 1; i < cluster.levels.size(); ++i) cluster.levels[i].beta *= chips / cards;
}

Causes causes_of(const std::string& text) {
  Causes causes;
  std::istringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) causes.push_back(cause_named(name));
  return causes;
}
// Of --stack. `ideal`, `own` and `others` are none.
const Stack& stack_of(const Arguments& a) {
  std::vector<std::string> names = stack_names();
  if (std::find(names.begin(), names.end(), a.stack) != names.end()) return stack_named(a.stack);
  if (a.rows.empty()) names.push_back("ideal");
  if (!a.rows.empty() && !a.fit) names.insert(names.end(), {"own", "others"});
  fail(Where::current(), "--stack {}: there is no stack '{}' {}; known are {}", a.stack, a.stack,
       a.fit            ? "to be fitted"
       : a.rows.empty() ? "for a search or a layout"
                        : "for --rows",
       fmt::join(names, ", "));
}
// What the software reaches of it.
void reach_stack(const Arguments& a, PlanRequest& request) {
  if (a.stack == "ideal") return;
  if (a.stack == "own" || a.stack == "others")
    fail(Where::current(), "--stack {} is for --rows; a search takes ideal or one of {}", a.stack,
         fmt::join(stack_names(), ", "));
  request = reached_request(request, stack_of(a), causes_of(a.without));
}

void reach(const Arguments& a, PlanRequest& request) {
  reach_stack(a, request);
  request.efficiency.fp8 = a.fp8;
}

PlanRequest request_of(const Arguments& a) {
  PlanRequest request;
  request.config = model_from(a.model);
  request.config.dtype = a.dtype == "bf16" ? DType::bf16 : DType::f32;
  request.config.dropout = request.config.attention_dropout = 0;
  request.config.attention = AttentionKind::blockwise;
  request.cluster = cluster_from(a.cluster);
  share_cards(a.cards, request.cluster);
  request.sequence = a.sequence > 0 ? a.sequence : std::min<int64_t>(8192, request.config.context);
  request.tokens = parse_count("--tokens", a.tokens);
  request.reserve = 1e9 * a.reserve;
  request.loss_tokens = a.loss_tokens;
  if (!a.critical.empty()) request.critical_batch = parse_count("--critical-batch", a.critical);
  if (a.fp8 && request.cluster.chip.fp8 == 0)
    fail(Where::current(), "--fp8: {} has no fp8; h100, h200 and b200 have",
         request.cluster.chip.name);
  request.check();
  return request;
}

void calibrate_with(const Arguments& a, PlanRequest& request) {
  const auto measured =
      measured_steps(a.calibrate, request, [&](PlanRequest& of_row) { reach(a, of_row); });
  const Calibration found = calibrate(request.cluster, request.efficiency, measured.steps);
  const size_t count = measured.steps.size();
  fmt::print("Calibrated with {} measured step{}:\n{}\n", count, count == 1 ? "" : "s",
             text_of(request.cluster, found));
  if (!measured.names_model)
    fmt::print("The log names no model: its runs are taken for runs of --model.\n\n");
  request.cluster = calibrated(request.cluster, found);
  request.efficiency = found.efficiency;
}

// The same layout with no more microbatches than show what happens: later ones repeat it.
int64_t enough(const Layout& layout) { return int64_t{2} * layout.shape.pp; }
DescribedStep shortened(const PlanRequest& request, const Layout& layout) {
  Layout fewer = layout;
  DescribedStep step = described(request, layout);
  if (layout.microbatches <= enough(layout)) return step;
  fewer.microbatches = enough(layout);
  const int64_t sequences = request.batch() / layout.shape.data_ranks() / layout.microbatches;
  step = described(request, fewer);
  step.batch = enough(layout) * sequences * layout.shape.data_ranks();
  return step;
}

// One of the best: what the search says of so many microbatches, the same with the links of the
// run, and the run.
std::vector<std::string> confirmed(const Plan& plan, size_t i) {
  const DescribedStep step = shortened(plan.request, plan.best[i].layout);
  if (step.pp_outermost) return {std::to_string(i + 1), "", "", "", "pp is inside in code"};
  const Cluster seen = as_seen_by(step.shape, plan.request.cluster);
  // On the clock collectives take nothing from kernels, FSDP's run beside them, and all cards work.
  DescribedStep alone = step;
  alone.efficiency.interference = 0, alone.by_matrix = alone.one_ring = false;
  const StepEstimate searched = estimate_step(plan.request.cluster, step),
                     formula = estimate_step(seen, alone);
  const DescribedFigures run = run_described(seen, alone);
  return {std::to_string(i + 1),
          std::to_string(step.options.microbatches),
          fmt::format("{:.4g}", searched.seconds),
          fmt::format("{:.4g}", formula.seconds),
          fmt::format("{:.4g}", run.seconds),
          fmt::format("{:+.1f}%", 100 * (formula.seconds / run.seconds - 1)),
          fmt::format("{:.4g}", formula.memory.bytes() / 1e9),
          fmt::format("{:.4g}", static_cast<double>(run.bytes) / 1e9)};
}

// Runs the best under the clock: the code itself, one live rank a stage.
void confirm(const Plan& plan, int count) {
  const auto most = std::min<size_t>(static_cast<size_t>(count), plan.best.size());
  if (most == 0) return;
  console::Progress progress("running", static_cast<int64_t>(most));
  console::Table table(
      {"", "microbatches", "search s", "formula s", "run s", "off", "formula GB", "run GB"});
  bool has_cp = false, is_shorter = false;
  for (size_t i = 0; i < most; ++i) {
    progress.update(static_cast<int64_t>(i), text_of(plan.best[i].layout));
    table.row(confirmed(plan, i));
    is_shorter = is_shorter || plan.best[i].layout.microbatches > enough(plan.best[i].layout);
    has_cp = has_cp || plan.best[i].layout.shape.cp > 1 || plan.best[i].layout.shape.ep > 1;
  }
  progress.update(static_cast<int64_t>(most));
  progress.finish();
  fmt::print("Run under the clock, with links as slow as the slowest of each group:\n{}",
             table.text());
  if (is_shorter)
    fmt::print(
        "Steps of more microbatches are run with 2 for each stage: later ones repeat them.\n");
  if (has_cp)
    fmt::print(
        "With cp or ep the run gives all axes that sum gradients the slowest link of them, and so "
        "does \"formula\"; the search gives each its own.\n");
  fmt::print("\n");
}

// A folder with weights is loaded; a model without has its sizes in the command.
TrainFrom train_from(const Arguments& a) {
  const std::filesystem::path path = a.model;
  const bool is_folder = std::filesystem::is_directory(path);
  const auto has = [&](const char* name) { return std::filesystem::exists(path / name); };
  const bool has_weights =
      is_folder && (has("model.safetensors") || has("model.safetensors.index.json"));
  return {has_weights ? a.model : "", a.cluster};
}

void print_launch(const Plan& plan, const TrainFrom& from) {
  fmt::print("Commands:\n");
  for (size_t i = 0; i < plan.best.size(); ++i)
    fmt::print("  {:>2}  {}\n", i + 1, train_command(plan.request, plan.best[i].layout, from));
  if (from.load.empty())
    fmt::print("They train a new model of these sizes on bytes: its vocabulary is 256.\n");
  const Layout& best = plan.best[0].layout;
  const LaunchOptions titan = torchtitan_options(plan.request, best),
                      megatron = megatron_options(plan.request, best);
  fmt::print("\nThe first as TorchTitan's TOML:\n{}", titan.text);
  for (const std::string& note : titan.notes) fmt::print("# {}\n", note);
  fmt::print("\nThe first as Megatron-LM's options:\n{}\n", megatron.text);
  for (const std::string& note : megatron.notes) fmt::print("# {}\n", note);
}

void write_json(const std::string& path, const Plan& plan, const TrainFrom& from) {
  std::vector<JsonObject> best, refused;
  for (const PlannedLayout& each : plan.best) {
    JsonObject& to = best.emplace_back();
    const StepEstimate& e = each.estimate;
    to.set("layout", text_of(each.layout));
    to.set("memory_bytes", e.memory.bytes());
    to.set("step_seconds", e.seconds);
    to.set("tflops_per_gpu", e.flops_a_second() / 1e12);
    to.set("mfu", e.mfu);
    to.set("bubble", e.bubble / e.seconds);
    to.set("exposed_seconds", e.exposed());
    to.set("train_command", train_command(plan.request, each.layout, from));
  }
  for (const RefusedLayout& each : plan.refused) {
    JsonObject& to = refused.emplace_back();
    to.set("layout", each.layout);
    to.set("why", each.why);
  }
  JsonObject json;
  json.set("best", best);
  json.set("refused", refused);
  write_file(path, json.text());
}

void print_head(const Plan& plan) {
  const PlanRequest& r = plan.request;
  const double tokens = static_cast<double>(r.batch() * r.sequence);
  const auto all = static_cast<double>(parameters(r.config));
  fmt::print("{} parameters on {}, {} sequence{} of {} tokens per step\n",
             all < 1e6 ? fmt::format("{:.0f}", all) : fmt::format("{:.3g}e9", all / 1e9),
             r.cluster.name, r.batch(), r.batch() == 1 ? "" : "s", r.sequence);
  if (r.critical_batch > 0 && r.critical_batch < r.tokens)
    fmt::print("The batch is {:.3g} tokens, as large as still helps, in place of {:.3g}\n", tokens,
               static_cast<double>(r.tokens));
  if (plan.layouts == 0) return fmt::print("\n");
  fmt::print("{} layouts, {} of which fit in {:.0f} GB; {} estimated in full\n\n", plan.layouts,
             plan.fitting, r.memory() / 1e9, plan.estimated);
}

// Where the rules leave no layout to try: how many ways break one, and what would help.
void print_none_tried(const Plan& plan) {
  fmt::print(
      "No layout was tried: each of the {} ways to share the work of {} GPUs breaks a rule of the "
      "batch or of the model, as listed below. A number of GPUs with more small factors (as {}), "
      "or other --tokens, leaves layouts to try.\n\n",
      plan.refused.size(), plan.request.cluster.size(),
      std::bit_floor(static_cast<unsigned>(plan.request.cluster.size())));
}

void print_none(const Plan& plan) {
  if (plan.layouts == 0) return print_none_tried(plan);
  const auto& [layout, why] = plan.smallest;
  fmt::print("No layout of {} fits.{}\n\n", plan.layouts,
             layout.empty() ? "" : fmt::format(" The smallest: {}\n  {}", layout, why));
}

// How near to measured runs it is.
std::string bound_text(const Arguments& a, const Plan& plan) {
  const std::string measured = measured_kind_text(plan.request);
  const double mfu = 100 * plan.best[0].estimate.mfu;
  if (measured.empty())
    return fmt::format(
        "No run of this kind is among the measured ones: take {:.0f}% for an upper "
        "bound.\n",
        mfu);
  if (a.stack == "ideal") return measured + fmt::format("{:.0f}% is an upper bound.\n", mfu);
  if (!a.calibrate.empty()) return measured;
  return measured + fmt::format(
                        "Steps of software that no number was fitted to were {:.0f}% off "
                        "on average: take {:.0f}% with that much doubt.\n",
                        100 * others_error, mfu);
}

// Whose kernels the shares of the peak are from.
void print_kernels(const Arguments& a, const PlanRequest& request) {
  if (!a.calibrate.empty()) return;
  const std::string_view chip = request.cluster.chip.name;
  const bool ideal = a.stack == "ideal";
  if (ideal ? chip == "h100" : !kernels_of(chip).chip.empty()) return;
  const Efficiency& e = request.efficiency;
  fmt::print(
      "No kernels were measured on {}: they are taken to reach the shares of the peak that an "
      "H100's do ({:.0f}% in matmuls, {:.0f}% in attention, {:.0f}% in its backward). "
      "--calibrate fits them.\n",
      chip, 100 * e.matmul, 100 * e.attention, 100 * e.attention_backward);
}

// Of rows; "usual" was chosen with ours in sight.
std::vector<RowError> errors_of(const Arguments& a, const std::vector<MeasuredRow>& rows) {
  const Causes left_out = causes_of(a.without);
  if (a.stack == "others") return unseen_errors(rows, left_out);
  return row_errors(rows, a.stack == "own" ? nullptr : &stack_of(a), left_out);
}
const char* about_errors(const std::string& stack) {
  if (stack == "usual")
    return "The numbers of usual were chosen with the measured rows in sight: --stack others has "
           "the errors on sources that had no part.\n";
  if (stack == "own") return "The numbers of each source were fitted to these rows of it.\n";
  if (stack == "others") return "The numbers for each source were fitted to the other sources.\n";
  return "";
}

// --rows: predictions beside what others measured.
int compare_and_print(const Arguments& a) {
  const auto rows = measured_rows(read_file(a.rows), a.rows);
  if (a.fit) {
    const StackFit fit = fit_stack(rows, stack_of(a));
    fmt::print("{}", fit_text(fit));
    console::expect_printed();
    return 0;
  }
  const auto errors = errors_of(a, rows);
  fmt::print("{}\n{}{}", rows_text(errors), sources_text(errors_by_source(errors)),
             about_errors(a.stack));
  if (!a.json.empty()) write_file(a.json, rows_json(errors).text());
  console::expect_printed();
  return 0;
}

// --layout: one.
int estimate_and_print(const Arguments& a) {
  PlanRequest request = request_of(a);
  Layout layout = layout_from(a.layout, a.microbatches);
  layout.ends_count = int64_t{layout.shape.pp} * layout.chunks > request.config.layers;
  expect_ranks(layout.shape, request.cluster, "--layout " + a.layout);
  const int64_t of_rank = request.batch() / layout.shape.data_ranks();
  if (of_rank % a.microbatches != 0)
    fail(Where::current(),
         "--microbatches {}: each data-parallel rank has {} sequences, which do not divide into {} "
         "equal parts",
         a.microbatches, of_rank, a.microbatches);
  if (layout.recomputed > request.config.layers)
    fail(Where::current(), "--layout {}: {} blocks are recomputed, and the model has {}", a.layout,
         layout.recomputed, request.config.layers);
  reach(a, request);
  if (!a.calibrate.empty()) calibrate_with(a, request);
  const DescribedStep step = described(request, layout);
  expect_layout(step.config, step.shape, step.batch, step.options);
  const StepEstimate estimate = estimate_step(request.cluster, step);
  Plan plan;
  plan.request = request;
  plan.best = {{layout, estimate}};
  print_kernels(a, request);
  print_head(plan);
  fmt::print("{}{}{}\n{}", best_text(plan), pieces_text(plan), bound_text(a, plan),
             memory_text(estimate.memory));
  if (estimate.memory.bytes() > request.memory())
    fmt::print("It does not fit in {:.0f} GB.\n", request.memory() / 1e9);
  if (!a.json.empty()) write_json(a.json, plan, train_from(a));
  console::expect_printed();
  return 0;
}

// With a bar for each part of the search, where somebody sees it.
Plan search(const PlanRequest& request, int best) {
  PlanOptions options{.best = best};
  std::optional<console::Progress> bar;
  if (console::is_terminal(stderr))
    options.on_progress = [&, part = std::string()](const SearchProgress& at) mutable {
      if (std::exchange(part, at.of) != at.of) bar.emplace(part + " of layouts", at.total);
      bar->update(at.done);
    };
  return make_plan(request, options);
}

// An option that changes nothing is a mistake.
void expect_used(const Options& options, const Arguments& a) {
  const auto refuse = [&](bool is_unused, const char* why, std::vector<const char*> names) {
    for (const char* const each : names)
      if (is_unused && options.given(each))
        fail(Where::current(), "{} changes nothing here: {}", each, why);
  };
  refuse(a.rows.empty(), "it is for --rows, a table of measured steps", {"--fit"});
  refuse(!a.rows.empty(), "--rows takes each row's own model, cluster and layout",
         {"--model", "--cluster", "--tokens", "--seq", "--dtype", "--fp8", "--critical-batch",
          "--calibrate", "--cards", "--reserve", "--loss-tokens", "--layout", "--microbatches"});
  refuse(a.fit, "--fit prints the five numbers alone", {"--json", "--without"});
  refuse(a.layout.empty(), "it is for --layout; a search tries several", {"--microbatches"});
  refuse(!a.rows.empty() || !a.layout.empty(), "it is for a search",
         {"--best", "--losers", "--confirm", "--svg"});
  refuse(a.stack == "ideal", "--stack ideal has no causes to leave out", {"--without"});
}

int plan_and_print(const Arguments& a) {
  if (!a.svg.empty()) expect_writable(a.svg);
  if (!a.json.empty()) expect_writable(a.json);
  if (!a.rows.empty()) return compare_and_print(a);
  if (!a.layout.empty()) return estimate_and_print(a);
  PlanRequest request = request_of(a);
  reach(a, request);
  if (!a.calibrate.empty()) calibrate_with(a, request);
  print_kernels(a, request);
  const Plan plan = search(request, a.best);
  print_head(plan);
  if (!plan.best.empty())
    fmt::print("{}{}{}\n{}\n", best_text(plan), pieces_text(plan), bound_text(a, plan),
               plan_picture(plan));
  if (plan.best.empty()) print_none(plan);
  fmt::print("Why others lose ({} slower meshes, {} refused):\n{}\n", plan.losers.size(),
             plan.refused.size(), losers_text(plan, static_cast<size_t>(a.losers)));
  const TrainFrom from = train_from(a);
  if (!a.svg.empty())
    write_file(a.svg, frontier_svg(plan, fmt::format("layouts of {} on {}", a.model, a.cluster)));
  if (!a.json.empty()) write_json(a.json, plan, from);
  if (plan.best.empty()) return 1;
  confirm(plan, a.confirm);
  print_launch(plan, from);
  console::expect_printed();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options("yotta plan",
                  "Finds the layout that trains a model fastest on a cluster with switches, by "
                  "formula, and says why each other one loses.");
  Arguments arguments;
  add_request_options(options, arguments);
  add_question_options(options, arguments);
  add_output_options(options, arguments);
  if (const auto status = options.parse(argc, argv)) return *status;
  try {
    expect_used(options, arguments);
    return plan_and_print(arguments);
  } catch (const std::exception& error) {
    console::error(error.what());
    return 1;
  }
}
