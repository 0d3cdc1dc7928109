// One training run, as `train` and `tour` do it: text in, a transformer on some ranks, figures out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "course/options/timelines.hpp"
#include "course/training/diloco_options.hpp"
#include "course/training/surviving.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/transformer_config.hpp"

namespace yotta {

inline const std::vector<std::string> schedule_names = {
    "naive", "gpipe", "1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipev", "auto"};

struct TrainingPlan {
  TransformerConfig model = gpt2_config(4, 128, 4, 128, 256);
  // Where the model lives. For cuda call use_cuda() before (parallel/cuda/use_cuda.hpp).
  Device device = Device::cpu;
  bool graph = false;  // TrainOptions::graph
  int ranks = 1;
  // How the ranks share the work; empty: each its share of the batch.
  std::optional<MeshShape> layout;
  std::string recompute =
      "none";  // activation checkpointing: or attention, pointwise, all, sqrt, revolve
  int64_t recompute_blocks = -1;  // of all and sqrt: the first blocks of each stage; -1: all
  int64_t loss_tokens = 0;        // whose logits exist at once; 0: all of a microbatch
  int64_t snapshots = 2;          // revolve: inputs of layers that there is room for
  std::string schedule = "1f1b";  // of a pipeline: any that schedule_names has
  int chunks = 1;    // pipeline stages per rank; more than one: interleaved 1F1B or ZB-H1
  int64_t hold = 0;  // of the schedule auto: microbatches that a rank may hold; 0: as many as pp
  std::string context_parallel = "ring";  // what cp does: or ulysses
  bool sequence_parallel = false;  // the ranks of tp share the tokens between attention and MLP
  bool keep_gathered = false;      // with it: gathered inputs stay until the backward pass
  bool async_tp = false;           // shares them too: pieces travel while others are multiplied
  bool both_ways = false;          // with it: pieces go both ways round the ring
  int zero = 0;                    // ZeRO stage of dp: 0 is DDP; 1 and 2; 3 makes dp the axis fsdp
  int64_t layers_per_unit = 1;     // of fsdp: layers of the stack that are gathered together
  bool no_reshard = false;         // fsdp keeps units whole from forward to backward
  bool bf16_gathered = false;      // fsdp gathers and computes in bf16; shards keep their type
  bool bf16_gradients = false;     // ZeRO-1 and 2 keep and sum gradients in bf16, as their paper
  int64_t sequence = 0;            // tokens in a sequence; 0: the model's context
  int64_t batch = 8;               // sequences of all ranks together
  int64_t microbatches = 1;
  std::string balance_over = "microbatch";  // or batch: NdOptions::balance_over_batch
  int64_t steps = 200;
  double learning_rate = 1e-3;
  int64_t warmup = 20;
  double clip = 1;
  double spike_factor = 2;               // of TrainOptions: when a loss counts as a jump; 0: never
  std::string optimizer = "adamw";       // or sgd
  AdamWOptions adamw;                    // its weight decay is SGD's too
  double momentum = 0;                   // of SGD
  std::string gradients = "overlapped";  // or bucketed, naive
  int64_t bucket_bytes = 1 << 20;
  int workers = 0;                // of DiLoCo, each with a layout of its own; 0: none
  DilocoOptions diloco;           // how they average
  std::optional<Absence> absent;  // one of them is away for a round
  double ema = 0;                 // decay of an average of the weights; 0: none
  int64_t load_ahead = 0;         // batches that are read while the model trains
  bool pack = false;              // each file is a document, and sequences are packed with them
  std::string separator;          // what stands between documents in a file; empty: nothing
  std::string text;               // a file or folder; empty: the course's own prose and headers
  std::string encoding;           // of what is not UTF-8 there
  int64_t stop_after = 0;  // stop when so many steps are done; 0: all. --resume goes on from there
  std::string save;        // a folder, written after the last step
  int64_t save_every = 0;  // and after each so many steps; 0: only then
  std::string load;        // start from the weights in this folder
  std::string resume;      // go on where the run saved in this folder stopped
  // Stop after the step in which SIGUSR1 or SIGTERM comes, and save: the scheduler cuts the run
  // off. The caller has called note_stop_signals() (requeue.hpp).
  bool stops_on_signals = false;
  std::string save_batches;  // a safetensors file with the tokens of every step
  std::string prompt = "The ";
  double measure_seconds = 0.5;  // most, of the machine's matmul rate; 0: not measured, and no MFU
  int64_t sample_tokens = 0;     // written by the model before and after training
  std::optional<Tolerance> tolerance;  // the run goes on when ranks die; empty: it ends
};

// The layout of a plan: the one that is given, or all ranks data-parallel; with ZeRO-3 that is the
// axis fsdp. With DiLoCo, of each worker.
inline MeshShape layout_of(const TrainingPlan& plan) {
  const int ranks = plan.ranks / std::max(plan.workers, 1);
  MeshShape shape = plan.layout.value_or(MeshShape{.dp_replicate = ranks});
  if (plan.zero == 3 && shape.dp_shard == 1) std::swap(shape.dp_shard, shape.dp_replicate);
  return shape;
}

// Tokens in each of its sequences. A loaded model may be trained on shorter ones than its context.
inline int64_t sequence_of(const TrainingPlan& plan) {
  return plan.sequence > 0 ? plan.sequence : plan.model.context;
}

// Ranks that a run can have.
inline constexpr int rank_limit = 4096;

// Throws, with what would work, if a plan cannot: before ranks are started, and anything is read or
// built.
void check_plan(const TrainingPlan& plan);

// Tokens in the sequences of the run that is saved in a folder; 0: as many as its model's context.
int64_t saved_sequence(const std::string& folder);

// The mask and the documents of the run that a plan resumes, as far as it says nothing of them.
void settle_documents(TrainingPlan& plan, bool mask_is_given);

// Is a run saved in a folder, so that --resume could go on with it?
bool is_saved_run(const std::string& folder);

struct StepFigures {
  int64_t step = 0;  // done so far, of all
  double loss = 0, tokens_per_second = 0;
  // All so far, from step `first` on; epochs: of a run that goes on when ranks die, else null.
  int64_t first = 0;
  const std::vector<double>* losses = nullptr;
  const std::vector<EpochRecord>* epochs = nullptr;
  bool begins = false;  // an epoch, in which no step is done yet
};

// What one rank sent in all training steps, and held at its peak; saving and sampling apart.
struct RankFigures {
  int64_t bytes_sent = 0, messages_sent = 0, peak_bytes = 0;
  int64_t flex_flops = 0;  // of flex attention, forward and backward
  std::vector<int64_t> peak_by_kind = std::vector<int64_t>(memory_kinds);  // as MemoryKind
};

struct TrainingFigures {
  std::vector<double> loss, step_seconds;
  int64_t first_step = 0, parameters = 0, tokens_per_step = 0, text_bytes = 0, text_files = 0;
  int64_t text_skipped = 0, text_skipped_bytes = 0;  // files that were left out
  std::vector<std::string> buffers;                  // tensors of the folder that were left out
  int64_t text_tokens = 0;       // as many as bytes, unless the model has a tokenizer.json
  std::string tokenizer;         // that file; empty: tokens are bytes
  std::string text_begins_with;  // its special tokens before the text and before the prompt
  std::string diverged;          // why the run stopped; its figures are those of the steps before
  double validation_loss = 0;
  double ema_validation_loss = 0;  // with the average of the weights
  int stopped_by = 0;              // the signal; 0: none has come
  double median_step_seconds = 0, tokens_per_second = 0;
  double scores_share = 1;  // that the mask leaves, of the scores of causal attention
  double model_flops_per_step = 0, matmul_gflops = 0, mfu = 0;
  std::vector<RankFigures> ranks;   // with a tolerance: of the last epoch
  std::vector<EpochRecord> epochs;  // with a tolerance: how each began
  std::vector<Death> deaths;        // until then
  int64_t dropped_sequences = 0;    // that no rank was there to train on
  std::string sample_before, sample_after;
};

// Trains; calls `on_step` on rank 0 after each step, and when an epoch begins. The same losses for
// any layout of ranks, to rounding. Errors: everything that the text, the folders, the sizes or the
// run itself can have wrong, in words.
TrainingFigures run_training(const TrainingPlan& plan,
                             const std::function<void(const StepFigures&)>& on_step);

// What --mfu needs to know of such a run.
TrainedSteps trained_steps(const TrainingPlan& plan, const TrainingFigures& figures);

}  // namespace yotta
