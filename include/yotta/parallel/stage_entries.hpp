// A transformer's stages: which entries of its stack a stage of a pipeline has.
//
//     L = 6 on 4 stages     embedding, 0, 1 │ 2, 3 │ 4 │ 5, head          blocks shared out evenly
//     and if ends count     embedding, 0 │ 1, 2 │ 3, 4 │ 5, head          entries shared out evenly
//
// The embedding goes with the first stage and the head with the last, so these two hold more than
// the others. Where both count as blocks, the ends have a block less, as Llama 3's have (Megatron's
// option account_for_embedding_in_pipeline_split).
#pragma once

#include <vector>

#include "yotta/nn/transformer_config.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/pipeline.hpp"

namespace yotta {

// The entries of the transformer's stack, [first, last), that stage `stage` of `stages` has.
constexpr StageLayers stage_entries(const TransformerConfig& config, int stages, int stage,
                                    bool ends_count = false) {
  if (ends_count) return layers_of_stage(config.layers + 2, stages, stage);
  const StageLayers blocks = layers_of_stage(config.layers, stages, stage);
  return {stage == 0 ? 0 : blocks.first + 1,
          stage + 1 == stages ? config.layers + 2 : blocks.last + 1};
}

// The layers of a stage with activation checkpointing of its blocks, of the first `most` of them
// (-1: of all); not of embedding or head.
inline std::vector<LayerPtr> checkpointed_stage(Layers layers, const CheckpointOptions& options,
                                                int stages, int stage, int64_t most = -1) {
  const int64_t first = stage == 0 ? 1 : 0;
  int64_t last = std::ssize(layers) - (stage + 1 == stages ? 1 : 0);
  if (most >= 0 && first + most < last) last = first + most;
  return checkpointed(layers, options, first, last);
}

}  // namespace yotta
