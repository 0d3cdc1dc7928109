// Ends walk: what the ends of a stack cost a rank: the embedding and the head, with the loss.
//
//     embedding     rows of the table, sum over tp, positions (GPT-2)
//     head          norm, gather over tp, output matrix, loss over the cut vocabulary
//
// They go through the code of nn/transformer.hpp and
// parallel/vocab_parallel.hpp line by line.
// Contract: no dropout. Letters: as in layer_walk.hpp.
#pragma once

#include "yotta/plan/layer_walk.hpp"

namespace yotta {

// `shares_table`: the head is on the same rank; the table's gradient begins there, and ends here.
LayerFigures embedding_figures(const TransformerConfig& config, const LayerSizes& z,
                               const PlanGroups& groups, const StepWalk& walk, bool shares_table);
// With the loss: what it saves has the gradient of the logits in it.
LayerFigures head_figures(const LayerSizes& z, const PlanGroups& groups, const StepWalk& walk,
                          bool shares_table);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/ends_walk.ipp"
#endif
