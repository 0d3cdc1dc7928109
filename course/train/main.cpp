// ./yotta train: a transformer on real text, on any number of ranks.
#include <CLI/CLI.hpp>
#include <charconv>
#include <nlohmann/json.hpp>

#include "course/shared/comm_choice.hpp"
#include "course/shared/console.hpp"
#include "course/shared/timelines.hpp"
#include "course/shared/training.hpp"
#include "yotta/comm/layouts/mesh_text.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/checkpoint.hpp"
#include "yotta/model/text.hpp"
#include "yotta/parallel/cuda/use_cuda.hpp"

using namespace yotta;

namespace {

struct Arguments {
  TrainingPlan plan;
  std::string dialect = "gpt2", attention = "blockwise", dtype = "f32", layout, json;
  std::string gradient_dtype = "f32", gather_dtype;
  std::string device = "cpu", matmul = "cublas";
  int64_t kv_heads = 0, feed_forward = 0;
  bool untied = false;
};

CLI::Range at_least(int64_t least) { return CLI::Range(least, int64_t{1} << 40); }
// CLI11 takes -1 for 2^64 - 1, and what is larger for that too.
CLI::Validator whole_number() {
  return CLI::Validator(
      [](const std::string& text) {
        uint64_t number = 0;
        const char* const end = text.data() + text.size();
        const auto [read, error] = std::from_chars(text.data(), end, number);
        return error == std::errc() && read == end ? ""
                                                   : "'" + text + "' is not from 0 to 2^64 - 1";
      },
      "");
}
CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) {
        return text.empty() ? "it is empty; leave the option out, or say what" : "";
      },
      "");
}

// Options under one heading of --help, with their defaults.
struct OptionGroup {
  CLI::App& app;
  const char* heading;
  template <class T>
  CLI::Option* option(const char* name, T& value, const char* text) const {
    return app.add_option(name, value, text)->group(heading)->capture_default_str();
  }
  void flag(const char* name, bool& value, const char* text) const {
    app.add_flag(name, value, text)->group(heading);
  }
};

void add_model_options(const OptionGroup& to, Arguments& a) {
  TransformerConfig& m = a.plan.model;
  to.option("--dialect", a.dialect, "gpt2 or llama")->check(CLI::IsMember({"gpt2", "llama"}));
  to.option("--layers", m.layers, "blocks (L)")->check(at_least(1));
  to.option("--width", m.width, "model width (C)")->check(at_least(1));
  to.option("--heads", m.heads, "attention heads (H)")->check(at_least(1));
  to.option("--kv-heads", a.kv_heads, "key/value heads, llama only; 0: as many as heads")
      ->check(at_least(0));
  to.option("--feed-forward", a.feed_forward, "feed-forward width (F); 0: 4 C, llama 8/3 C")
      ->check(at_least(0));
  to.option("--context", m.context, "tokens in a sequence (T)")->check(at_least(1));
  to.option("--attention", a.attention, "plain (keeps T x T) or blockwise")
      ->check(CLI::IsMember({"plain", "blockwise"}));
  to.option("--dropout", m.dropout, "share of activations dropped");
  to.option("--dtype", a.dtype, "f32, or bf16 with f32 master weights")
      ->check(CLI::IsMember({"f32", "bf16"}));
  to.flag("--untied", a.untied, "an output matrix of its own");
}
void add_run_options(const OptionGroup& to, Arguments& a) {
  TrainingPlan& p = a.plan;
  TransformerConfig& m = a.plan.model;
  to.option("--text", p.text, "a UTF-8 file or folder; default: this course's own text")
      ->check(not_empty());
  to.option("--steps", p.steps, "optimizer steps in all")->check(at_least(1));
  to.option("--batch", p.batch, "sequences in a step, of all ranks together (B)")
      ->check(at_least(1));
  to.option("--microbatches", p.microbatches, "parts of a rank's batch, run in turn")
      ->check(at_least(1));
  to.option("--lr", p.learning_rate, "peak learning rate");
  to.option("--warmup", p.warmup, "steps up to the peak")->check(at_least(0));
  to.option("--clip", p.clip, "largest gradient norm; 0: no clipping");
  to.option("--weight-decay", p.adamw.weight_decay, "of AdamW, on matrices");
  to.option("--seed", m.seed, "of weights, batches and dropout")->check(whole_number());
  to.option("--sample", p.sample_bytes, "bytes the model writes before and after")
      ->check(CLI::Range(0, 1 << 20));
  to.option("--prompt", p.prompt, "what it continues");
}
// Where the ranks are, and how many.
void add_rank_options(const OptionGroup& to, Arguments& a) {
  TrainingPlan& p = a.plan;
  to.option("--device", a.device, "cpu, or cuda: the first GPU, for all thread ranks")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  to.option("--matmul", a.matmul, "on cuda: cublas, or the course's own kernels")
      ->check(CLI::IsMember({"cublas", "course"}));
  to.option("--ranks", p.ranks, "how many; data-parallel without --layout")
      ->check(CLI::Range(1, rank_limit));
  to.option("--layout", a.layout,
            "how ranks share the work, as in pp=2,tp=2: axes pp, dp, fsdp, cp, tp")
      ->check(not_empty());
}
// What the ranks do on each axis.
void add_technique_options(const OptionGroup& to, Arguments& a) {
  TrainingPlan& p = a.plan;
  to.option("--recompute", p.recompute,
            "activations computed again in backward: none, attention, all (layer by "
            "layer), sqrt (slices), revolve")
      ->check(CLI::IsMember({"none", "attention", "all", "sqrt", "revolve"}));
  to.option("--snapshots", p.snapshots, "inputs of layers that revolve may keep")
      ->check(at_least(1));
  to.option("--schedule", p.schedule,
            "of a pipeline: naive, gpipe, 1f1b, zb-h1 or zb-h2 (zero bubble)")
      ->check(CLI::IsMember({"naive", "gpipe", "1f1b", "zb-h1", "zb-h2"}));
  to.option("--chunks", p.chunks, "pipeline stages a rank; above 1 interleaved 1F1B")
      ->check(CLI::Range(1, 64));
  to.option("--context-parallel", p.context_parallel,
            "what cp does in attention: ring (keys and values go round), ulysses (heads "
            "for tokens)")
      ->check(CLI::IsMember({"ring", "ulysses"}));
  to.option("--zero", p.zero,
            "what the ranks of dp share out: 0 nothing (DDP), 1 optimizer state, 2 gradients "
            "too (both among the ranks of cp as well), 3 weights too: dp is then fsdp")
      ->check(CLI::Range(0, 3));
  to.option("--gradient-dtype", a.gradient_dtype,
            "of --zero 1 and 2, to keep and sum gradients in: f32, or bf16 as its paper")
      ->check(CLI::IsMember({"f32", "bf16"}));
  to.option("--layers-per-unit", p.layers_per_unit, "of fsdp: layers gathered together")
      ->check(at_least(1));
  to.flag("--no-reshard", p.no_reshard,
          "fsdp keeps weights whole from forward to backward: more memory, fewer bytes");
  to.option("--gather-dtype", a.gather_dtype,
            "of fsdp: bf16, to gather and compute in it; default: the type of --dtype")
      ->check(CLI::IsMember({"bf16"}));
  to.option("--gradients", p.gradients, "how DDP reduces them: naive, bucketed, overlapped")
      ->check(CLI::IsMember({"naive", "bucketed", "overlapped"}));
  to.option("--bucket-bytes", p.bucket_bytes, "gradients that travel together")->check(at_least(1));
}
void add_file_options(const OptionGroup& to, Arguments& a) {
  TrainingPlan& p = a.plan;
  to.option("--save", p.save, "folder for config.json, model.safetensors, training state")
      ->check(not_empty());
  to.option("--load", p.load, "start from the weights in this folder, ours or Hugging Face's")
      ->check(not_empty());
  to.option("--save-every", p.save_every, "save after each so many steps too; 0: at the end")
      ->check(at_least(0));
  to.option("--stop-after", p.stop_after, "stop when so many of --steps are done; 0: all")
      ->check(at_least(0));
  to.option("--resume", p.resume, "go on exactly where the run saved here stopped")
      ->check(not_empty());
  to.option("--save-batches", p.save_batches, "safetensors file: token ids of every step")
      ->check(not_empty());
  to.option("--json", a.json, "write every figure to this file")->check(not_empty());
}
void add_options(CLI::App& app, Arguments& a) {
  add_model_options({app, "Model"}, a);
  add_run_options({app, "Run"}, a);
  add_rank_options({app, "Ranks"}, a);
  add_technique_options({app, "Ranks"}, a);
  add_file_options({app, "Files"}, a);
}

// --layout alone says how many ranks there are; beside --ranks it must agree.
void settle_layout(Arguments& a, bool ranks_given) {
  if (a.layout.empty()) return;
  a.plan.layout = parse_mesh(a.layout);
  if (!ranks_given) a.plan.ranks = static_cast<int>(a.plan.layout->ranks());
}

// Under mpirun each rank is a process: the first one prints, measures and writes files.
void start_ranks(CommChoice& comm, int argc, char** argv, Arguments& a, bool ranks_given,
                 const Timelines& timelines) {
  if (comm.wants_processes())
    timelines.expect_none();
  else if (a.plan.ranks > 64)
    fail(Where::current(), "{} ranks are wanted; as threads there are 64 at most", a.plan.ranks);
  if (!comm.is_one_of_many()) check_plan(a.plan);  // or many would start, to be refused
  const char* const given = ranks_given ? "--ranks" : a.layout.empty() ? nullptr : "--layout";
  a.plan.ranks = static_cast<int>(comm.start(argc, argv, {a.plan.ranks, given, 1, rank_limit}));
  if (comm.is_first()) return;
  a.plan.measure_seconds = 0;
  a.plan.save_batches.clear();
}

// What could not be written at the end is said now.
void expect_outputs(const Arguments& a) {
  if (!a.plan.save.empty()) expect_savable(a.plan.save);
  if (!a.json.empty()) expect_writable(a.json);
}

// --device cuda, or GPUs of NCCL ranks. Without a GPU the CPU computes, and a line says so.
void settle_device(const CommChoice& comm, Arguments& a) {
  if (comm.has_gpus()) a.plan.device = Device::cuda;  // one for each process, chosen by it
  if (a.device != "cuda" || comm.has_gpus()) return;
  if (comm.wants_processes()) fail(Where::current(), "processes with GPUs are NCCL's: --comm nccl");
  const std::string why_not =
      use_cuda(0, a.matmul == "course" ? MatmulBy::course : MatmulBy::cublas);
  if (why_not.empty()) a.plan.device = Device::cuda;
  if (!why_not.empty())
    fmt::print(stderr, "--device cuda: {}; the CPU computes instead\n", why_not);
}

// Beside --load and --resume the folder says what the model is: an option that says otherwise is refused.
void expect_same_sizes(const CLI::App& app, const Arguments& a, const TransformerConfig& saved,
                       const std::string& folder) {
  const TransformerConfig& m = a.plan.model;
  const auto expect = [&](const char* option, const auto& given, const auto& held) {
    if (app.count(option) > 0 && given != held)
      fail(Where::current(), "{} {}, but the model in {} has {}; leave {} out", option, given,
           folder, held, option);
  };
  expect("--dialect", a.dialect, std::string(name(saved.dialect)));
  expect("--layers", m.layers, saved.layers);
  expect("--width", m.width, saved.width);
  expect("--heads", m.heads, saved.heads);
  expect("--kv-heads", a.kv_heads > 0 ? a.kv_heads : saved.heads, saved.kv_heads);
  expect("--feed-forward", a.feed_forward > 0 ? a.feed_forward : saved.feed_forward,
         saved.feed_forward);
  expect("--context", m.context, saved.context);
  expect("--untied", true, !saved.tied);
}

// The model that the options describe; with --load or --resume, the one in the folder.
void settle_model(const CLI::App& app, Arguments& a) {
  TransformerConfig& m = a.plan.model;
  const std::string& folder = a.plan.resume.empty() ? a.plan.load : a.plan.resume;
  if (!folder.empty()) {
    TransformerConfig saved = load_config(folder);
    expect_same_sizes(app, a, saved, folder);
    saved.seed = m.seed, saved.dropout = m.dropout;
    m = saved;
  } else {
    const bool llama = a.dialect == "llama";
    m.dialect = llama ? Dialect::llama : Dialect::gpt2;
    m.kv_heads = a.kv_heads > 0 ? a.kv_heads : m.heads;
    // SwiGLU has three matrices: 8/3 C keeps its size that of two of 4 C; a multiple of 16.
    const int64_t usual = llama ? (8 * m.width / 3 + 15) / 16 * 16 : 4 * m.width;
    m.feed_forward = a.feed_forward > 0 ? a.feed_forward : usual;
    m.tied = !llama && !a.untied;
  }
  m.attention = a.attention == "plain" ? AttentionKind::plain : AttentionKind::blockwise;
  m.dtype = a.dtype == "bf16" ? DType::bf16 : DType::f32;
  a.plan.bf16_gathered = a.gather_dtype == "bf16" && m.dtype != DType::bf16;
  a.plan.bf16_gradients = a.gradient_dtype == "bf16";
}

// What each rank has sent, and the most that it held: of each kind, and at once.
void print_ranks(const TrainingFigures& f) {
  console::Table table({"rank", "sent", "messages", "weights", "gradients", "optimizer",
                        "activations", "buffers", "peak memory"});
  for (size_t r = 0; r < f.ranks.size(); ++r) {
    const RankFigures& rank = f.ranks[r];
    std::vector<std::string> row = {std::to_string(r),
                                    console::bytes(static_cast<double>(rank.bytes_sent)),
                                    std::to_string(rank.messages_sent)};
    for (const int64_t bytes : rank.peak_by_kind)
      row.push_back(console::bytes(static_cast<double>(bytes)));
    row.push_back(console::bytes(static_cast<double>(rank.peak_bytes)));
    table.row(row);
  }
  fmt::print("{}", table.text());
}

void print_summary(const Arguments& a, const TrainingFigures& f) {
  const TrainingPlan& p = a.plan;
  fmt::print("{} dialect, {} layers, width {}: {} parameters; text of {} in {} files\n",
             name(p.model.dialect), p.model.layers, p.model.width, f.parameters,
             console::bytes(static_cast<double>(f.text_bytes)), f.text_files);
  if (f.loss.empty())
    return fmt::print("nothing left to do: the run had reached step {}\n", f.first_step);
  fmt::print("loss {:.4f} -> {:.4f} in {} steps; on text it has not seen {:.4f}\n", f.loss.front(),
             f.loss.back(), f.loss.size(), f.validation_loss);
  fmt::print(
      "{:.0f} tokens/s, {:.3f} s a step, {:.0f}% of this machine's matmul rate of {:.0f} GFLOP/s\n",
      f.tokens_per_second, f.median_step_seconds, 100 * f.mfu, f.matmul_gflops);
  if (p.layout || p.zero == 3)
    fmt::print("{}:\n{}", describe(layout_of(p)), picture(layout_of(p), short_name));
  print_ranks(f);
  if (p.sample_bytes > 0)
    fmt::print("\nbefore: {}\nafter:  {}\n", printable(p.prompt + f.sample_before),
               printable(p.prompt + f.sample_after));
  if (!p.save.empty()) fmt::print("saved to {}\n", p.save);
}

void write_json(const Arguments& a, const TrainingFigures& f) {
  nlohmann::ordered_json json = {{"ranks", a.plan.ranks},
                                 {"first_step", f.first_step},
                                 {"loss", f.loss},
                                 {"validation_loss", f.validation_loss},
                                 {"tokens_per_second", f.tokens_per_second},
                                 {"step_seconds", f.median_step_seconds},
                                 {"model_flops_per_step", f.model_flops_per_step},
                                 {"matmul_gflops", f.matmul_gflops},
                                 {"mfu", f.mfu},
                                 {"parameters", f.parameters}};
  for (const RankFigures& rank : f.ranks) {
    json["bytes_sent_per_rank"].push_back(rank.bytes_sent);
    json["peak_bytes"].push_back(rank.peak_bytes);
    nlohmann::ordered_json kinds;
    for (size_t kind = 0; kind < rank.peak_by_kind.size(); ++kind)
      kinds[name(static_cast<MemoryKind>(kind))] = rank.peak_by_kind[kind];
    json["peak_bytes_by_kind"].push_back(kinds);
  }
  write_file(a.json, json.dump(2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a transformer on text: bytes in, the next byte out.");
  app.name("yotta train");
  Arguments arguments;
  add_options(app, arguments);
  Timelines timelines;
  timelines.add_options(app);
  CommChoice comm;
  comm.add_option(app);
  CLI11_PARSE(app, argc, argv);
  try {
    settle_model(app, arguments);
    settle_layout(arguments, app.count("--ranks") > 0);
    start_ranks(comm, argc, argv, arguments, app.count("--ranks") > 0, timelines);
    if (comm.is_first()) expect_outputs(arguments);
    settle_device(comm, arguments);
    timelines.start();
    console::Progress progress("training", arguments.plan.steps);
    const TrainingFigures figures = run_training(arguments.plan, [&](const StepFigures& step) {
      progress.update(step.step, fmt::format("loss {:.3f}  {:.0f} tokens/s", step.loss,
                                             step.tokens_per_second));
    });
    progress.finish();
    print_summary(arguments, figures);
    timelines.finish();
    if (!arguments.json.empty() && comm.is_first()) write_json(arguments, figures);
    console::expect_printed();
    return comm.finish("");
  } catch (const std::exception& error) {
    return comm.finish(error.what());
  }
}
