// ./yotta train: a transformer on real text, on any number of ranks.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "course/shared/comm_choice.hpp"
#include "course/shared/console.hpp"
#include "course/shared/timelines.hpp"
#include "course/shared/training.hpp"
#include "yotta/model/checkpoint.hpp"
#include "yotta/nn/cuda.hpp"

using namespace yotta;

namespace {

struct Arguments {
  TrainingPlan plan;
  std::string dialect = "gpt2", attention = "blockwise", dtype = "f32", layout, json;
  std::string device = "cpu", matmul = "cublas";
  int64_t kv_heads = 0, feed_forward = 0;
  bool untied = false;
};

void add_options(CLI::App& app, Arguments& a) {
  TrainingPlan& p = a.plan;
  TransformerConfig& m = p.model;
  const auto group = [&](CLI::Option* option, const char* name) {
    return option->group(name)->capture_default_str();
  };
  const auto at_least = [](int64_t least) { return CLI::Range(least, int64_t{1} << 40); };
  group(app.add_option("--dialect", a.dialect, "gpt2 or llama"), "Model")
      ->check(CLI::IsMember({"gpt2", "llama"}));
  group(app.add_option("--layers", m.layers, "blocks (L)"), "Model")->check(at_least(1));
  group(app.add_option("--width", m.width, "model width (C)"), "Model")->check(at_least(1));
  group(app.add_option("--heads", m.heads, "attention heads (H)"), "Model")->check(at_least(1));
  group(
      app.add_option("--kv-heads", a.kv_heads, "key/value heads, llama only; 0: as many as heads"),
      "Model");
  group(app.add_option("--feed-forward", a.feed_forward,
                       "feed-forward width (F); 0: 4 C, llama 8/3 C"),
        "Model");
  group(app.add_option("--context", m.context, "tokens in a sequence (T)"), "Model")
      ->check(at_least(1));
  group(app.add_option("--attention", a.attention, "plain (keeps T x T) or blockwise"), "Model")
      ->check(CLI::IsMember({"plain", "blockwise"}));
  group(app.add_option("--dropout", m.dropout, "share of activations dropped"), "Model");
  group(app.add_option("--dtype", a.dtype, "f32, or bf16 with f32 master weights"), "Model")
      ->check(CLI::IsMember({"f32", "bf16"}));
  group(app.add_flag("--untied", a.untied, "an output matrix of its own"), "Model");

  group(app.add_option("--text", p.text, "a UTF-8 file or folder; default: this course's own text"),
        "Run");
  group(app.add_option("--steps", p.steps, "optimizer steps in all"), "Run")->check(at_least(1));
  group(app.add_option("--batch", p.batch, "sequences in a step, of all ranks together (B)"), "Run")
      ->check(at_least(1));
  group(app.add_option("--microbatches", p.microbatches, "parts of a rank's batch, run in turn"),
        "Run")
      ->check(at_least(1));
  group(app.add_option("--lr", p.learning_rate, "peak learning rate"), "Run");
  group(app.add_option("--warmup", p.warmup, "steps up to the peak"), "Run")->check(at_least(0));
  group(app.add_option("--clip", p.clip, "largest gradient norm; 0: no clipping"), "Run");
  group(app.add_option("--weight-decay", p.adamw.weight_decay, "of AdamW, on matrices"), "Run");
  group(app.add_option("--seed", m.seed, "of weights, batches and dropout"), "Run");
  group(app.add_option("--sample", p.sample_bytes, "bytes the model writes before and after"),
        "Run")
      ->check(at_least(0));
  group(app.add_option("--prompt", p.prompt, "what it continues"), "Run");

  group(app.add_option("--device", a.device, "cpu, or cuda: the first GPU, for all thread ranks"),
        "Ranks")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  group(app.add_option("--matmul", a.matmul, "on cuda: cublas, or the course's own kernels"),
        "Ranks")
      ->check(CLI::IsMember({"cublas", "course"}));
  group(app.add_option("--ranks", p.ranks, "how many; data-parallel without --layout"), "Ranks")
      ->check(CLI::Range(1, 4096));
  group(app.add_option("--layout", a.layout,
                       "how ranks share the work, as in pp=2,tp=2: axes pp, dp, fsdp, cp, tp"),
        "Ranks");
  group(app.add_option("--recompute", p.recompute,
                       "activations computed again in backward: none, attention, all (layer by "
                       "layer), sqrt (slices), revolve"),
        "Ranks")
      ->check(CLI::IsMember({"none", "attention", "all", "sqrt", "revolve"}));
  group(app.add_option("--snapshots", p.snapshots, "inputs of layers that revolve may keep"),
        "Ranks")
      ->check(at_least(1));
  group(app.add_option("--schedule", p.schedule, "of a pipeline: naive, gpipe, 1f1b"), "Ranks")
      ->check(CLI::IsMember({"naive", "gpipe", "1f1b"}));
  group(app.add_option("--chunks", p.chunks, "pipeline stages a rank; above 1 interleaved 1F1B"),
        "Ranks")
      ->check(CLI::Range(1, 64));
  group(app.add_option("--gradients", p.gradients,
                       "how they are reduced: naive, bucketed, overlapped"),
        "Ranks")
      ->check(CLI::IsMember({"naive", "bucketed", "overlapped"}));
  group(app.add_option("--bucket-bytes", p.bucket_bytes, "gradients that travel together"), "Ranks")
      ->check(at_least(1));

  group(
      app.add_option("--save", p.save, "folder for config.json, model.safetensors, training state"),
      "Files");
  group(app.add_option("--load", p.load,
                       "start from the weights in this folder, ours or Hugging Face's"),
        "Files");
  group(app.add_option("--save-every", p.save_every,
                       "save after each so many steps too; 0: at the end"),
        "Files")
      ->check(at_least(0));
  group(
      app.add_option("--stop-after", p.stop_after, "stop when so many of --steps are done; 0: all"),
      "Files")
      ->check(at_least(0));
  group(app.add_option("--resume", p.resume, "go on exactly where the run saved here stopped"),
        "Files");
  group(
      app.add_option("--save-batches", p.save_batches, "safetensors file: token ids of every step"),
      "Files");
  group(app.add_option("--json", a.json, "write every figure to this file"), "Files");
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
  const char* const given = ranks_given ? "--ranks" : a.layout.empty() ? nullptr : "--layout";
  a.plan.ranks = static_cast<int>(comm.start(argc, argv, {a.plan.ranks, given, 1, 1 << 20}));
  if (comm.is_first()) return;
  a.plan.measure_seconds = 0;
  a.plan.save_batches.clear();
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

// The model that the options describe; with --load or --resume, the one in the folder.
void settle_model(Arguments& a) {
  TransformerConfig& m = a.plan.model;
  const std::string& folder = a.plan.resume.empty() ? a.plan.load : a.plan.resume;
  if (!folder.empty()) {
    TransformerConfig saved = load_config(folder);
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
  if (p.layout) fmt::print("{}:\n{}", describe(*p.layout), picture(*p.layout));
  console::Table table({"rank", "sent", "messages", "peak memory"});
  for (size_t r = 0; r < f.ranks.size(); ++r)
    table.row({std::to_string(r), console::bytes(static_cast<double>(f.ranks[r].bytes_sent)),
               std::to_string(f.ranks[r].messages_sent),
               console::bytes(static_cast<double>(f.ranks[r].peak_bytes))});
  fmt::print("{}", table.text());
  if (p.sample_bytes > 0)
    fmt::print("\nbefore: {}{}\nafter:  {}{}\n", p.prompt, console::printable(f.sample_before),
               p.prompt, console::printable(f.sample_after));
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
    settle_model(arguments);
    settle_layout(arguments, app.count("--ranks") > 0);
    start_ranks(comm, argc, argv, arguments, app.count("--ranks") > 0, timelines);
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
    return comm.finish("");
  } catch (const std::exception& error) {
    return comm.finish(error.what());
  }
}
