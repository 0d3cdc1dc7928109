// Stage walk: what a slice of the stack costs a rank, from the figures of its layers.
//
//     a stage of 8 blocks, 2 of them checkpointed     embedding, 2 checkpointed, 6 kept, head
//
// Layers of one kind are alike, so a stage is a few runs of them, and its time a sum. Its peak is
// found at the ends of the runs: forward the last layer has all others' saved bytes beside it,
// backward the last layer is the first.
// Contract: figures outlive the stages that refer to them.
#pragma once

#include <vector>

#include "yotta/plan/layer_walk.hpp"

namespace yotta {

struct LayerRun {
  const LayerFigures* layer;
  int64_t count;
};

struct StageFigures {
  std::vector<LayerRun> runs = {};  // in the order of the stack
  PartTime forward, input, weight;  // F, I, W; B is I and W
  double saved = 0, kept = 0;       // bytes of a microbatch: from F to I; from I to W
  double in = 0, out = 0;           // what flows in and out, forward
  double carried = 0;               // FSDP: the last sum of B, until the next W
  // Bytes above what was there before, of F, B, I and W.
  double forward_peak = 0, backward_peak = 0, input_peak = 0, weight_peak = 0;
  double first_backward_peak = 0, first_weight_peak = 0;  // of the first one; with DDP the last
  int64_t parameters = 0, experts = 0;                    // experts: of these, a mixture's

  PartTime backward() const {
    PartTime both = input;
    return both += weight;
  }
};

// What a stage holds beside activations while it runs, in bytes of a parameter.
struct StageExtras {
  double grows = 0;      // gradients that are made in W and stay
  double passing = 0;    // ZeRO: by each gradient that is made in W, until it is collected
  double gathered = 0;   // FSDP: by this layer and the next
  double unreduced = 0;  // FSDP: by the layer whose gradients are being summed
  double gradient = 0;   // of a number
  double scratch = 0;    // bytes, once `scratch_after` bytes of gradients have been made
  double scratch_after = 0;
  double before = 0;  // bytes of gradients that the rank's later stages have made by then
  int64_t root = 0;   // FSDP: numbers of a unit that the first layer and the last share
};

StageFigures stage_figures(std::vector<LayerRun> runs, const StageExtras& extras = {});

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/stage_walk.ipp"
#endif
