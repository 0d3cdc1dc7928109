// The three rows of Llama 3 405B in its paper, as described steps.
//
//     GPUs      tp   cp   pp   dp    sequence   batch of a dp rank   TFLOP/s per GPU
//      8,192     8    1   16    64      8,192                   32             430
//     16,384     8    1   16   128      8,192                   16             400
//     16,384     8   16   16     8    131,072                   16             380
//
// What the paper says of them, and these steps do: one sequence per microbatch; interleaved stages;
// optimizer state sharded over dp, weights not dropped after the forward pass; gradients summed in
// f32; a pipeline whose messages wait for nobody. It does not say how many chunks a rank has. Here
// it is 4, of 2 blocks each; the last two stages have one.
// What differs: the paper trained at 8,192 tokens without recomputation. Our layers keep 33 bytes
// for each number of the stream, and that is more than 80 GB with all microbatches in flight. So
// `recomputed` blocks of each chunk, the first ones, are run again. And the paper shards gradients
// over dp; here a rank keeps those of its stage whole, 13 GB in f32.
// Reference: Llama team (2024), "The Llama 3 Herd of Models", 3.3.2 and table 4. One version of it
// prints dp 4 in the last row, which makes 8,192 GPUs.
#pragma once

#include "yotta/model/described_step.hpp"

namespace yotta {

struct Llama3Row {
  int gpus, cp, dp;
  int64_t sequence;
  double tflops;  // as printed
};
inline constexpr Llama3Row llama3_rows[] = {
    {8192, 1, 64, 8192, 430}, {16384, 1, 128, 8192, 400}, {16384, 16, 8, 131072, 380}};

inline DescribedStep llama3_step(const Llama3Row& row, int64_t recomputed = 1) {
  DescribedStep step;
  step.config = llama3_405b();
  step.config.dtype = DType::bf16;
  step.config.context = row.sequence;
  step.shape = {.tp = 8, .cp = row.cp, .pp = 16, .dp_replicate = row.dp};
  step.batch = (int64_t{16} << 20) / row.sequence;
  NdOptions& options = step.options;
  options.microbatches = step.batch / row.dp;
  options.schedule = PipelineKind::interleaved, options.chunks = 4;
  options.sequence_parallel = true;
  options.zero = {.stage = 1, .bucket_bytes = int64_t{1} << 30};
  options.checkpoint = {.what = recomputed > 0 ? Recompute::all : Recompute::none};
  options.checkpoint_blocks = recomputed;
  step.efficiency = h100_kernels;
  return step;
}

}  // namespace yotta
