#include "yotta/model/llama3_rows.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("each row has its GPUs, 16M tokens per step, and one sequence per microbatch") {
  for (const Llama3Row& row : llama3_rows) {
    const DescribedStep step = llama3_step(row);
    CHECK(step.shape.ranks() == row.gpus);
    CHECK(step.batch * row.sequence == 16 << 20);
    CHECK(step.options.microbatches * row.dp == step.batch);
    CHECK(layout_works(step.config, step.shape, step.batch, step.options));
  }
  CHECK(llama3_step(llama3_rows[0]).options.checkpoint.what == Recompute::none);
  CHECK(llama3_step(llama3_rows[0], Recompute::all).options.checkpoint.what == Recompute::all);
}
