// A described step: what is mirrored is what all ranks do, and the parts of its time add up.
#include "yotta/model/described_step.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/message_of.hpp"
#include "yotta/model/nd_parallel.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/parallel/gradient_groups.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

DescribedStep small(const MeshShape& shape, const NdOptions& options) {
  DescribedStep step;
  step.config = llama_config(4, 64, 96, 8, 4, 32, 128);
  step.config.dtype = DType::bf16;
  step.shape = shape, step.options = options, step.batch = 16;
  return step;
}

// All ranks alive, on meta; when the last has ended a step that all began together.
double all_alive(const Cluster& cluster, const DescribedStep& step) {
  const int ranks = static_cast<int>(step.shape.ranks());
  RunOptions options;
  options.threads = 1;
  const Timed run = run_on(
      cluster, ranks,
      [&](Communicator& world) {
        const DeviceScope meta(Device::meta);
        Mesh mesh(world, step.shape);
        NdParallel model(step.config, mesh, step.options);
        AdamW optimizer(model.parameters());
        TrainHooks hooks = model.hooks();
        hooks.sum_over_ranks = [](double loss) { return loss; };
        hooks.sum_of_squares = [&](double squares) {
          return step.options.zero.stage > 0 ? sum_of_squares(model.parameters()) : squares;
        };
        Trainer trainer(model.stack(), optimizer, {}, hooks);
        const BatchShard own = model.share(step.batch);
        const Tensor ids = Tensor::empty({own.end - own.begin, step.config.context}, DType::i32);
        context().clock->wait(compute_lane, {0, 1});
        trainer.step(0, model.microbatches(ids, ids, own.begin), step.batch * step.config.context);
      },
      {}, options);
  return run.seconds() - 1;
}

}  // namespace

TEST_CASE("one live rank a stage takes as long as all of them, on every axis") {
  const NdOptions two{.microbatches = 2};
  NdOptions chunks = two;
  chunks.schedule = PipelineKind::interleaved, chunks.chunks = 2;
  NdOptions shares = two;
  shares.sequence_parallel = true, shares.zero.stage = 1;
  const std::pair<MeshShape, NdOptions> layouts[] = {
      {{.tp = 4}, two},
      {{.tp = 2, .pp = 2, .dp_replicate = 2}, shares},
      {{.tp = 2, .pp = 2, .dp_shard = 2}, chunks},
      {{.cp = 2, .pp = 2, .dp_replicate = 2}, shares}};
  for (const auto& [shape, options] : layouts) {
    const DescribedStep step = small(shape, options);
    const Cluster c = as_seen_by(shape, cluster_named("h100x8"));
    const DescribedFigures one = run_described(c, step);
    CAPTURE(describe(shape));
    // Along cp rank 0's blocks of attention are cut in other ways than the others', hop by hop.
    const double tolerance = shape.cp > 1 ? 0.02 : 1e-9;
    CHECK(one.seconds / all_alive(c, step) == doctest::Approx(1).epsilon(tolerance));
  }
}

TEST_CASE("computed, exposed and bubble add up to the step, and are named by their axes") {
  NdOptions options{.microbatches = 4};
  options.zero.stage = 1, options.sequence_parallel = true;
  const MeshShape shape{.tp = 2, .cp = 2, .pp = 4, .dp_replicate = 4};
  const DescribedFigures step =
      run_described(as_seen_by(shape, cluster_named("h100x64")), small(shape, options));
  double sum = step.computed + step.bubble;
  for (const auto& [axes, seconds] : step.exposed) sum += seconds;
  CHECK(sum == doctest::Approx(step.seconds).epsilon(1e-12));
  CHECK(step.exposed.at("tp") > 0);
  CHECK(step.exposed.at("cp") > 0);
  CHECK(step.exposed.at("cp+dp") > 0);
  CHECK(step.bubble > 0);
  CHECK(step.bytes > 0);
}

TEST_CASE("without a pipeline every wait is for an axis that is named, and nothing is left over") {
  NdOptions options{.microbatches = 2};
  options.sequence_parallel = true, options.zero.stage = 1;
  for (const MeshShape shape :
       {MeshShape{.tp = 4}, MeshShape{.tp = 2, .cp = 2, .dp_replicate = 2}}) {
    const DescribedFigures step =
        run_described(as_seen_by(shape, cluster_named("h100x8")), small(shape, options));
    CHECK(step.exposed.at("tp") > 0.1 * step.seconds);
    CHECK(std::abs(step.bubble) < 1e-9 * step.seconds);
  }
}

TEST_CASE("Async-TP's hops are tp's, and nothing is called cp where cp is 1") {
  NdOptions options{.microbatches = 2};
  options.pieces = Pieces::both_ways;
  const MeshShape shape{.tp = 4, .pp = 2};
  const DescribedFigures step =
      run_described(as_seen_by(shape, cluster_named("h100x8")), small(shape, options));
  CHECK(step.sent.at("tp") > 0);
  CHECK(step.exposed.at("tp") > 0);
  CHECK_FALSE(step.sent.contains("cp"));
  CHECK_FALSE(step.exposed.contains("cp"));
}

TEST_CASE("a mixture of experts on ep and dp can be mirrored, across the border of a node") {
  NdOptions options{.microbatches = 2};
  options.zero.stage = 1;
  const MeshShape shape{.tp = 2, .ep = 4, .dp_replicate = 2};
  DescribedStep described = small(shape, options);
  described.config.mixture = {.experts = 4, .top_k = 2};
  const DescribedFigures step =
      run_described(as_seen_by(shape, cluster_named("h100x64")), described);
  CHECK(step.exposed.at("ep") > 0);
}

TEST_CASE("kernels that reach half of the peak take twice as long where FLOPs bound them") {
  DescribedStep step = small({}, {});
  step.config.width = 4096, step.config.feed_forward = 8192, step.config.layers = 2;
  step.config.context = 2048, step.batch = 1;
  const double full = run_described(cluster_named("h100x1"), step).seconds;
  step.efficiency = {0.5, 1, 1};
  const double half = run_described(cluster_named("h100x1"), step).seconds;
  step.efficiency = {1, 0.5, 0.25};
  const double attends = run_described(cluster_named("h100x1"), step).seconds;
  const double peak = 989.4e12,
               matmuls = 6 * 2048.0 * (2 * 4096 * 4096 * 3.0 + 2 * 3 * 4096.0 * 8192 + 128 * 4096);
  CHECK((half - full) / (matmuls / peak) == doctest::Approx(1).epsilon(0.01));
  const double forward = 2.0 * 2 * 8 * 2048 * 2048 * 512 / peak;
  CHECK((attends - full) / (forward * (1 + 2.5 * 3)) == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("a layout that cannot work, a batch and a cluster that are too small are refused") {
  const auto refused = [](const MeshShape& shape, int64_t batch) {
    DescribedStep step = small(shape, {.microbatches = 2});
    step.batch = batch;
    return message_of([&] { run_described(cluster_named("h100x8"), step); });
  };
  CHECK(contains(refused({.tp = 3}, 16), "tensor parallelism over 3 ranks"));
  CHECK(contains(refused({.pp = 2, .dp_replicate = 8}, 16), "h100x8 has chips 0 to 7"));
  CHECK(contains(refused({.dp_replicate = 8}, 4),
                 "a batch of 4 sequences does not give each of 8 data-parallel ranks one"));
  CHECK(contains(refused({.dp_replicate = 8}, 0), "a batch of 0 sequences"));
  for (const double share : {0.0, -1.0, 1.5, std::nan("")}) {
    DescribedStep step = small({}, {});
    step.efficiency.attention = share;
    CHECK(contains(message_of([&] { run_described(cluster_named("h100x1"), step); }),
                   "above 0 and up to 1"));
  }
}

TEST_CASE("causal attention is half of what step_flops() counts") {
  const TransformerConfig c = llama3_405b();
  const double dense = 6.0 * static_cast<double>(parameters(c)) * 131072;
  CHECK(causal_step_flops(c, 1, 131072) / dense == doctest::Approx(1.667).epsilon(0.001));
  CHECK(step_flops(c, 1, 131072) / dense == doctest::Approx(2.333).epsilon(0.001));
}
