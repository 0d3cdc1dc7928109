// The three rows of Llama 3 405B in its paper, as described steps.
//
//     GPUs      tp   cp   pp   dp    sequence   batch of a dp rank   TFLOP/s per GPU
//      8,192     8    1   16    64      8,192                   32             430
//     16,384     8    1   16   128      8,192                   16             400
//     16,384     8   16   16     8    131,072                   16             380
//
// What the paper says of them, and these steps do: one sequence per microbatch; interleaved stages,
// of which the first chunk is the embedding alone and the last one the output matrix, so that 126
// blocks and two ends are 16 x 8 chunks of one each; optimizer state sharded over dp, weights not
// dropped after the forward pass; gradients summed in f32; a pipeline whose messages wait for
// nobody; no block is run again. What differs: the paper shards gradients over dp; here a rank
// keeps those of its stage whole, 13 GB in f32.
// The paper frees what will not be read again, and does not say what. Our layers keep 32 bytes for
// each number of the stream, with all microbatches in flight more than 80 GB. Recompute::pointwise
// leaves 21 of them, and runs no matrix product again.
// Kernels that are timed alone (h100_kernels) make the rows a fifth to a quarter too fast. In a run
// clocks fall, ranks wait for the slowest, and something lies between two kernels: llama3_kernels
// are 0.75 of them, which gives row 1. Rows 2 and 3 had no part in that number.
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

// What the rows' kernels reach in a run, from row 1 alone.
inline constexpr Efficiency llama3_kernels = {0.75 * h100_kernels.matmul,
                                              0.75 * h100_kernels.attention,
                                              0.75 * h100_kernels.attention_backward};

inline DescribedStep llama3_step(const Llama3Row& row, Recompute what = Recompute::none) {
  DescribedStep step;
  step.config = llama3_405b();
  step.config.dtype = DType::bf16;
  step.config.context = row.sequence;
  step.shape = {.tp = 8, .cp = row.cp, .pp = 16, .dp_replicate = row.dp};
  step.batch = (int64_t{16} << 20) / row.sequence;
  NdOptions& options = step.options;
  options.microbatches = step.batch / row.dp;
  options.schedule = PipelineKind::interleaved, options.chunks = 8, options.ends_count = true;
  options.sequence_parallel = true;
  options.zero = {.stage = 1, .bucket_bytes = int64_t{1} << 30};
  options.checkpoint = {.what = what};
  step.efficiency = h100_kernels;
  return step;
}

}  // namespace yotta
