// ./yotta train: a transformer on real text, on any number of ranks.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <sstream>

#include "course/options/comm_choice.hpp"
#include "course/options/console.hpp"
#include "course/options/json_object.hpp"
#include "course/options/options.hpp"
#include "course/options/timelines.hpp"
#include "course/pictures/live_picture.hpp"
#include "course/training/diloco_options.hpp"
#include "course/training/mask_text.hpp"
#include "course/training/requeue.hpp"
#include "course/training/training.hpp"
#include "yotta/comm/layouts/mesh_text.hpp"
#include "yotta/comm/sockets/run_members.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/checkpoint.hpp"
#include "yotta/model/text.hpp"
#include "yotta/parallel/cuda/use_cuda.hpp"

using namespace yotta;

namespace {

constexpr double most_patience = 1e6;  // seconds

struct Arguments {
  TrainingPlan plan;
  std::string dialect = "gpt2", attention = "blockwise", dtype = "f32", layout, json;
  std::string mask, latent;
  std::string gradient_dtype = "f32", gather_dtype, router = "softmax";
  std::string device = "cpu", matmul = "cublas", diloco, absent, requeue;
  int64_t kv_heads = 0, feed_forward = 0;
  bool untied = false, tied = false;
  std::string recover;
  Tolerance tolerance;
  int spares = 0;
  bool live = false;
  std::string live_page;
  double patience = members_patience;
};

void add_model_options(Options& to, Arguments& a) {
  TransformerConfig& m = a.plan.model;
  to.add("--dialect", a.dialect, "gpt2 or llama", one_of({"gpt2", "llama"}));
  to.add("--layers", m.layers, "blocks (L)", at_least(1));
  to.add("--width", m.width, "model width (C)", at_least(1));
  to.add("--heads", m.heads, "attention heads (H)", at_least(1));
  to.add("--kv-heads", a.kv_heads, "key/value heads, llama only; 0: as many as heads", at_least(0));
  to.add("--feed-forward", a.feed_forward, "feed-forward width (F); 0: 4 C, llama 8/3 C",
         at_least(0));
  to.add(
      "--context", m.context,
      "tokens in a sequence (T); with --load other than the model's: shorter, or with rope longer",
      at_least(1));
  to.add("--attention", a.attention,
         "plain (keeps T x T), blockwise, or flex (blockwise, under any --mask)",
         one_of({"plain", "blockwise", "flex"}));
  to.add("--mask", a.mask,
         "of flex attention, who sees whom: causal; or one or more of document (its own, with "
         "--pack), window=N (the last N tokens), prefix=N (the first N from both sides, without "
         "targets), alibi (distances in place of llama's rope), as in document,window=64",
         not_empty());
  to.add("--dropout", m.dropout, "share of activations dropped");
  to.add("--dtype", a.dtype,
         "of weights and activations: f32; or bf16, with f32 master weights and gradients",
         one_of({"f32", "bf16"}));
  to.add(
      "--latent", a.latent,
      "multi-head latent attention in place of q, k and v: numbers of the query's latent, of the "
      "key's and value's, of a head without and with rope, of its value, as 1536,512,128,64,128",
      not_empty());
  to.add_flag("--untied", a.untied, "an output matrix of its own, as Llama's dialect has it");
  to.add_flag("--tied", a.tied, "the output matrix is the token table, as GPT-2's dialect has it");
}
void add_mixture_options(Options& to, Arguments& a) {
  MixtureConfig& m = a.plan.model.mixture;
  to.add("--experts", m.experts,
         "feed-forward layers of each block, of which a token runs through some (E); 0: one for "
         "all tokens",
         at_least(0));
  to.add("--top-k", m.top_k, "experts of a token (k)", at_least(1));
  to.add("--shared-experts", m.shared, "experts that every token runs through as well",
         at_least(0));
  to.add("--expert-groups", m.groups,
         "experts are in so many groups, one to a node; a token's are in --top-groups of them",
         at_least(1));
  to.add("--top-groups", m.top_groups, "groups that hold the experts of a token", at_least(1));
  to.add("--dense-layers", m.dense_layers, "first blocks without experts", at_least(0));
  to.add("--dense-width", m.dense_width, "feed-forward width of --dense-layers", at_least(0));
  to.add("--router", a.router, "what makes scores of logits: softmax (Mixtral), sigmoid (DeepSeek)",
         one_of({"softmax", "sigmoid"}));
  to.add(
      "--capacity", m.capacity,
      "an expert takes so many times its even share of a microbatch's tokens, the first ones (so "
      "more --microbatches drop others); 0: all");
  to.add(
      "--balance-loss", m.balance_loss,
      "weight of the loss that evens out the experts' loads, counted in each microbatch: the mean "
      "over --microbatches is another loss than that of the whole batch");
  to.add("--balance-over", a.plan.balance_over,
         "what --balance-loss counts: each microbatch, or the whole batch (all forward passes come "
         "first, and activations of all --microbatches are held; of pipelines only gpipe can)",
         one_of({"microbatch", "batch"}));
  to.add("--z-loss", m.z_loss, "weight of the loss that keeps the router's logits small");
  to.add("--bias-rate", m.bias_rate,
         "step of a bias that evens out the loads without a loss; 0: no bias");
}
void add_run_options(Options& to, Arguments& a) {
  TrainingPlan& p = a.plan;
  TransformerConfig& m = a.plan.model;
  to.add("--text", p.text, "a UTF-8 file or folder; default: this course's own text", not_empty());
  to.add_flag(
      "--pack", p.pack,
      "each file is a document, and a sequence holds several: positions begin anew in each, "
      "and no target is another's; with --mask document");
  to.add("--separator", p.separator,
         "with --pack, what stands between documents in a file: '<|endoftext|>', '\\n\\n' (empty "
         "lines)",
         not_empty());
  to.add("--encoding", p.encoding, "of text that is not UTF-8, as iconv names it: latin1, utf-16",
         not_empty());
  to.add("--steps", p.steps, "optimizer steps in all", at_least(1));
  to.add("--batch", p.batch, "sequences in a step, of all ranks together (B)", at_least(1));
  to.add("--microbatches", p.microbatches, "parts of a rank's batch, run in turn", at_least(1));
  to.add("--lr", p.learning_rate, "peak learning rate");
  to.add("--warmup", p.warmup, "steps up to the peak", at_least(0));
  to.add("--clip", p.clip, "largest gradient norm; 0: no clipping");
  to.add("--optimizer", p.optimizer, "the rule of a step", one_of({"adamw", "sgd"}));
  to.add("--momentum", p.momentum, "of sgd: how much of the last steps' direction stays");
  to.add("--ema", p.ema, "decay of an average of the weights, as 0.999; 0: none");
  to.add("--load-ahead", p.load_ahead, "batches that are read while the model trains",
         in_range(0, 1000));
  to.add("--weight-decay", p.adamw.weight_decay, "on matrices");
  to.add("--seed", m.seed, "of weights, batches and dropout", whole_number());
  to.add("--sample", p.sample_tokens, "tokens the model writes before and after",
         in_range(0, 1 << 20));
  to.add("--prompt", p.prompt, "what it continues");
}
// Where the ranks are, and how many.
void add_rank_options(Options& to, Arguments& a) {
  TrainingPlan& p = a.plan;
  to.add("--device", a.device, "cpu, or cuda: the first GPU, for all thread ranks",
         one_of({"cpu", "cuda"}));
  to.add("--matmul", a.matmul, "on cuda: cublas, or the course's own kernels",
         one_of({"cublas", "course"}));
  to.add_flag("--graph", p.graph,
              "on cuda: a step is recorded as a CUDA graph, and is one launch then");
  to.add("--ranks", p.ranks, "how many; data-parallel without --layout", in_range(1, rank_limit));
  to.add("--layout", a.layout,
         "how ranks share the work, as in pp=2,tp=2: axes pp, dp, fsdp, ep, cp, tp. ep is data "
         "parallelism whose ranks share out the experts: ep=4,dp=2 is 8 ranks, and 2 hold each "
         "expert",
         not_empty());
  to.add("--diloco", a.diloco,
         "workers that train alone and average their weights now and then, as in k=4,inner=50: k "
         "workers, each of --layout or of a k-th of the ranks, inner steps between two means; also "
         "rate, momentum (of the outer step), fragments, overlap, keep (streaming), bits (8 or 4)",
         not_empty());
}
// What the ranks do on each axis.
void add_technique_options(Options& to, Arguments& a) {
  TrainingPlan& p = a.plan;
  to.add("--recompute", p.recompute,
         "activations computed again in backward: none, attention, pointwise (norms, activations), "
         "all (layer by layer), sqrt (slices), revolve",
         one_of({"none", "attention", "pointwise", "all", "sqrt", "revolve"}));
  to.add("--recompute-blocks", p.recompute_blocks,
         "of --recompute all: the first blocks of each stage, and no others; -1: all",
         in_range(-1, 1 << 20));
  to.add(
      "--loss-tokens", p.loss_tokens,
      "tokens of a microbatch whose logits exist at once; 0: all. The logits of a large vocabulary "
      "are the largest tensor; chunks of 1024 cost the output matrix 1 to 2% of its time. Not with "
      "fsdp or --async-tp",
      at_least(0));
  to.add("--snapshots", p.snapshots, "inputs of layers that revolve may keep", at_least(1));
  to.add("--schedule", p.schedule,
         "of a pipeline: naive, gpipe, 1f1b, zb-h1, zb-h2 or zb-v (zero bubble), dualpipe, "
         "dualpipev, auto (searched for)",
         one_of(schedule_names));
  to.add("--chunks", p.chunks,
         "pipeline stages per rank; above 1 it interleaves the schedules 1f1b and zb-h1",
         in_range(1, 64));
  to.add("--hold", p.hold, "of --schedule auto: microbatches that a rank may hold; 0: as pp",
         at_least(0));
  to.add("--context-parallel", p.context_parallel,
         "what cp does in attention: ring (keys and values go round), ulysses (heads "
         "for tokens)",
         one_of({"ring", "ulysses"}));
  to.add_flag(
      "--sequence-parallel", p.sequence_parallel,
      "the ranks of tp share the tokens between attention and feed-forward: norms, dropout, "
      "residuals");
  to.add_flag("--keep-gathered", p.keep_gathered,
              "with it: what the forward pass gathers stays until the backward pass, which then "
              "gathers nothing again");
  to.add_flag("--async-tp", p.async_tp,
              "sequence parallelism in pieces: tokens of one rank at a time travel while others "
              "are multiplied; includes --sequence-parallel");
  to.add_flag("--both-ways", p.both_ways,
              "with it: pieces go both ways round the ring, for machines with a link each way");
  to.add("--zero", p.zero,
         "what the ranks of dp share out: 0 nothing (DDP), 1 optimizer state, 2 gradients "
         "too (both among the ranks of cp as well), 3 weights too: dp is then fsdp",
         in_range(0, 3));
  to.add("--gradient-dtype", a.gradient_dtype,
         "of --zero 1 and 2, to keep and sum gradients in: f32, or bf16 as its paper",
         one_of({"f32", "bf16"}));
  to.add("--layers-per-unit", p.layers_per_unit, "of fsdp: layers gathered together", at_least(1));
  to.add_flag("--no-reshard", p.no_reshard,
              "fsdp keeps weights whole from forward to backward: more memory, fewer bytes");
  to.add(
      "--gather-dtype", a.gather_dtype,
      "of fsdp: bf16, to gather weights and keep activations in it; default: the type of --dtype",
      one_of({"bf16"}));
  to.add("--gradients", p.gradients, "how DDP reduces them: naive, bucketed, overlapped",
         one_of({"naive", "bucketed", "overlapped"}));
  to.add("--bucket-bytes", p.bucket_bytes, "gradients that travel together", at_least(1));
}
void add_file_options(Options& to, Arguments& a) {
  TrainingPlan& p = a.plan;
  to.add("--save", p.save,
         "folder for config.json, model.safetensors, tokenizer.json, training state", not_empty());
  to.add("--load", p.load,
         "start from the weights in this folder, ours or Hugging Face's; with its tokenizer.json",
         not_empty());
  to.add("--save-every", p.save_every, "save after each so many steps too; 0: at the end",
         at_least(0));
  to.add("--stop-after", p.stop_after, "stop when so many of --steps are done; 0: all",
         at_least(0));
  to.add("--resume", p.resume, "go on exactly where the run saved here stopped", not_empty());
  to.add("--requeue", a.requeue,
         "a folder to save to and, if a run is saved there, to go on from. SIGUSR1 or SIGTERM: "
         "the run saves after its step and ends; under Slurm the job is put back into the queue",
         not_empty());
  to.add("--save-batches", p.save_batches, "safetensors file: token ids of every step",
         not_empty());
  to.add("--json", a.json, "write every figure to this file", not_empty());
}
void add_failure_options(Options& to, Arguments& a) {
  Tolerance& it = a.tolerance;
  to.add("--tolerate", it.missing,
         "go on when ranks die, and take new ones in: so many replicas of the model may be missing "
         "meanwhile, with --recover reroute so many ranks of each stage; default: all replicas but "
         "one",
         at_least(0));
  to.add("--recover", a.recover,
         "how: replay (those left share out the whole batch), drop (what the lost would have "
         "trained on is left out), reroute (a lost rank's pipeline stage is computed by the same "
         "stage of other replicas, as in --layout pp=2,dp=2), restart (all go back to a snapshot "
         "and wait for new ranks); default: replay, with a single replica restart",
         one_of({"restart", "drop", "replay", "reroute"}));
  to.add("--spares", a.spares, "of --comm processes: those that are ready before any rank dies",
         in_range(0, 64));
  to.add("--patience", a.patience,
         "of --comm processes: seconds until a process that is stopped, or does not come when "
         "another has died, is killed and replaced; ten times as long for one that computes "
         "meanwhile");
  to.add("--snapshot-every", it.snapshot_every, "of restart: steps from one snapshot to the next",
         at_least(1));
  to.add("--snapshot-folder", it.snapshots,
         "folder for snapshots, where a run that finds its own goes on from them; default: in "
         "memory alone",
         not_empty());
  to.add_flag("--live", a.live,
              "draw the loss and who takes part: on a terminal after each step, and at the end");
  to.add("--live-page", a.live_page,
         "a page (HTML) with the same picture; a browser loads it again every second while the run "
         "goes on",
         not_empty());
  to.add("--absent", a.absent,
         "a worker of --diloco that is away for a round and comes back, as in worker=1,round=2",
         not_empty());
  to.add("--faults", it.faults, "a plan of who dies when (JSON): resilience/faults/faults.hpp",
         not_empty());
}
void add_options(Options& to, Arguments& a) {
  to.heading("Model");
  add_model_options(to, a);
  to.heading("Mixture of experts");
  add_mixture_options(to, a);
  to.heading("Run");
  add_run_options(to, a);
  to.heading("Ranks");
  add_rank_options(to, a);
  add_technique_options(to, a);
  to.heading("Failures");
  add_failure_options(to, a);
  to.heading("Files");
  add_file_options(to, a);
}

// --layout alone says how many ranks there are; beside --ranks it must agree. With --diloco it is
// that of each worker, and without it a worker is one rank.
void settle_layout(Arguments& a, bool ranks_given) {
  if (!a.diloco.empty()) std::tie(a.plan.workers, a.plan.diloco) = parse_diloco(a.diloco);
  if (!a.absent.empty()) a.plan.absent = parse_absence(a.absent);
  if (!a.layout.empty()) a.plan.layout = parse_mesh(a.layout);
  if (ranks_given || (a.layout.empty() && a.diloco.empty())) return;
  const int64_t ranks = a.plan.layout ? a.plan.layout->ranks() : 1;
  a.plan.ranks = static_cast<int>(ranks * std::max(a.plan.workers, 1));
}

// --requeue is --save and, once there is something to go on from, --resume.
void settle_requeue(Arguments& a) {
  if (a.requeue.empty()) return;
  if (!a.plan.save.empty() || !a.plan.resume.empty())
    fail(Where::current(), "--requeue {} saves and resumes by itself; leave out {}", a.requeue,
         a.plan.save.empty() ? "--resume" : "--save");
  a.plan.stops_on_signals = true;
  a.plan.save = a.requeue;
  if (is_saved_run(a.requeue)) a.plan.resume = a.requeue;
  if (!a.plan.resume.empty()) a.plan.load.clear();  // it was for the start
}

// Says why the run has ended before its time; under Slurm the job is put back into the queue.
void print_stop(const Arguments& a, const TrainingFigures& f) {
  const char* const signal = f.stopped_by == SIGTERM ? "SIGTERM" : "SIGUSR1";
  const int64_t done = f.first_step + std::ssize(f.loss);
  if (done == a.plan.steps)
    return fmt::print("{} came in the last step: the run has ended, nothing is left to do\n",
                      signal);
  fmt::print("stopped by {} after step {} of {}: the same command goes on from {}\n", signal, done,
             a.plan.steps, a.plan.save);
  if (const std::string words = requeue_by_slurm(); !words.empty()) fmt::print("{}\n", words);
}

// Any option of theirs says that the run is to go on when ranks die.
void settle_tolerance(const Options& options, Arguments& a) {
  bool given = false;
  for (const char* const option :
       {"--tolerate", "--recover", "--spares", "--patience", "--live", "--live-page",
        "--snapshot-every", "--snapshot-folder", "--faults"})
    given = given || options.given(option);
  if (!given) return;
  if (!(a.patience > 0 && a.patience <= most_patience))
    fail(Where::current(), "--patience {} seconds: it must be above 0, and {} at most", a.patience,
         most_patience);
  a.tolerance.recovery = usual_recovery(a.plan);
  for (int i = 0; i < recoveries; ++i)
    if (const auto each = static_cast<Recovery>(i); a.recover == name(each))
      a.tolerance.recovery = each;
  if (!options.given("--tolerate")) a.tolerance.missing = layout_of(a.plan).dp_replicate - 1;
  a.plan.tolerance = a.tolerance;
}

// Who starts others in place of the dead? MPI does not: Open MPI 4.1 ends a job when a process
// dies.
void expect_others_come(const CommChoice& comm, const Arguments& a) {
  const Tolerance& it = *a.plan.tolerance;
  const char* const idle = a.spares > 0                     ? "--spares"
                           : a.patience != members_patience ? "--patience"
                                                            : nullptr;
  if (idle != nullptr && epoch_host() == nullptr)
    fail(Where::current(),
         "{} changes nothing here: it is for --comm processes. Leave it out, or add that", idle);
  const bool starts_again = it.recovery == Recovery::restart && !it.snapshots.empty();
  if (!comm.wants_processes() || epoch_host() != nullptr || starts_again) return;
  fail(Where::current(),
       "a job of mpirun or srun ends when a process dies. With --recover restart and "
       "--snapshot-folder it goes on when it is started again; --comm processes starts others "
       "itself");
}

// On the live page, by the process that starts the others.
void say_waits_and_ends(RanksWanted& wanted, const Arguments& a) {
  if (a.live_page.empty()) return;
  wanted.all_wait = [&a](const std::vector<int>& missing) {
    say_on_page(a.live_page, wait_words(a.plan, missing), true);
  };
  wanted.failed = [&a](int status, const std::string& text) {
    const int signal = status - 128;
    const bool was_stopped = signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
    say_on_page(a.live_page,
                was_stopped ? stop_words(signal) : "an error has ended the run: " + text, false);
  };
}

// Under mpirun each rank is a process: the first one prints, measures and writes files.
void start_ranks(CommChoice& comm, int argc, char** argv, Arguments& a, bool ranks_given,
                 const Timelines& timelines) {
  if (comm.wants_processes())
    timelines.expect_none();
  else if (a.plan.ranks > 64)
    fail(Where::current(), "{} ranks are wanted; as threads there are 64 at most", a.plan.ranks);
  if (!comm.is_one_of_many()) check_plan(a.plan);  // or many would start, to be refused
  const char* const given = ranks_given         ? "--ranks"
                            : !a.diloco.empty() ? "--diloco"
                            : a.layout.empty()  ? nullptr
                                                : "--layout";
  RanksWanted wanted{a.plan.ranks, given, 1, rank_limit};
  if (a.plan.stops_on_signals) wanted.signal_seen = stop_signal_seen;
  if (a.plan.tolerance)
    wanted.epochs = rule_of(a.plan), wanted.spares = a.spares, wanted.patience = a.patience;
  say_waits_and_ends(wanted, a);
  a.plan.ranks = static_cast<int>(comm.start(argc, argv, wanted));
  if (a.plan.tolerance) expect_others_come(comm, a);
  if (comm.is_first()) return;
  if (epoch_host() == nullptr) a.plan.measure_seconds = 0;  // else it may become the first
  a.plan.save_batches.clear();
}

// What could not be written at the end is said now.
void expect_outputs(const Arguments& a) {
  if (!a.plan.save.empty()) expect_savable(a.plan.save);
  if (!a.json.empty()) expect_writable(a.json);
  if (!a.live_page.empty()) expect_writable(a.live_page);
}

// Opens the GPU of --device cuda. NCCL's ranks have opened theirs.
void settle_device(const CommChoice& comm, Arguments& a) {
  if (comm.has_gpus()) a.plan.device = Device::cuda;  // one for each process, chosen by it
  if (a.device != "cuda" || comm.has_gpus()) return;
  if (comm.wants_processes()) fail(Where::current(), "processes with GPUs are NCCL's: --comm nccl");
  const std::string why_not =
      use_cuda(0, a.matmul == "course" ? MatmulBy::course : MatmulBy::cublas);
  if (!why_not.empty())
    fail(Where::current(), "--device cuda: {}; without the option the CPU computes", why_not);
}

// Beside --load and --resume the folder says what the model is: an option that says otherwise is
// refused.
void expect_same_sizes(const Options& options, const Arguments& a, const TransformerConfig& saved,
                       const std::string& folder) {
  const TransformerConfig& m = a.plan.model;
  const auto expect = [&](const char* option, const auto& given, const auto& held) {
    if (options.given(option) && given != held)
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
  expect("--untied", true, !saved.tied);
  expect("--tied", true, saved.tied);
  expect("--experts", m.mixture.experts, saved.mixture.experts);
  expect("--top-k", m.mixture.top_k, saved.mixture.top_k);
  expect("--shared-experts", m.mixture.shared, saved.mixture.shared);
  expect("--latent", a.latent, std::string());
  expect("--dense-layers", m.mixture.dense_layers, saved.mixture.dense_layers);
  expect("--router", a.router, std::string(name(saved.mixture.score)));
}

// --load: --context says how long the sequences are to be, if not as long as the model's. --resume:
// they stay as long as they were.
int64_t settle_sequence(const Options& options, const Arguments& a,
                        const TransformerConfig& saved) {
  const bool given = options.given("--context");
  const int64_t asked = a.plan.model.context;
  if (a.plan.resume.empty()) return given && asked != saved.context ? asked : 0;
  const int64_t held = saved_sequence(a.plan.resume);
  const int64_t length = held > 0 ? held : saved.context;
  if (given && asked != length)
    fail(Where::current(), "--context {}, but the run in {} has {}; leave --context out", asked,
         a.plan.resume, length);
  return held;
}

// The mask of a loaded model is its own, and that of a resumed run is the run's, unless the options
// say another.
void settle_attention(const Options& options, Arguments& a) {
  TransformerConfig& m = a.plan.model;
  const bool given = options.given("--mask");
  settle_documents(a.plan, given);
  if (given) m.mask = parse_mask(a.mask);
  if (options.given("--attention") || m.mask == MaskOptions{})
    m.attention = a.attention == "plain"  ? AttentionKind::plain
                  : a.attention == "flex" ? AttentionKind::flex
                                          : AttentionKind::blockwise;
  if (m.mask == MaskOptions{} || m.attention == AttentionKind::flex) return;
  fail(Where::current(), "--mask {} is for flex attention, and this is {}; {}",
       describe_mask(m.mask), name(m.attention),
       given ? "add --attention flex" : "leave --attention out, or add --mask causal");
}

// "1536,512,128,64,128"
LatentConfig parse_latent(const std::string& text) {
  std::vector<int64_t> sizes;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');)
    sizes.push_back(whole_number_of(part).value_or(0));
  if (sizes.size() != 5 || *std::min_element(sizes.begin(), sizes.end()) < 1 ||
      *std::max_element(sizes.begin(), sizes.end()) > int64_t{1} << 20)
    fail(Where::current(),
         "--latent {}: give five whole numbers from 1 to 2^20 with commas, as 1536,512,128,64,128",
         text);
  return {sizes[1], sizes[0], sizes[2], sizes[3], sizes[4]};
}

// The model that the options describe; with --load or --resume, the one in the folder.
void settle_model(const Options& options, Arguments& a) {
  TransformerConfig& m = a.plan.model;
  if (a.device == "cuda") a.plan.device = Device::cuda;  // the plan is checked before it is opened
  const std::string& folder = a.plan.resume.empty() ? a.plan.load : a.plan.resume;
  if (!folder.empty()) {
    TransformerConfig saved = load_config(folder);
    expect_same_sizes(options, a, saved, folder);
    a.plan.sequence = settle_sequence(options, a, saved);
    saved.seed = m.seed, saved.dropout = m.dropout;
    std::swap(saved.mixture, m.mixture);  // the run's, but for what the folder says
    saved.mixture.experts = m.mixture.experts, saved.mixture.top_k = m.mixture.top_k;
    saved.mixture.shared = m.mixture.shared;
    m = saved;
  } else {
    const bool llama = a.dialect == "llama";
    m.dialect = llama ? Dialect::llama : Dialect::gpt2;
    m.kv_heads = a.kv_heads > 0 ? a.kv_heads : m.heads;
    // SwiGLU has three matrices: 8/3 C keeps its size that of two of 4 C; a multiple of 16.
    const int64_t usual = llama ? (8 * m.width / 3 + 15) / 16 * 16 : 4 * m.width;
    m.feed_forward = a.feed_forward > 0 ? a.feed_forward : usual;
    if (a.tied && a.untied)
      fail(Where::current(), "--tied and --untied say the opposite of each other; give one");
    m.tied = a.tied || (!llama && !a.untied);
    if (!a.latent.empty()) m.latent = parse_latent(a.latent);
  }
  m.mixture.score = a.router == "sigmoid" ? RouterScore::sigmoid : RouterScore::softmax;
  settle_attention(options, a);
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
  int64_t most = 0, all = 0;
  for (const RankFigures& rank : f.ranks)
    most = std::max(most, rank.flex_flops), all += rank.flex_flops;
  if (all > 0)
    fmt::print("attention's tiles: the rank with the most computed {:.3f} times the mean\n",
               static_cast<double>(most * std::ssize(f.ranks)) / static_cast<double>(all));
  if (f.epochs.size() > 1) fmt::print("each since its process or thread joined\n");
}

void print_left_out(const TrainingFigures& f) {
  if (f.text_skipped > 0)
    fmt::print("left out: {} files that are hidden, empty or binary, {}\n", f.text_skipped,
               console::bytes(static_cast<double>(f.text_skipped_bytes)));
  if (!f.buffers.empty())
    fmt::print("left out: {} tensors that are no weights ({})\n", f.buffers.size(),
               list_names(f.buffers));
}

// Of a model with a tokenizer of its own.
void print_tokens(const TrainingFigures& f) {
  if (f.tokenizer.empty()) return;
  fmt::print("{} tokens by {}, {:.2f} bytes per token{}\n", f.text_tokens, f.tokenizer,
             static_cast<double>(f.text_bytes) / static_cast<double>(f.text_tokens),
             f.text_begins_with.empty()
                 ? ""
                 : "; " + printable(f.text_begins_with) + " stands before text and prompt");
}

void show_step(LivePicture& live, console::Progress& progress, const StepFigures& step) {
  if (step.epochs != nullptr) live.show(step);
  if (step.begins) return;
  progress.update(step.step,
                  fmt::format("loss {:.3f}  {:.0f} tokens/s", step.loss, step.tokens_per_second));
}
// What is computed before the first line of progress.
std::string first_step_words(const TrainingPlan& p) {
  return fmt::format("reads the text, then computes a step of {} sequence{} of {} tokens", p.batch,
                     p.batch == 1 ? "" : "s", sequence_of(p));
}
// Trains; the live page ends with what was lost, or with what went wrong.
TrainingFigures trained(const Arguments& a, LivePicture& live, console::Progress& progress) {
  try {
    TrainingFigures figures =
        run_training(a.plan, [&](const StepFigures& step) { show_step(live, progress, step); });
    live.end(figures);
    return figures;
  } catch (const std::exception& error) {
    live.end(std::string(error.what()));
    throw;
  }
}
// What a worker that was away has cost.
void print_absence(const TrainingPlan& p) {
  const WorkerShare share = worker_share(p.batch, p.workers, p.absent->worker);
  const int64_t H = p.diloco.inner, first = (p.absent->round - 1) * H;
  fmt::print(
      "worker {} was away in round {}, steps {} to {}: {} of {} sequences were left out; the "
      "others averaged without it\n",
      p.absent->worker, p.absent->round, first + 1, first + H, H * (share.end - share.begin),
      p.steps * p.batch);
}

// Of a run that has diverged: what is left of it.
void print_last_good(const TrainingPlan& p, const TrainingFigures& f) {
  const int64_t good = f.first_step + std::ssize(f.loss);
  if (!f.loss.empty())
    fmt::print("loss {:.4f} -> {:.4f} in {} steps\n", f.loss.front(), f.loss.back(), f.loss.size());
  if (p.save.empty())
    fmt::print("the weights of step {} are lost; --save DIR keeps the last good ones\n", good);
  else
    fmt::print("the weights of step {}, the last good ones, are in {}\n", good, p.save);
}

void print_summary(const Arguments& a, const TrainingFigures& f) {
  const TrainingPlan& p = a.plan;
  const MixtureConfig& mixture = p.model.mixture;
  const std::string active =
      mixture.experts == 0
          ? ""
          : fmt::format(", {} of them for a token, which runs through {} of {} experts",
                        active_parameters(p.model), mixture.top_k, mixture.experts);
  fmt::print("{} dialect, {} layers, width {}: {} parameters{}; text of {} in {} files\n",
             name(p.model.dialect), p.model.layers, p.model.width, f.parameters, active,
             console::bytes(static_cast<double>(f.text_bytes)), f.text_files);
  print_left_out(f);
  print_tokens(f);
  if (!f.diverged.empty()) return print_last_good(p, f);
  if (f.loss.empty())
    return fmt::print("nothing left to do: the run had reached step {}\n", f.first_step);
  fmt::print("loss {:.4f} -> {:.4f} in {} steps; on text it has not seen {:.4f}\n", f.loss.front(),
             f.loss.back(), f.loss.size(), f.validation_loss);
  if (p.ema > 0) fmt::print("with the average of the weights {:.4f}\n", f.ema_validation_loss);
  fmt::print(
      "{:.0f} tokens/s, {:.3f} s per step, {:.0f}% of this machine's matmul rate of {:.0f} "
      "GFLOP/s\n",
      f.tokens_per_second, f.median_step_seconds, 100 * f.mfu, f.matmul_gflops);
  if (p.workers > 0)
    fmt::print("{} workers{}, which averaged their weights every {} steps\n", p.workers,
               p.ranks > p.workers ? fmt::format(" of {} ranks", p.ranks / p.workers) : "",
               p.diloco.inner);
  if (p.absent) print_absence(p);
  if (p.layout || p.zero == 3)
    fmt::print("{}:\n{}", describe(layout_of(p)), picture(layout_of(p), short_name));
  print_ranks(f);
  if (a.live) fmt::print("{}", live_text(survival_of(f.epochs, f.loss, f.first_step)));
  if (p.tolerance) fmt::print("{}", describe_losses(f.epochs, f.dropped_sequences, f.deaths));
  if (p.sample_tokens > 0)
    fmt::print("\nbefore: {}\nafter:  {}\n", printable(p.prompt + f.sample_before),
               printable(p.prompt + f.sample_after));
  if (!p.save.empty()) fmt::print("saved to {}\n", p.save);
}

// What `./yotta plan --calibrate` reads beside the seconds.
void write_layout(JsonObject& json, const TrainingPlan& p) {
  const MeshShape shape = layout_of(p);
  for (const Axis axis : all_axes) json.set(short_name(axis), int64_t{shape[axis]});
  json.set("batch", p.batch);
  json.set("sequence", sequence_of(p));
  json.set("microbatches", p.microbatches);
  json.set("schedule", p.schedule);
  json.set("chunks", int64_t{p.chunks});
  json.set("zero", int64_t{p.zero == 3 ? 0 : p.zero});
  json.set("tp_kind", std::string(p.async_tp ? "async" : p.sequence_parallel ? "sp" : "plain"));
  json.set("cp_kind", p.context_parallel);
  json.set("dtype", std::string(name(p.model.dtype)));
  json.set("attention", std::string(name(p.model.attention)));
  json.set("mask", describe_mask(p.model.mask));
  json.set("pack", std::string(p.pack ? "files" : "no"));
  json.set("recompute", p.recompute);
  json.set("recomputed", p.recompute == "none" ? int64_t{0} : p.recompute_blocks);
}

std::vector<int64_t> places_in(uint64_t bits) {
  std::vector<int64_t> places;
  for (int64_t place = 0; place < 64; ++place)
    if ((bits >> place & 1) != 0) places.push_back(place);
  return places;
}

// What was lost: steps that were done again, sequences dropped, seconds to go on; and who died.
void set_losses(JsonObject& json, const TrainingFigures& f) {
  int64_t redone = 0;
  std::vector<JsonObject> epochs;
  for (const EpochRecord& each : f.epochs) {
    redone += each.redone;
    JsonObject& epoch = epochs.emplace_back();
    epoch.set("epoch", each.epoch);
    epoch.set("ranks", each.ranks);
    epoch.set("step", each.step);
    epoch.set("steps_redone", each.redone);
    epoch.set("ranks_healed", each.moved);
    epoch.set("state_from", std::string(name(each.level)));
    epoch.set("seconds_to_go_on", each.seconds);
    epoch.set("places", places_in(each.places));
    epoch.set("joined", places_in(each.joined));
  }
  json.set("steps_redone", redone);
  json.set("sequences_dropped", f.dropped_sequences);
  json.set("epochs", epochs);
  std::vector<JsonObject> deaths;
  for (const Death& each : f.deaths) {
    JsonObject& death = deaths.emplace_back();
    death.set("rank", int64_t{each.place});
    death.set("member", int64_t{each.number});
    death.set("epoch", int64_t{each.epoch});
  }
  json.set("deaths", deaths);
}

void write_json(const Arguments& a, const TrainingFigures& f, const Timelines& timelines) {
  JsonObject json;
  json.set("ranks", int64_t{a.plan.ranks});
  write_layout(json, a.plan);
  json.set("first_step", f.first_step);
  json.set("loss", f.loss);
  if (!f.diverged.empty()) json.set("diverged", f.diverged);
  if (f.diverged.empty()) json.set("validation_loss", f.validation_loss);
  if (a.plan.ema > 0 && f.diverged.empty()) json.set("ema_validation_loss", f.ema_validation_loss);
  json.set("tokens_per_second", f.tokens_per_second);
  json.set("step_seconds", f.median_step_seconds);
  json.set("scores_share", f.scores_share);
  json.set("model_flops_per_step", f.model_flops_per_step);
  json.set("matmul_gflops", f.matmul_gflops);
  json.set("mfu", f.mfu);
  json.set("parameters", f.parameters);
  json.set("text_bytes", f.text_bytes);
  json.set("text_skipped", f.text_skipped);
  json.set("text_tokens", f.text_tokens);
  std::vector<int64_t> sent, peaks, flex;
  std::vector<JsonObject> by_kind;
  for (const RankFigures& rank : f.ranks) {
    sent.push_back(rank.bytes_sent);
    peaks.push_back(rank.peak_bytes);
    flex.push_back(rank.flex_flops);
    JsonObject& kinds = by_kind.emplace_back();
    for (size_t kind = 0; kind < rank.peak_by_kind.size(); ++kind)
      kinds.set(name(static_cast<MemoryKind>(kind)), rank.peak_by_kind[kind]);
  }
  json.set("bytes_sent_per_rank", sent);
  json.set("peak_bytes", peaks);
  if (a.plan.model.attention == AttentionKind::flex) json.set("flex_flops_per_rank", flex);
  json.set("peak_bytes_by_kind", by_kind);
  if (a.plan.tolerance) set_losses(json, f);
  timelines.set_profile(json);
  write_file(a.json, json.text());
}

}  // namespace

int main(int argc, char** argv) {
  Options options("yotta train",
                  "Trains a transformer on text: tokens in, the next token out. A token is a byte, "
                  "unless a model is loaded from a folder with a tokenizer.json (byte-level BPE).");
  Arguments arguments;
  add_options(options, arguments);
  options.heading("Options");
  Timelines timelines;
  timelines.add_options(options);
  CommChoice comm;
  comm.add_option(options);
  if (const auto status = options.parse(argc, argv)) return *status;
  if (!arguments.requeue.empty()) note_stop_signals();
  try {
    const bool ranks_given = options.given("--ranks");
    settle_requeue(arguments);
    settle_model(options, arguments);
    settle_layout(arguments, ranks_given);
    settle_tolerance(options, arguments);
    start_ranks(comm, argc, argv, arguments, ranks_given, timelines);
    if (comm.is_first()) expect_outputs(arguments);
    settle_device(comm, arguments);
    timelines.start();
    console::Progress progress("training", arguments.plan.steps);
    const StopsOnPage stops(comm.is_one_of_many() ? "" : arguments.live_page);
    LivePicture live(arguments.live, arguments.live_page, arguments.plan.steps);
    progress.begin(first_step_words(arguments.plan));
    const TrainingFigures figures = trained(arguments, live, progress);
    progress.finish();
    print_summary(arguments, figures);
    if (figures.stopped_by != 0 && comm.is_first()) print_stop(arguments, figures);
    timelines.finish(trained_steps(arguments.plan, figures));
    if (!arguments.json.empty() && comm.is_first()) write_json(arguments, figures, timelines);
    console::expect_printed();
    return comm.finish(figures.diverged);
  } catch (const std::exception& error) {
    return comm.finish(error.what());
  }
}
