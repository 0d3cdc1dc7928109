// Where the peak of 16 described H100 goes: lesson 27's training steps, for other settings.
#include "course/book/figures/recorded/record.hpp"
#include "course/pictures/mfu_run.hpp"

namespace book {
namespace {

struct Way {
  const char* name;
  yotta::MeshShape layout;
  int64_t microbatches;
};
const Way ways[] = {{"tp 2, pp 2, fsdp 4", {.tp = 2, .pp = 2, .dp_shard = 4}, 4},
                    {"tp 8, fsdp 2", {.tp = 8, .dp_shard = 2}, 1},
                    {"fsdp 16", {.dp_shard = 16}, 1},
                    {"fsdp 8, two copies", {.dp_shard = 8, .dp_replicate = 2}, 1}};

yotta::MfuReport run(const std::vector<double>& at) {
  const Way& way = ways[static_cast<size_t>(at[0])];
  yotta::MfuRun run = yotta::first_mfu_run();
  run.layout = way.layout;
  run.options.microbatches = way.microbatches;
  run.options.sequence_parallel = way.layout.tp > 1;
  run.options.checkpoint = {at[3] > 0 ? yotta::Recompute::all : yotta::Recompute::none};
  yotta::Cluster machine = yotta::cluster_named("h100x16");
  machine.chip.bf16 *= at[1];
  machine.levels.back().beta *= at[2];
  return yotta::mfu_of(run, machine);
}

Data data(const std::vector<double>& at) {
  const yotta::MfuReport report = run(at);
  const yotta::Waterfall& fall = report.waterfall;
  const char* const names[] = {
      "launch gaps", "between operations", "bound by memory", "a wider type", "slow kernels",
      "a slow rank", "communication",      "bubble",          "recomputation"};
  Data made;
  made.numbers = {{"MFU", "%", 100 * fall.mfu()},
                  {"HFU", "%", 100 * fall.hfu()},
                  {"a step", "ms", 1e3 * report.step_seconds, 4},
                  {"tokens", "thousand a second", report.tokens_a_second / 1e3}};
  for (int loss = 0; loss < yotta::loss_kinds; ++loss) {
    const double share = 100 * fall.share(static_cast<yotta::Loss>(loss));
    if (std::abs(share) >= 0.05) made.rows.push_back({names[loss], {share}, {}});
  }
  const Way& way = ways[static_cast<size_t>(at[0])];
  made.code = fmt::format(
      "yotta::MfuRun run = yotta::first_mfu_run();\n"
      "run.layout = {{.tp = {}, .pp = {}, .dp_shard = {}, .dp_replicate = {}}};\n"
      "run.options.microbatches = {}, run.options.sequence_parallel = {};\n"
      "run.options.checkpoint = {{yotta::Recompute::{}}};\n"
      "yotta::Cluster machine = yotta::cluster_named(\"h100x16\");\n"
      "machine.chip.bf16 *= {}, machine.levels.back().beta *= {};\n"
      "fmt::print(\"{{}}\", yotta::waterfall_text(yotta::mfu_of(run, machine).waterfall));",
      way.layout.tp, way.layout.pp, way.layout.dp_shard, way.layout.dp_replicate, way.microbatches,
      way.layout.tp > 1, at[3] > 0 ? "all" : "none", at[1], at[2]);
  return made;
}

}  // namespace

Figure waterfall_figure() {
  std::vector<std::string> names;
  for (const Way& each : ways) names.emplace_back(each.name);
  return {"27_waterfall",
          "Where does the peak of 16 H100s go, and what grows when the chips become faster or the "
          "network slower? 8 layers of Llama 3 8B, 16 sequences, one rank a tenth slower; run when "
          "this page was made.",
          {choice("layout", names),
           {"FLOP/s of the chips, times", "", {1, 2, 4}, 0},
           {"bytes/s between nodes, divided by", "", {1, 4, 16}, 0},
           choice("blocks in backward", {"kept", "computed again"}, 1)},
          data};
}

}  // namespace book
