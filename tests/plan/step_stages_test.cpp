// The stages of a layout: who holds which layers, and what has no formula.
#include "yotta/plan/step_stages.hpp"

#include <doctest/doctest.h>

#include "plan/planned_steps.hpp"
#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
const TransformerConfig six_layers = llama_config(6, 64, 96, 4, 4, 32, 100);
}  // namespace

TEST_CASE("all parameters are on the ranks of a pipeline, each once") {
  NdOptions options{.microbatches = 4};
  options.schedule = PipelineKind::interleaved, options.chunks = 2;
  const DescribedStep step = step_of(six_layers, {.pp = 2}, options);
  LayerRecords records;
  const StepStages stages(cluster_named("h100x8"), step, records);
  int64_t sum = 0;
  for (int stage = 0; stage < stages.stages(); ++stage) sum += stages.stage(stage).parameters;
  CHECK(stages.stages() == 4);
  CHECK(sum == parameters(step.config));
  CHECK(stages.units_of(0, 0).size() + stages.units_of(0, 1).size() + stages.units_of(1, 0).size() +
            stages.units_of(1, 1).size() ==
        8);
}

TEST_CASE("the first blocks of a stage are recomputed, as many as are asked for") {
  NdOptions options{.microbatches = 2};
  options.checkpoint = {.what = Recompute::all};
  options.checkpoint_blocks = 1;
  LayerRecords records;
  const StepStages one(cluster_named("h100x8"), step_of(six_layers, {.pp = 2}, options), records);
  options.checkpoint_blocks = -1;
  const StepStages all(cluster_named("h100x8"), step_of(six_layers, {.pp = 2}, options), records);
  CHECK(one.stage(1).runs[0].count == 1);
  CHECK(all.stage(1).runs[0].count == 3);
  CHECK(all.stage(1).saved < one.stage(1).saved);
}

TEST_CASE("what has no formula is refused by name") {
  NdOptions options;
  options.naive_gradients = true;
  const DescribedStep step = step_of(six_layers, {.dp_replicate = 2}, options);
  CHECK(why_no_estimate(step) == "one all_reduce for each gradient");
  CHECK(message_of([&] {
          LayerRecords records;
          StepStages(cluster_named("h100x8"), step, records);
        }).find("no formula for one all_reduce") != std::string::npos);
  CHECK(why_no_estimate(step_of(six_layers, {}, {})).empty());
  CHECK(why_no_estimate(step_of(six_layers, {}, {.microbatches = 8})).empty());
  CHECK(why_no_estimate(step_of(six_layers, {}, {.microbatches = 5})) ==
        "microbatches of unequal size");
  DescribedStep odd = step_of(six_layers, {.tp = 2}, {});
  odd.options.sequence = 9, odd.batch = 1;
  CHECK(why_no_estimate(odd) == "a microbatch of 9 tokens, which tp 2 does not divide");
  CHECK(why_no_estimate(step_of(six_layers, {}, {.microbatches = 32}))
            .empty());  // some have no sequence
  DescribedStep mixture = step_of(six_layers, {.ep = 2}, {});
  mixture.config.mixture.experts = 4;
  CHECK(why_no_estimate(mixture).empty());
  mixture.config.mixture.capacity = 0.5;
  CHECK(why_no_estimate(mixture) == "a capacity below 1, which drops tokens");
  mixture.config.mixture.capacity = 0, mixture.options.pieces = Pieces::one_way;
  CHECK(why_no_estimate(mixture) == "Async-TP beside a mixture");
}
