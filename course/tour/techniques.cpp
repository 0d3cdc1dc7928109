#include "course/tour/techniques.hpp"

#include "course/options/console.hpp"
#include "yotta/comm/recording/recorder.hpp"
#include "yotta/machine/pictures/timeline.hpp"

namespace yotta {

namespace {

// What a technique has besides a layout.
struct Switches {
  const char* recompute = "none";
  int zero = 0;
  const char* schedule = "1f1b";
  const char* context_parallel = "ring";
  bool sequence_parallel = false, async_tp = false;
  int64_t experts = 0;
};
struct Technique {
  const char* name;
  const char* lesson;
  const char* options;  // of ./yotta train
  MeshShape shape;
  Switches with = {};
};
constexpr Technique all_techniques[] = {
    {"one rank", "12_transformer", "--ranks 1", {}},
    {"DDP", "13_ddp", "--layout dp=4", {.dp_replicate = 4}},
    {"DDP, recomputing",
     "17_activation_checkpointing",
     "--layout dp=4 --recompute all",
     {.dp_replicate = 4},
     {.recompute = "all"}},
    {"ZeRO-1", "14_zero", "--layout dp=4 --zero 1", {.dp_replicate = 4}, {.zero = 1}},
    {"ZeRO-2", "14_zero", "--layout dp=4 --zero 2", {.dp_replicate = 4}, {.zero = 2}},
    {"FSDP (ZeRO-3)", "15_fsdp", "--layout fsdp=4", {.dp_shard = 4}},
    {"HSDP", "16_hsdp", "--layout fsdp=2,dp=2", {.dp_shard = 2, .dp_replicate = 2}},
    {"pipeline, 1F1B", "18_pipeline", "--layout pp=4", {.pp = 4}},
    {"zero bubble",
     "19_zero_bubble",
     "--layout pp=4 --schedule zb-h1",
     {.pp = 4},
     {.schedule = "zb-h1"}},
    {"DualPipe",
     "19_zero_bubble",
     "--layout pp=4 --schedule dualpipe",
     {.pp = 4},
     {.schedule = "dualpipe"}},
    {"tensor parallel", "20_tensor_parallel", "--layout tp=4", {.tp = 4}},
    {"sequence parallel",
     "21_sequence_parallel",
     "--layout tp=4 --sequence-parallel",
     {.tp = 4},
     {.sequence_parallel = true}},
    {"Async-TP", "22_async_tp", "--layout tp=4 --async-tp", {.tp = 4}, {.async_tp = true}},
    {"ring attention", "23_ring_attention", "--layout cp=4", {.cp = 4}},
    {"Ulysses",
     "24_ulysses",
     "--layout cp=4 --context-parallel ulysses",
     {.cp = 4},
     {.context_parallel = "ulysses"}},
    {"tensor + FSDP", "26_nd_parallel", "--layout tp=2,fsdp=2", {.tp = 2, .dp_shard = 2}},
    {"8 experts", "25_expert_parallel", "--layout ep=4 --experts 8", {.ep = 4}, {.experts = 8}},
};

// One run, and the time of a step on the machine: of all but the first, which comes after sharing
// the weights, to the end of the last, after which the model is judged on text it has not seen.
TrainingFigures timed(const TrainingPlan& plan, const Cluster& cluster, double& step_seconds) {
  const Recorder recorder(cluster);
  double first = 0, last = 0;  // when rank 0 had done it
  TrainingFigures figures = run_training(plan, [&](const StepFigures& step) {
    const double end = context().clock->now(compute_lane).end;
    if (step.step == 1) first = end;
    last = end;
  });
  step_seconds = (last - first) / static_cast<double>(plan.steps - 1);
  return figures;
}

// The largest of some numbers.
template <class Number>
double most(const std::vector<TechniqueFigures>& all, Number number) {
  double largest = 0;
  for (const TechniqueFigures& each : all) largest = std::max(largest, each.*number);
  return largest;
}

}  // namespace

int technique_count() { return static_cast<int>(std::size(all_techniques)); }

std::vector<TechniqueFigures> compare_techniques(
    TrainingPlan plan, const Cluster& cluster,
    const std::function<void(int run, const std::string& name)>& on_run) {
  plan.steps = 1 + std::min<int64_t>(4, plan.steps);
  plan.batch = 8;
  plan.warmup = 1;
  plan.sample_tokens = 0;
  plan.measure_seconds = 0;
  std::vector<TechniqueFigures> all;
  for (const Technique& technique : all_techniques) {
    on_run(static_cast<int>(all.size()), technique.name);
    plan.layout = technique.shape;
    plan.ranks = static_cast<int>(technique.shape.ranks());
    plan.recompute = technique.with.recompute;
    plan.zero = technique.with.zero;
    plan.schedule = technique.with.schedule;
    plan.context_parallel = technique.with.context_parallel;
    plan.sequence_parallel = technique.with.sequence_parallel;
    plan.async_tp = technique.with.async_tp;
    plan.model.mixture.experts = technique.with.experts;
    plan.microbatches = technique.shape.pp > 1 ? 8 : 1;
    TechniqueFigures& made = all.emplace_back();
    const TrainingFigures figures = timed(plan, cluster, made.step_seconds);
    made.name = technique.name;
    made.lesson = technique.lesson;
    made.layout = technique.options;
    made.loss = figures.loss.back();
    for (const RankFigures& rank : figures.ranks) {
      made.bytes_per_step = std::max(made.bytes_per_step, static_cast<double>(rank.bytes_sent) /
                                                              static_cast<double>(plan.steps));
      made.peak_bytes = std::max(made.peak_bytes, static_cast<double>(rank.peak_bytes));
    }
  }
  return all;
}

std::string techniques_text(const std::vector<TechniqueFigures>& techniques) {
  const double sent = most(techniques, &TechniqueFigures::bytes_per_step);
  const double held = most(techniques, &TechniqueFigures::peak_bytes);
  std::string text = fmt::format("  {:<17} {:>8}  {:<23} {:<23} {:>10}\n", "", "loss",
                                 "sent per step and rank", "peak memory per rank", "per step");
  for (const TechniqueFigures& each : techniques)
    text +=
        fmt::format("  {:<17} {:>8.4f}  {} {:>10}  {} {:>10}  {:>9}\n", each.name, each.loss,
                    console::bar(each.bytes_per_step, sent, 11),
                    console::bytes(each.bytes_per_step), console::bar(each.peak_bytes, held, 11),
                    console::bytes(each.peak_bytes), time_text(each.step_seconds));
  return text;
}

std::string book_link(const std::string& book, const std::string& lesson,
                      const std::string& words) {
  if (book.empty()) return words;
  return fmt::format("<a href=\"{}/lessons/{}.html\">{}</a>", book, lesson, words);
}

std::string techniques_html(const std::vector<TechniqueFigures>& techniques,
                            const std::string& book) {
  const auto bar = [](double value, double largest, const char* color) {
    return fmt::format(
        "<td><div style=\"background:var(--{});height:12px;width:{:.0f}px\"></div></td>"
        "<td class=\"n\">{}</td>",
        color, 100 * (largest > 0 ? value / largest : 0), console::bytes(value));
  };
  const double sent = most(techniques, &TechniqueFigures::bytes_per_step);
  const double held = most(techniques, &TechniqueFigures::peak_bytes);
  std::string html =
      "<div class=\"wide\"><table><tr><th></th><th class=\"n\">loss</th><th colspan=\"2\">sent per "
      "step and rank</th>"
      "<th colspan=\"2\">peak memory per rank</th><th class=\"n\">per step</th><th></th></tr>\n";
  for (const TechniqueFigures& each : techniques)
    html += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{:.4f}</td>{}{}<td class=\"n\">{}</td>"
        "<td><code>{}</code></td></tr>\n",
        book_link(book, each.lesson, each.name), each.loss,
        bar(each.bytes_per_step, sent, "orange"), bar(each.peak_bytes, held, "blue"),
        time_text(each.step_seconds), each.layout);
  return html + "</table></div>\n";
}

}  // namespace yotta
