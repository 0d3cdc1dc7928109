// Microbatch: the sequences of a step that a rank computes at once.
//
//     batch of 8     rank 0: sequences 0 to 3        rank 1: sequences 4 to 7
//                    microbatches 0, 1 │ 2, 3        microbatches 4, 5 │ 6, 7
//
// Each knows where it stands in the whole batch, so that dropout draws the same masks however the
// batch is cut; and, if its sequences are packed, the documents in them. Letters: B sequences, T
// tokens of a sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "yotta/core/tensor.hpp"
#include "yotta/nn/saved.hpp"

namespace yotta {

struct Microbatch {
  Tensor inputs;                                // (B, T) i32 token ids
  Tensor targets;                               // (B, T) i32, the token after each
  int64_t first_sequence = 0;                   // of these rows, in the whole batch of the step
  Positions positions = {};                     // of these columns, in the whole sequence
  std::shared_ptr<const Packing> packing = {};  // to which they refer; null: not packed
};

// The same microbatch, with documents in its sequences.
Microbatch packed(Microbatch batch, Packing packing);

// Cuts a rank's sequences (B, T) into `count` microbatches, the longer ones first. Empty ones are
// left out.
std::vector<Microbatch> microbatches(const Tensor& inputs, const Tensor& targets, int64_t count,
                                     int64_t first_sequence = 0, const Positions& positions = {});

// The documents (B, T) of a microbatch's sequences, out of those of a rank's; none: all are one.
std::vector<int32_t> documents_of(const Microbatch& batch, const std::vector<int32_t>& documents,
                                  int64_t first_sequence);

// Targets that count: all but no_target.
int64_t counted_targets(const Tensor& targets);

// The position of a microbatch's rows and columns. `step` holds the step's seed, its number, and
// whether it trains.
BatchPosition position_of(const Microbatch& batch, BatchPosition step);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/microbatch.ipp"
#endif
