// Launch options: a planned layout as TorchTitan and Megatron-LM are told it.
//
//     ours                     TorchTitan                            Megatron-LM
//     tp                       tensor_parallel_degree                --tensor-model-parallel-size
//     cp                       context_parallel_degree               --context-parallel-size
//     pp                       pipeline_parallel_degree              --pipeline-model-parallel-size
//     ep                       expert_parallel_degree, inside fsdp   --expert-model-parallel-size
//     fsdp                     data_parallel_shard_degree            --use-megatron-fsdp, all of dp
//     dp                       data_parallel_replicate_degree        what is left of the GPUs
//     ZeRO-1                   (none; FSDP is the nearest)           --use-distributed-optimizer
//     interleaved, v chunks    Interleaved1F1B                       --num-virtual-stages-per-
//                                                                    pipeline-rank v
//     all recomputed           [activation_checkpoint] mode full     --recompute-granularity full
//
// What one of them has no word for is a note, and the options are the nearest that it starts with.
// train_command.hpp has ours.
// References: torchtitan/config/job_config.py, distributed/parallel_dims.py and pipeline.py of
// pytorch/torchtitan, commit 6404b93 (August 2025); Megatron Core's Parallelism Strategies Guide
// (docs.nvidia.com/megatron-core) and megatron/training/arguments.py of NVIDIA/Megatron-LM.
#pragma once

#include <string>
#include <vector>

#include "yotta/plan/train_command.hpp"

namespace yotta {

struct LaunchOptions {
  std::string text;
  std::vector<std::string> notes = {};  // what the text cannot say
};

// TorchTitan's degrees. Their product with tp, cp and pp is the number of GPUs; ep lies inside, in
// cp and then in shard.
struct TitanDegrees {
  int replicate, shard, expert;
  bool has_ddp;  // which goes with no other axis
};
constexpr TitanDegrees titan_degrees(const Layout& layout) {
  const MeshShape& s = layout.shape;
  const int shard = s.dp_shard * s.ep, expert = s.ep > 1 ? s.ep * s.cp : 1;
  const bool has_ddp = s.dp_replicate > 1 && shard * s.cp == 1 && s.tp * s.pp > 1;
  if (layout.zero > 0 || has_ddp) return {1, shard * s.dp_replicate, expert, has_ddp};
  return {s.dp_replicate, shard, expert, false};
}

// Sections of a TOML file.
LaunchOptions torchtitan_options(const PlanRequest& request, const Layout& layout);
// Options of pretrain_gpt.py.
LaunchOptions megatron_options(const PlanRequest& request, const Layout& layout);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/launch_options.ipp"
#endif
