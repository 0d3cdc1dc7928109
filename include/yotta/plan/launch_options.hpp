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

// ./yotta train ...; `model` is the folder of config.json and weights.
YOTTA_API std::string train_command(const PlanRequest& request, const Layout& layout,
                                    const std::string& model);
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

}  // namespace detail

std::string train_command(const PlanRequest& request, const Layout& layout,
                          const std::string& model) {
  std::string text = fmt::format(
      "./yotta train --load {} --dtype {} --context {} --batch {} --microbatches {} --layout {}",
      model, name(request.config.dtype), request.sequence, request.batch(), layout.microbatches,
      detail::train_mesh(layout.shape));
  const auto add = [&](bool given, const std::string& option) {
    if (given) text += " " + option;
  };
  add(layout.shape.tp > 1 && layout.sequence_parallel && layout.pieces == Pieces::none,
      "--sequence-parallel");
  add(layout.shape.tp > 1 && layout.pieces != Pieces::none, "--async-tp");
  add(layout.shape.cp > 1 && layout.context == ContextParallel::ulysses,
      "--context-parallel ulysses");
  add(layout.shape.pp > 1, fmt::format("--schedule {}", detail::train_schedule(layout.schedule)));
  add(layout.chunks > 1, fmt::format("--chunks {}", layout.chunks));
  add(layout.zero > 0, "--zero 1");
  add(layout.recomputed != 0, "--recompute all");
  add(layout.recomputed > 0, fmt::format("--recompute-blocks {}", layout.recomputed));
  return text + fmt::format(" --bucket-bytes {}", bucket_bytes_of(layout));
}

LaunchOptions torchtitan_options(const PlanRequest& request, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  const int64_t own = detail::sequences_of_rank(request, layout), part = own / layout.microbatches;
  LaunchOptions options;
  std::string& text = options.text;
  const auto note = [&](bool lacks, const char* words) {
    if (lacks) options.notes.push_back(words);
  };
  text = fmt::format("[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n\n",
                     shape.pp > 1 ? own : part, request.batch(), request.sequence);
  text += fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "tensor_parallel_degree = {}\ncontext_parallel_degree = {}\npipeline_parallel_degree = {}\n",
      shape.dp_replicate, shape.dp_shard, shape.tp, shape.cp, shape.pp);
  if (layout.pieces != Pieces::none && shape.tp > 1)
    text += "enable_async_tensor_parallel = true\n";
  if (shape.cp > 1) text += "context_parallel_rotate_method = \"alltoall\"\n";
  if (shape.pp > 1)
    text +=
        fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n",
                    detail::torch_schedule(layout.schedule), part);
  if (shape.ep > 1) text += fmt::format("expert_parallel_degree = {}\n", shape.ep);
  text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                      layout.recomputed == 0 ? "none" : "full");
  note(layout.zero > 0, "no ZeRO-1: make dp data_parallel_shard_degree, which is FSDP");
  note(shape.cp > 1 && layout.context == ContextParallel::ulysses, "no Ulysses: the ring instead");
  note(layout.recomputed > 0, "no first blocks of a stage: mode full recomputes all");
  note(shape.tp > 1 && !layout.sequence_parallel, "tp always has sequence parallelism");
  note(layout.schedule == PipelineKind::zb_h1 && shape.pp > 1,
       "InterleavedZeroBubble with one stage a rank is ZB-H1");
  return options;
}

LaunchOptions megatron_options(const PlanRequest& request, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  const int64_t part = detail::sequences_of_rank(request, layout) / layout.microbatches;
  LaunchOptions options;
  std::string& text = options.text;
  const auto add = [&](bool given, const std::string& option) {
    if (given) text += " " + option;
  };
  const auto note = [&](bool lacks, const char* words) {
    if (lacks) options.notes.push_back(words);
  };
  text = fmt::format(
      "--tensor-model-parallel-size {} --pipeline-model-parallel-size {} --context-parallel-size "
      "{} --micro-batch-size {} --global-batch-size {} --seq-length {}",
      shape.tp, shape.pp, shape.cp, part, request.batch(), request.sequence);
  add(request.config.dtype == DType::bf16, "--bf16");
  add(shape.tp > 1 && layout.sequence_parallel, "--sequence-parallel");
  add(shape.tp > 1 && layout.pieces != Pieces::none, "--tp-comm-overlap");
  add(shape.cp > 1,
      layout.context == ContextParallel::ulysses ? "--cp-comm-type a2a" : "--cp-comm-type p2p");
  add(shape.pp > 1 && layout.chunks > 1,
      fmt::format("--num-virtual-stages-per-pipeline-rank {}", layout.chunks));
  add(shape.ep > 1, fmt::format("--expert-model-parallel-size {}", shape.ep));
  add(layout.zero > 0, "--use-distributed-optimizer");
  add(shape.dp_shard > 1,
      "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params");
  add(layout.recomputed < 0,
      "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
  add(layout.recomputed > 0, fmt::format("--recompute-granularity full --recompute-method block "
                                         "--recompute-num-layers {}",
                                         layout.recomputed));
  const bool splits =
      layout.schedule == PipelineKind::zb_h1 || layout.schedule == PipelineKind::zb_v;
  note(shape.pp > 1 && splits, "no zero-bubble schedule: 1F1B, or interleaved, is the nearest");
  note(shape.dp_shard > 1 && shape.dp_replicate > 1,
       "HSDP: --num-distributed-optimizer-instances is the nearest to fsdp inside dp");
  return options;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
