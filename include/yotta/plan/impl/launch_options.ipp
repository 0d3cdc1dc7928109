// The bodies of plan/launch_options.hpp.
#pragma once

#include "yotta/plan/launch_options.hpp"

#include <fmt/format.h>

namespace yotta {

namespace detail {

inline int64_t sequences_of_rank(const PlanRequest& request, const Layout& layout) {
  return request.batch() / layout.shape.data_ranks();
}
inline int64_t sequences_of_microbatch(const PlanRequest& request, const Layout& layout) {
  return sequences_of_rank(request, layout) / layout.microbatches;
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

// ---- TorchTitan ----

// Layers of a virtual stage. 0: no number makes as many stages.
inline int64_t titan_layers_a_stage(const PlanRequest& request, const Layout& layout) {
  const int64_t stages = int64_t{1} * layout.shape.pp * layout.chunks,
                layers = request.config.layers, each = (layers + stages - 1) / stages;
  return (layers + each - 1) / each == stages ? each : 0;
}

// Our stages have equally many blocks; the embedding and the head come on top of them.
inline std::string titan_pipeline(const PlanRequest& request, const Layout& layout) {
  if (layout.shape.pp == 1) return "";
  const int64_t each = titan_layers_a_stage(request, layout);
  return fmt::format(
      "pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n"
      "pipeline_parallel_first_stage_less_layers = 0\n"
      "pipeline_parallel_last_stage_less_layers = 0\n{}",
      torch_schedule(layout.schedule), sequences_of_microbatch(request, layout),
      layout.chunks > 1 && each > 0 ? fmt::format("pipeline_parallel_layers_per_stage = {}\n", each)
                                    : "");
}

inline bool titan_compiles(const Layout& layout) {
  return layout.pieces != Pieces::none && layout.shape.tp > 1;
}

inline std::string titan_parallelism(const PlanRequest& request, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  const TitanDegrees degrees = titan_degrees(layout);
  std::string text = fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "tensor_parallel_degree = {}\ncontext_parallel_degree = {}\npipeline_parallel_degree = {}\n",
      degrees.replicate, degrees.shard, shape.tp, shape.cp, shape.pp);
  if (degrees.shard * shape.cp > 1)
    text += fmt::format("fsdp_reshard_after_forward = \"{}\"\n",
                        shape.dp_shard > 1 && !layout.keeps_units ? "always" : "never");
  if (titan_compiles(layout)) text += "enable_async_tensor_parallel = true\n";
  if (shape.cp > 1) text += "context_parallel_rotate_method = \"alltoall\"\n";
  text += titan_pipeline(request, layout);
  if (shape.ep > 1) text += fmt::format("expert_parallel_degree = {}\n", degrees.expert);
  return text;
}

inline std::vector<std::string> titan_notes(const PlanRequest& request, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  const TitanDegrees degrees = titan_degrees(layout);
  std::vector<std::string> notes;
  const auto note = [&](bool lacks, const char* words) {
    if (lacks) notes.push_back(words);
  };
  note(layout.zero == 1, "no ZeRO-1: dp is data_parallel_shard_degree, which is FSDP");
  note(
      layout.zero == 2,
      "no ZeRO-2 by name: dp is data_parallel_shard_degree, whose units stay whole until backward");
  note(degrees.has_ddp && layout.zero == 0,
       "DDP goes with no other axis: dp is data_parallel_shard_degree, which is FSDP");
  note(shape.cp > 1 && degrees.shard == 1, "cp always shards weights, as FSDP over its ranks");
  note(shape.ep > 1,
       "ep lies inside cp and data_parallel_shard_degree, over which FSDP cuts all other weights");
  note(shape.pp > 1 && shape.data_ranks() > 1 && !layout.pp_outermost,
       "pp is its outermost axis: stages are farther apart than here, data-parallel ranks nearer");
  note(shape.cp > 1 && layout.context == ContextParallel::ulysses, "no Ulysses: the ring instead");
  note(layout.recomputed > 0, "no first blocks of a stage: mode full recomputes all");
  note(shape.tp > 1 && !layout.sequence_parallel, "tp always has sequence parallelism");
  note(layout.schedule == PipelineKind::zb_h1 && shape.pp > 1,
       "no ZB-H1: InterleavedZeroBubble is the nearest, and wants 2 stages or more on a rank");
  note(shape.pp > 1 && layout.chunks > 1 && titan_layers_a_stage(request, layout) == 0,
       "no pipeline_parallel_layers_per_stage makes as many stages of these layers: list them in "
       "module_fqns_per_model_part");
  return notes;
}

}  // namespace detail

YOTTA_INLINE LaunchOptions torchtitan_options(const PlanRequest& request, const Layout& layout) {
  const int64_t local = layout.shape.pp > 1 ? detail::sequences_of_rank(request, layout)
                                            : detail::sequences_of_microbatch(request, layout);
  std::string text = fmt::format(
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n{}\n", local,
      request.batch(), request.sequence, detail::titan_compiles(layout) ? "compile = true\n" : "");
  text += detail::titan_parallelism(request, layout);
  text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                      layout.recomputed == 0 ? "none" : "full");
  return {text, detail::titan_notes(request, layout)};
}

// ---- Megatron-LM ----

namespace detail {

// How blocks are shared out among the stages: alike, or with the embedding and the head as a layer
// each, or not at all.
enum class MegatronSplit : uint8_t { even, with_ends, none };
inline MegatronSplit megatron_split(const PlanRequest& request, const Layout& layout) {
  const int64_t stages = int64_t{1} * layout.shape.pp * layout.chunks,
                layers = request.config.layers;
  if (layers % stages == 0) return MegatronSplit::even;
  return (layers + 2) % stages == 0 ? MegatronSplit::with_ends : MegatronSplit::none;
}
// Whether its ranks can have our order: tp, cp, ep, pp, dp in place of dp before pp. It refuses
// that where experts have other data-parallel groups.
constexpr bool megatron_reorders(const Layout& layout) {
  const MeshShape& shape = layout.shape;
  return !layout.pp_outermost && shape.pp > 1 && shape.data_ranks() > 1 && shape.ep == shape.cp;
}

inline void add_megatron_pipeline(OptionWords& to, const PlanRequest& request,
                                  const Layout& layout) {
  const MeshShape& shape = layout.shape;
  if (shape.pp == 1) return;
  to.add(layout.chunks > 1, "--num-virtual-stages-per-pipeline-rank {}", layout.chunks);
  to.add(megatron_split(request, layout) == MegatronSplit::with_ends,
         "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split");
  to.add(megatron_reorders(layout), "--use-tp-pp-dp-mapping");
}

inline void add_megatron_axes(OptionWords& to, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  const bool ulysses = layout.context == ContextParallel::ulysses, shards = shape.dp_shard > 1;
  to.add(shape.tp > 1 && layout.sequence_parallel, "--sequence-parallel");
  to.add(shape.tp > 1 && layout.pieces != Pieces::none, "--tp-comm-overlap");
  to.add(shape.cp > 1, "--cp-comm-type {}", ulysses ? "a2a" : "p2p");
  to.add(shape.ep > 1, "--expert-model-parallel-size {}", shape.ep);
  to.add(layout.zero > 0 || shards, "--use-distributed-optimizer");
  to.add(shards || layout.zero == 2,
         "--use-megatron-fsdp --data-parallel-sharding-strategy {} --ckpt-format fsdp_dtensor "
         "--overlap-param-gather",
         shards && !layout.keeps_units ? "optim_grads_params" : "optim_grads");
  to.add(shards || (layout.zero != 1 && shape.cp * shape.data_ranks() > 1),
         "--overlap-grad-reduce");
  to.add(layout.recomputed < 0,
         "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
  to.add(layout.recomputed > 0,
         "--recompute-granularity full --recompute-method block --recompute-num-layers {}",
         layout.recomputed);
}

inline void add_megatron_latents(OptionWords& to, const TransformerConfig& c) {
  const LatentConfig& l = c.latent;
  to.add(c.has_latent(),
         "--multi-latent-attention --q-lora-rank {} --kv-lora-rank {} --qk-head-dim {} "
         "--qk-pos-emb-head-dim {} --v-head-dim {}",
         l.q_rank, l.kv_rank, l.plain, l.turned, l.value);
  to.add(c.mixture.groups > 1, "--moe-router-num-groups {} --moe-router-group-topk {}",
         c.mixture.groups, c.mixture.top_groups);
  const int64_t dense = c.mixture.dense_layers;
  to.add(dense > 0, "--moe-layer-freq \"([0]*{}+[1]*{})\"", dense, c.layers - dense);
}

inline std::vector<std::string> megatron_notes(const PlanRequest& request, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  const MegatronSplit split = megatron_split(request, layout);
  std::vector<std::string> notes;
  const auto note = [&](bool lacks, const char* words) {
    if (lacks) notes.push_back(words);
  };
  note(shape.pp > 1 && splits_backward(layout.schedule),
       "no zero-bubble schedule: 1F1B, or interleaved, is the nearest");
  note(shape.pp > 1 && split == MegatronSplit::with_ends,
       "the embedding and the head count as a layer each: the first and the last stage have a "
       "block less");
  note(shape.pp > 1 && split == MegatronSplit::none,
       "the layers do not divide among the stages: list them in --pipeline-model-parallel-layout");
  note(shape.pp > 1 && shape.data_ranks() > 1 && !layout.pp_outermost && !megatron_reorders(layout),
       "its pp is the outermost axis: stages are farther apart than here, replicas nearer");
  note(shape.dp_shard > 1 && shape.dp_replicate > 1,
       "HSDP: --num-distributed-optimizer-instances is the nearest to fsdp inside dp");
  note(shape.dp_shard > 1 && layout.keeps_units,
       "no units that stay whole until backward: optim_grads, whose weights always are, is the "
       "nearest");
  note(shape.dp_shard > 1 || layout.zero == 2,
       "FSDP wants CUDA_DEVICE_MAX_CONNECTIONS unset, or above 1");
  note(request.config.mixture.experts > 0 && shape.tp > 1 && !layout.sequence_parallel,
       "experts beside tp want --sequence-parallel");
  return notes;
}

}  // namespace detail

YOTTA_INLINE LaunchOptions megatron_options(const PlanRequest& request, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  OptionWords words(fmt::format(
      "--tensor-model-parallel-size {} --pipeline-model-parallel-size {} --context-parallel-size "
      "{} --micro-batch-size {} --global-batch-size {} --seq-length {}",
      shape.tp, shape.pp, shape.cp, detail::sequences_of_microbatch(request, layout),
      request.batch(), request.sequence));
  words.add(request.config.dtype == DType::bf16, "--bf16");
  detail::add_megatron_pipeline(words, request, layout);
  detail::add_megatron_axes(words, layout);
  detail::add_megatron_latents(words, request.config);
  return {words.text(), detail::megatron_notes(request, layout)};
}

}  // namespace yotta
