// Attention walk: attention on a rank of cp, forward and backward: alone, as a ring, or as Ulysses.
//
//     ring, forward      [blocks with own keys][blocks with the neighbour's][...]      compute
//                        [keys ═══] [keys ═══]                                         network
//     Ulysses            [q k v to heads ═══][whole attention][o to tokens ═══]
//
// The ring's rank computes what Ring::block says of it, and waits where a hop takes longer than the
// blocks beside it. Backward two kinds of hops share one link: keys, and their gradients.
// Letters: as in layer_walk.hpp.
#pragma once

#include "yotta/plan/layer_walk.hpp"

namespace yotta {

// From q, k and v to o, which is kept as the output layer reads it.
void attend(const LayerSizes& z, const PlanGroup& cp, StepWalk& walk);
// From the gradient of o to those of q, k and v; q, k, v and o's sums are freed.
void attend_back(const LayerSizes& z, const PlanGroup& cp, StepWalk& walk);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/attention_walk.ipp"
#endif
