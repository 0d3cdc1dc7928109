// A step by formula, against the same step run on meta under the clock.
#include "yotta/plan/step_estimate.hpp"

#include <doctest/doctest.h>

#include "plan/planned_steps.hpp"
#include "yotta/parallel/gradient_groups.hpp"
#include "yotta/plan/mfu.hpp"

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
  NdOptions scatters = plain, whole = plain;
  shares.sequence_parallel = true;
  async.pieces = Pieces::both_ways;
  zero.zero.stage = 1;
  scatters.zero.stage = whole.zero.stage = 2;
  scatters.zero.bucket_bytes = 1 << 20, whole.zero.bucket_bytes = 1 << 30;
  again.checkpoint = {.what = Recompute::all};
  ulysses.context = ContextParallel::ulysses;
  check(small({.tp = 4}, plain));
  check(small({.tp = 4}, shares));
  check(small({.tp = 4}, async));
  check(small({.cp = 4}, plain));
  check(small({.cp = 4}, ulysses));
  check(small({.dp_replicate = 4}, plain));
  check(small({.dp_replicate = 4}, zero));
  check(small({.dp_replicate = 4}, scatters));
  check(small({.dp_replicate = 2}, scatters));
  check(small({.dp_replicate = 4}, whole));
  check(small({.dp_replicate = 2}, again));
  check(small({.dp_shard = 4}, plain));
}

TEST_CASE("MFU counts weights that a token meets and causal scores: no row of the token table") {
  const DescribedStep step = small({.tp = 2, .dp_shard = 2}, {.microbatches = 2});
  const StepEstimate found = estimate_step(cluster_named("h100x16"), step);
  const CountedModel model = counted_model(step.config);
  const auto T = static_cast<double>(step.config.context);
  const double scores = 6.0 * 4 * 512 * T;  // 12 L C T, of which half is masked
  CHECK(found.model_flops ==
        static_cast<double>(step.batch) * T * (6 * met_weights(model) + scores) / 4);
  CHECK(found.mfu == doctest::Approx(found.model_flops / found.seconds / 989.4e12).scale(0));
}

TEST_CASE("the loss in chunks of tokens: seconds and bytes as run, and fewer of them") {
  for (const int64_t tokens : {100, 256, 1000}) {
    const NdOptions chunks{.microbatches = 4, .loss_tokens = tokens};
    for (const MeshShape& shape :
         {MeshShape{}, MeshShape{.tp = 4}, MeshShape{.dp_replicate = 2}, MeshShape{.pp = 2}}) {
      DescribedStep step = small(shape, chunks);
      step.config.vocabulary = 20000;    // logits are most of the activations
      step.batch *= shape.dp_replicate;  // a rank's: else it is fullest when DDP sends gradients
      check(step);
      DescribedStep plain = step;
      plain.options.loss_tokens = 0;
      const Cluster cluster = as_seen_by(shape, cluster_named("h100x16"));
      const double held = estimate_step(cluster, step).memory.activations,
                   whole = estimate_step(cluster, plain).memory.activations;
      CHECK(held < whole);
      if (tokens == 100 && shape.pp * shape.dp_replicate == 1) CHECK(held < whole / 1.2);
    }
  }
}

TEST_CASE("ZeRO beside experts, whose buckets are open next to the others'") {
  for (const int stage : {1, 2})
    for (const int64_t bucket_bytes : {int64_t{1} << 20, int64_t{25} << 20})
      for (const MeshShape& shape : {MeshShape{.ep = 2}, MeshShape{.dp_replicate = 2},
                                     MeshShape{.ep = 2, .dp_replicate = 2}}) {
        NdOptions options{.microbatches = 4};
        options.zero = {.stage = stage, .bucket_bytes = bucket_bytes};
        DescribedStep step = small(shape, options);
        step.config.mixture.experts = 4, step.config.mixture.top_k = 2;
        const Cluster cluster = as_seen_by(shape, cluster_named("h100x16"));
        const double bytes = static_cast<double>(run_described(cluster, step).bytes);
        CAPTURE(describe(shape));
        CAPTURE(stage);
        CAPTURE(bucket_bytes);
        CHECK(estimate_step(cluster, step).memory.bytes() ==
              doctest::Approx(bytes).epsilon(0.03).scale(0));
      }
}

TEST_CASE("latent attention, and a mixture whose first blocks have no experts") {
  NdOptions plain{.microbatches = 4}, shares = plain, again = plain, first = plain, zero = plain;
  shares.sequence_parallel = true;
  again.checkpoint = first.checkpoint = {.what = Recompute::all};
  first.checkpoint_blocks = 1;
  zero.zero.stage = 1;
  const auto latent = [](const MeshShape& shape, const NdOptions& options) {
    DescribedStep step = small(shape, options);
    step.config.kv_heads = step.config.heads;
    step.config.latent = {128, 192, 48, 16, 48};
    return step;
  };
  for (const NdOptions& options : {plain, shares, again}) check(latent({.tp = 4}, options));
  check(latent({.dp_shard = 4}, plain));
  check(latent({.cp = 2, .dp_replicate = 2}, zero));
  for (const int64_t dense : {1, 3})
    for (const NdOptions& options : {plain, again, first, zero})
      for (const MeshShape& shape : {MeshShape{.ep = 2}, MeshShape{.pp = 2, .ep = 2}}) {
        DescribedStep step = latent(shape, options);
        step.config.mixture.experts = 4, step.config.mixture.shared = 1;
        step.config.mixture.dense_layers = dense, step.config.mixture.dense_width = 2048;
        CAPTURE(dense);
        check(step);
      }
}

TEST_CASE("what is only in a layer: plain attention, dropout, recomputation of some of it") {
  NdOptions plain{.microbatches = 2}, attention = plain, pointwise = plain;
  attention.checkpoint = {.what = Recompute::attention};
  pointwise.checkpoint = {.what = Recompute::pointwise};
  DescribedStep step = small({.tp = 2, .dp_replicate = 2}, plain);
  step.config.attention = AttentionKind::plain;
  step.config.attention_dropout = step.config.dropout = 0.1;
  check(step);
  step.options = attention;
  check(step);
  check(small({.tp = 2, .dp_replicate = 2}, pointwise));
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
    options.zero = {.stage = 2, .bucket_bytes = 1 << 20};
    check(small({.pp = 2, .dp_replicate = 2}, options));
  }
}

TEST_CASE("attention that holds its scores, kept or made again, with dropout") {
  for (const bool drops : {false, true})
    for (const Recompute what : {Recompute::none, Recompute::attention, Recompute::all})
      for (const MeshShape& shape : {MeshShape{}, MeshShape{.tp = 2}, MeshShape{.dp_shard = 2}}) {
        NdOptions options{.microbatches = 2};
        options.checkpoint.what = what;
        options.sequence_parallel = shape.tp > 1;
        DescribedStep step = small(shape, options);
        step.config = gpt2_config(4, 512, 8, 256, 1024);
        step.config.dtype = DType::bf16;
        step.config.attention = AttentionKind::plain;
        if (drops) step.config.dropout = step.config.attention_dropout = 0.1;
        CAPTURE(drops);
        CAPTURE(static_cast<int>(what));
        check(step);
      }
}

TEST_CASE("FSDP whose units stay whole until they have gone backward") {
  NdOptions options{.microbatches = 4};
  options.fsdp.reshard_after_forward = false;
  check(small({.dp_shard = 4}, options));
  check(small({.pp = 2, .dp_shard = 4}, options));
  check(small({.dp_shard = 2, .dp_replicate = 2}, options));
}

TEST_CASE("kernels that hide nothing, in several passes, from a slower memory") {
  DescribedStep step = small({.tp = 4}, {.microbatches = 4});
  step.efficiency = {.matmul = 0.8,
                     .attention = 0.5,
                     .attention_backward = 0.4,
                     .memory = 0.85,
                     .overlap = 0,
                     .passes = 1.5};
  check(step);
}
