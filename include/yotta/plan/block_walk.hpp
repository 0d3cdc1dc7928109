// Block walk: what a block costs a rank, forward and backward.
//
//     F    norm, gather over tp, q k v, rope, attention (over cp), o, sum over tp, add,
//          norm, gather, up and gate, swiglu, down, sum, add     or a mixture of experts
//     I    the same way back
//     W    down, up, gate, norm, o, v, k, q, norm
//
// They go through the code of nn/transformer.hpp line by line;
// attention_walk.hpp has attention itself, mlp_walk.hpp and mixture_walk.hpp the second half.
// Contract: blockwise attention; no dropout. Letters: as in layer_walk.hpp.
#pragma once

#include "yotta/plan/mixture_walk.hpp"

namespace yotta {

LayerFigures block_figures(const LayerSizes& z, const PlanGroups& groups, const StepWalk& walk);
// Its forward pass is run again in I, which does W too.
LayerFigures checkpointed_figures(const LayerFigures& block);
}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/block_walk.ipp"
#endif
