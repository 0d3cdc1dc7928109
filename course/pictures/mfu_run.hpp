// Training steps of a transformer on a machine that is only described, on shapes without data: what
// lesson 27 and its pictures look at. The code is the trainer's; its second step is looked at.
#pragma once

#include "yotta/comm/run_on.hpp"
#include "yotta/model/layout_rules.hpp"
#include "yotta/plan/mfu.hpp"

namespace yotta {

// A quarter of Llama 3 8B: 8 of its 32 layers.
constexpr TransformerConfig eight_layers() { return llama3_config(8, 4096, 14336, 32); }

struct MfuRun {
  TransformerConfig model = eight_layers();  // in bf16
  int64_t sequence = 8192, batch = 16;       // sequences of a step, of all ranks
  MeshShape layout = {.tp = 2, .pp = 2, .dp_shard = 4};
  NdOptions options = {};
  double kernels = 0.8;  // the share of the roofline that operations reach
  std::vector<SlowRank> slow = {};
  std::vector<int> chips = {};  // of the ranks; empty: rank r is on chip r
};

struct MfuReport {
  Waterfall waterfall;
  double step_seconds = 0;
  double tokens_a_second = 0;
};

// Attention's masked half is not counted.
MfuReport mfu_of(const MfuRun& run, const Cluster& machine);

// The run that the lesson begins with: 16 H100 in two nodes, whole blocks computed again, one rank
// a tenth slower.
MfuRun first_mfu_run();

}  // namespace yotta
