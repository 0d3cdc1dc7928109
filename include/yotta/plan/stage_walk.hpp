// Stage walk: what a slice of the stack costs a rank, from the figures of its layers.
//
//     a stage of 8 blocks, 2 of them checkpointed     embedding, 2 checkpointed, 6 kept, head
//
// Layers of one kind are alike, so a stage is a few runs of them, and its time a sum. Its peak is
// found at the ends of the runs: forward the last layer has all others' saved bytes beside it,
// backward the last layer is the first.
// Contract: figures outlive the stages that refer to them.
#pragma once

#include <array>
#include <vector>

#include "yotta/plan/layer_figures.hpp"
#include "yotta/plan/plan_groups.hpp"

namespace yotta {

struct LayerRun {
  const LayerFigures* layer;
  int64_t count;
  bool operator==(const LayerRun&) const = default;
};

struct StageFigures {
  std::vector<LayerRun> runs = {};  // in the order of the stack
  PartTime forward, input, weight;  // F, I, W; B is I and W
  double saved = 0, kept = 0;       // bytes of a microbatch: from F to I; from I to W
  double in = 0, out = 0;           // what flows in and out, forward
  double carried = 0;               // FSDP, ZeRO-2: the last sum of B, until the next W
  // Bytes above what was there before, of F, B, I and W.
  double forward_peak = 0, backward_peak = 0, input_peak = 0, weight_peak = 0;
  double first_backward_peak = 0, first_weight_peak = 0;  // of the first one; with DDP the last
  int64_t parameters = 0, experts = 0;                    // experts: of these, a mixture's

  PartTime backward() const {
    PartTime both = input;
    return both += weight;
  }
};

// Gradients that are summed over one group.
struct SummedSet {
  double scratch = 0;  // bytes of a sum
  double before = 0;   // bytes of gradients that the rank's later stages have made by then
};

// What a stage holds beside activations while it runs, in bytes of a parameter.
struct StageExtras {
  double grows = 0;            // gradients that are made in W and stay
  double passing = 0;          // ZeRO: by each gradient that is made in W, until it is collected
  bool experts_apart = false;  // summed by others than the rest
  // ZeRO-2: buckets of so many bytes, from the first gradient until their sum has arrived; who sums
  // them: all weights, or all but experts, and experts.
  int64_t bucket_bytes = 0;
  PlanGroup data = {}, experts = {};
  double gathered = 0;   // FSDP: by this layer and the next
  bool keeps = false;    // FSDP: and by all below, until they have gone backward
  double unreduced = 0;  // FSDP: by the layer whose gradients are being summed
  double summing = 0;    // and by the sum itself, when it begins
  double gradient = 0;   // of a number
  // DDP: once `scratch_after` bytes of a set's gradients have been made. The sets: all weights, or
  // all but experts; and experts.
  std::array<SummedSet, 2> sets = {};
  double scratch_after = 0;
  int64_t root = 0;  // FSDP: numbers of a unit that the first layer and the last share
};

StageFigures stage_figures(std::vector<LayerRun> runs, const StageExtras& extras = {});

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/stage_walk.ipp"
#endif
