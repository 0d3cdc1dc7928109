// A step by formula, against the same step run on meta under the clock.
#include "yotta/plan/step_estimate.hpp"

#include <doctest/doctest.h>

#include "plan/small_step.hpp"
#include "yotta/parallel/gradient_groups.hpp"

using namespace yotta;

namespace {

DescribedStep small(const MeshShape& shape, const NdOptions& options) {
  TransformerConfig config = llama_config(4, 512, 1536, 8, 4, 256, 1024);
  config.dtype = DType::bf16;
  DescribedStep step = yotta_test::step_of(config, shape, options);
  step.efficiency = h100_kernels;
  return step;
}

void check(const DescribedStep& step) {
  const Cluster cluster = as_seen_by(step.shape, cluster_named("h100x16"));
  const StepEstimate found = estimate_step(cluster, step);
  const DescribedFigures run = run_described(cluster, step);
  CAPTURE(describe(step.shape));
  CHECK(found.seconds == doctest::Approx(run.seconds).epsilon(0.03).scale(0));
  CHECK(found.memory.bytes() ==
        doctest::Approx(static_cast<double>(run.bytes)).epsilon(0.03).scale(0));
  CHECK(found.time.computed == doctest::Approx(run.computed).epsilon(0.03).scale(0));
}

}  // namespace

TEST_CASE("each technique alone: seconds and bytes as run") {
  const NdOptions plain{.microbatches = 4};
  NdOptions shares = plain, async = plain, zero = plain, again = plain, ulysses = plain;
  shares.sequence_parallel = true;
  async.pieces = Pieces::both_ways;
  zero.zero.stage = 1;
  again.checkpoint = {.what = Recompute::all};
  ulysses.context = ContextParallel::ulysses;
  check(small({.tp = 4}, plain));
  check(small({.tp = 4}, shares));
  check(small({.tp = 4}, async));
  check(small({.cp = 4}, plain));
  check(small({.cp = 4}, ulysses));
  check(small({.dp_replicate = 4}, plain));
  check(small({.dp_replicate = 4}, zero));
  check(small({.dp_replicate = 2}, again));
  check(small({.dp_shard = 4}, plain));
}

TEST_CASE("pipelines: seconds and bytes as run") {
  const std::pair<PipelineKind, int> kinds[] = {{PipelineKind::one_f_one_b, 1},
                                                {PipelineKind::interleaved, 2},
                                                {PipelineKind::zb_h1, 1},
                                                {PipelineKind::zb_v, 1}};
  for (const auto& [kind, chunks] : kinds) {
    NdOptions options{.microbatches = 4};
    options.schedule = kind, options.chunks = chunks;
    CAPTURE(std::string(name(kind)));
    check(small({.pp = 2, .dp_replicate = 2}, options));
    options.ends_count = true;
    check(small({.pp = 2, .dp_replicate = 2}, options));
  }
}
