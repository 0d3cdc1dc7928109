// Launch options: a planned layout as other programs are told it: ours, TorchTitan, Megatron-LM.
//
//     ours                     TorchTitan                            Megatron-LM
//     tp                       tensor_parallel_degree                --tensor-model-parallel-size
//     cp                       context_parallel_degree               --context-parallel-size
//     pp                       pipeline_parallel_degree              --pipeline-model-parallel-size
//     fsdp                     data_parallel_shard_degree            --use-megatron-fsdp, all of dp
//     dp                       data_parallel_replicate_degree        what is left of the GPUs
//     ZeRO-1                   (none; FSDP is the nearest)           --use-distributed-optimizer
//     interleaved, v chunks    Interleaved1F1B                       --num-virtual-stages-per-
//                                                                    pipeline-rank v
//     all recomputed           [activation_checkpoint] mode full     --recompute-granularity full
//
// What one of them has no word for is a note: the nearest that it has.
//
// Our command names the model by its sizes, or loads it. Up to 64 ranks of a small model are
// threads here, on a clock of the planned cluster; more of them are processes on the chips.
// References: torchtitan/config/job_config.py of pytorch/torchtitan, commit 6404b93 (2025);
// Megatron Core's Parallelism Strategies Guide (docs.nvidia.com/megatron-core) and
// megatron/training/arguments.py of NVIDIA/Megatron-LM.
#pragma once

#include <string>
#include <vector>

#include "yotta/plan/layout_space.hpp"

namespace yotta {

struct LaunchOptions {
  std::string text;
  std::vector<std::string> notes = {};  // what the text cannot say
};

// What a command names besides the layout.
struct TrainFrom {
  std::string load = {};     // a folder with weights; empty: a new model of the same sizes
  std::string cluster = {};  // as --cluster is told it
};
// Whether `train` can run it on this computer: ranks as threads, and a model that fits.
inline constexpr int most_threads = 64;
inline constexpr int64_t most_parameters_here = int64_t{1} << 28;
constexpr bool runs_here(const PlanRequest& request, const Layout& layout) {
  return layout.shape.ranks() <= most_threads && parameters(request.config) <= most_parameters_here;
}

// ./yotta train ...; where the chips are needed, under srun with NCCL.
YOTTA_API std::string train_command(const PlanRequest& request, const Layout& layout,
                                    const TrainFrom& from);
// Sections of a TOML file.
YOTTA_API LaunchOptions torchtitan_options(const PlanRequest& request, const Layout& layout);
// Options of pretrain_gpt.py.
YOTTA_API LaunchOptions megatron_options(const PlanRequest& request, const Layout& layout);

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace yotta {

namespace detail {

inline int64_t sequences_of_rank(const PlanRequest& request, const Layout& layout) {
  return request.batch() / layout.shape.data_ranks();
}
inline int64_t sequences_of_microbatch(const PlanRequest& request, const Layout& layout) {
  return sequences_of_rank(request, layout) / layout.microbatches;
}

// Words with spaces between them.
class OptionWords {
 public:
  explicit OptionWords(std::string first) : text_(std::move(first)) {}
  template <class... Values>
  void add(bool given, fmt::format_string<Values...> words, Values&&... values) {
    if (given) text_ += " " + fmt::format(words, std::forward<Values>(values)...);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

inline const char* train_schedule(PipelineKind kind) {
  if (kind == PipelineKind::zb_h1) return "zb-h1";
  return kind == PipelineKind::zb_v ? "zb-v" : "1f1b";
}
// The names of PyTorch's torch.distributed.pipelining.schedules.
inline const char* torch_schedule(PipelineKind kind) {
  switch (kind) {
    case PipelineKind::interleaved: return "Interleaved1F1B";
    case PipelineKind::zb_h1: return "InterleavedZeroBubble";
    case PipelineKind::zb_v: return "ZBVZeroBubble";
    default: return "1F1B";
  }
}

inline std::string train_mesh(const MeshShape& shape) {
  std::vector<std::string> axes;
  for (const Axis axis : all_axes)
    if (shape[axis] > 1) axes.push_back(fmt::format("{}={}", short_name(axis), shape[axis]));
  return axes.empty() ? "dp=1" : fmt::format("{}", fmt::join(axes, ","));
}

inline void add_sizes(OptionWords& to, const TransformerConfig& c) {
  const bool llama = c.dialect == Dialect::llama;
  const MixtureConfig& m = c.mixture;
  to.add(true, "--dialect {} --layers {} --width {} --heads {}", name(c.dialect), c.layers, c.width,
         c.heads);
  to.add(llama, "--kv-heads {}", c.kv_heads);
  to.add(true, "--feed-forward {}", c.feed_forward);
  to.add(!llama && !c.tied, "--untied");
  if (m.experts == 0) return;
  to.add(true, "--experts {} --top-k {}", m.experts, m.top_k);
  to.add(m.shared > 0, "--shared-experts {}", m.shared);
  to.add(m.score == RouterScore::sigmoid, "--router sigmoid");
}
inline void add_mixture_rules(OptionWords& to, const MixtureConfig& m) {
  to.add(m.capacity > 0, "--capacity {}", m.capacity);
  to.add(m.balance_loss > 0, "--balance-loss {}", m.balance_loss);
  to.add(m.z_loss > 0, "--z-loss {}", m.z_loss);
  to.add(m.bias_rate > 0, "--bias-rate {}", m.bias_rate);
}
inline void add_techniques(OptionWords& to, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  const bool in_pieces = layout.pieces != Pieces::none;
  to.add(shape.tp > 1 && layout.sequence_parallel && !in_pieces, "--sequence-parallel");
  to.add(shape.tp > 1 && in_pieces, "--async-tp");
  to.add(shape.cp > 1 && layout.context == ContextParallel::ulysses, "--context-parallel ulysses");
  to.add(shape.pp > 1, "--schedule {}", train_schedule(layout.schedule));
  to.add(layout.chunks > 1, "--chunks {}", layout.chunks);
  to.add(layout.zero > 0, "--zero 1");
  to.add(layout.recomputed != 0, "--recompute all");
  to.add(layout.recomputed > 0, "--recompute-blocks {}", layout.recomputed);
  to.add(true, "--bucket-bytes {}", bucket_bytes_of(layout));
}

}  // namespace detail

std::string train_command(const PlanRequest& request, const Layout& layout, const TrainFrom& from) {
  const bool here = runs_here(request, layout);
  detail::OptionWords words(here ? "./yotta train"
                                 : fmt::format("srun -n {} ./yotta train", layout.shape.ranks()));
  words.add(!from.load.empty(), "--load {}", from.load);
  if (from.load.empty()) detail::add_sizes(words, request.config);
  detail::add_mixture_rules(words, request.config.mixture);
  words.add(true, "--dtype {} --context {} --batch {} --microbatches {} --layout {}",
            name(request.config.dtype), request.sequence, request.batch(), layout.microbatches,
            detail::train_mesh(layout.shape));
  detail::add_techniques(words, layout);
  words.add(here && !from.cluster.empty(), "--cluster {}", from.cluster);
  words.add(!here, "--comm nccl");
  return words.text();
}

// ---- TorchTitan ----

namespace detail {

// Layers of a virtual stage, of which the embedding and the head count as one each. 0: no number
// makes as many stages.
inline int64_t titan_layers_a_stage(const PlanRequest& request, const Layout& layout) {
  const int64_t stages = int64_t{1} * layout.shape.pp * layout.chunks,
                layers = request.config.layers + 2, each = (layers + stages - 1) / stages;
  return (layers + each - 1) / each == stages ? each : 0;
}

inline std::string titan_pipeline(const PlanRequest& request, const Layout& layout) {
  if (layout.shape.pp == 1) return "";
  const int64_t each = titan_layers_a_stage(request, layout);
  return fmt::format(
      "pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n{}",
      torch_schedule(layout.schedule), sequences_of_microbatch(request, layout),
      layout.chunks > 1 && each > 0 ? fmt::format("pipeline_parallel_layers_per_stage = {}\n", each)
                                    : "");
}

inline std::string titan_parallelism(const PlanRequest& request, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  std::string text = fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "tensor_parallel_degree = {}\ncontext_parallel_degree = {}\npipeline_parallel_degree = {}\n",
      shape.dp_replicate, shape.dp_shard, shape.tp, shape.cp, shape.pp);
  if (layout.pieces != Pieces::none && shape.tp > 1)
    text += "enable_async_tensor_parallel = true\n";
  if (shape.cp > 1) text += "context_parallel_rotate_method = \"alltoall\"\n";
  text += titan_pipeline(request, layout);
  if (shape.ep > 1) text += fmt::format("expert_parallel_degree = {}\n", shape.ep);
  return text;
}

inline std::vector<std::string> titan_notes(const PlanRequest& request, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  std::vector<std::string> notes;
  const auto note = [&](bool lacks, const char* words) {
    if (lacks) notes.push_back(words);
  };
  const bool replicates = shape.dp_replicate > 1 && shape.dp_shard == 1 && shape.cp == 1;
  note(layout.zero > 0, "no ZeRO-1: make dp data_parallel_shard_degree, which is FSDP");
  note(replicates && shape.tp * shape.pp * shape.ep > 1 && layout.zero == 0,
       "DDP goes with no other axis: make dp data_parallel_shard_degree, which is FSDP");
  note(shape.cp > 1 && layout.context == ContextParallel::ulysses, "no Ulysses: the ring instead");
  note(shape.cp > 1 && shape.dp_shard == 1, "cp always shards weights, as FSDP over its ranks");
  note(layout.recomputed > 0, "no first blocks of a stage: mode full recomputes all");
  note(shape.tp > 1 && !layout.sequence_parallel, "tp always has sequence parallelism");
  note(layout.schedule == PipelineKind::zb_h1 && shape.pp > 1,
       "no ZB-H1: InterleavedZeroBubble is the nearest, and wants 2 stages or more on a rank");
  note(shape.pp > 1 && layout.chunks > 1 && titan_layers_a_stage(request, layout) == 0,
       "no pipeline_parallel_layers_per_stage makes as many stages of these layers");
  return notes;
}

}  // namespace detail

LaunchOptions torchtitan_options(const PlanRequest& request, const Layout& layout) {
  const int64_t local = layout.shape.pp > 1 ? detail::sequences_of_rank(request, layout)
                                            : detail::sequences_of_microbatch(request, layout);
  std::string text =
      fmt::format("[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n\n",
                  local, request.batch(), request.sequence);
  text += detail::titan_parallelism(request, layout);
  text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                      layout.recomputed == 0 ? "none" : "full");
  return {text, detail::titan_notes(request, layout)};
}

// ---- Megatron-LM ----

namespace detail {

inline void add_megatron_axes(OptionWords& to, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  const bool ulysses = layout.context == ContextParallel::ulysses;
  to.add(shape.tp > 1 && layout.sequence_parallel, "--sequence-parallel");
  to.add(shape.tp > 1 && layout.pieces != Pieces::none, "--tp-comm-overlap");
  to.add(shape.cp > 1, "--cp-comm-type {}", ulysses ? "a2a" : "p2p");
  to.add(shape.pp > 1 && layout.chunks > 1, "--num-virtual-stages-per-pipeline-rank {}",
         layout.chunks);
  to.add(shape.ep > 1, "--expert-model-parallel-size {}", shape.ep);
  to.add(layout.zero > 0, "--use-distributed-optimizer");
  to.add(shape.dp_shard > 1,
         "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params");
  to.add(layout.recomputed < 0,
         "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
  to.add(layout.recomputed > 0,
         "--recompute-granularity full --recompute-method block --recompute-num-layers {}",
         layout.recomputed);
}

inline std::vector<std::string> megatron_notes(const Layout& layout) {
  const MeshShape& shape = layout.shape;
  std::vector<std::string> notes;
  if (shape.pp > 1 && splits_backward(layout.schedule))
    notes.push_back("no zero-bubble schedule: 1F1B, or interleaved, is the nearest");
  if (shape.dp_shard > 1 && shape.dp_replicate > 1)
    notes.push_back("HSDP: --num-distributed-optimizer-instances is the nearest to fsdp inside dp");
  return notes;
}

}  // namespace detail

LaunchOptions megatron_options(const PlanRequest& request, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  detail::OptionWords words(fmt::format(
      "--tensor-model-parallel-size {} --pipeline-model-parallel-size {} --context-parallel-size "
      "{} --micro-batch-size {} --global-batch-size {} --seq-length {}",
      shape.tp, shape.pp, shape.cp, detail::sequences_of_microbatch(request, layout),
      request.batch(), request.sequence));
  words.add(request.config.dtype == DType::bf16, "--bf16");
  detail::add_megatron_axes(words, layout);
  return {words.text(), detail::megatron_notes(layout)};
}

}  // namespace yotta
#endif  // YOTTA_BODIES
