// Layout rules: how a model and a batch may be spread over a mesh, and what is said if they cannot.
//
//   tp           divides the heads and the feed-forward width; the vocabulary is padded
//   cp           cuts the sequence into 2 cp equal chunks; attention is blockwise; Ulysses: divides
//                the heads of tp
//   pp x chunks  at most one stage per block; why_not() of PipelinePlan says more
//   ep           at most one rank per expert, with FSDP equal numbers; a capacity wants cp 1
//                the balance loss of a whole batch wants GPipe, or no pipeline
//   dp           a sequence for each rank, with FSDP or ZeRO-2 one for each of its microbatches
//   ZeRO         not beside FSDP, which is its stage 3
//
// A layout that breaks a rule is refused before anything is built, with the rule and the nearest
// that keeps it. Letters: B sequences of a batch.
#pragma once

#include <string>
#include <vector>

#include "yotta/comm/mesh.hpp"
#include "yotta/model/nearest.hpp"
#include "yotta/parallel/nd_options.hpp"

namespace yotta {

// Whether a model and a batch of B sequences can be spread in this way. Errors suggest only layouts
// that can.
bool layout_works(const TransformerConfig& config, const MeshShape& shape, int64_t batch,
                  const NdOptions& options = {});

// Throws, naming the rule and the nearest that works, if they cannot.
void expect_layout(const TransformerConfig& config, const MeshShape& shape, int64_t batch,
                   const NdOptions& options = {}, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/layout_rules.ipp"
#endif
