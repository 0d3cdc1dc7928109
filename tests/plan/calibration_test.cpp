// Calibration finds the efficiencies and bandwidths that made the measured seconds.
#include "yotta/plan/calibration.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/plan/step_estimate.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

DescribedStep step_of(const MeshShape& shape, int64_t microbatches) {
  DescribedStep step;
  step.config = llama3_8b();
  step.config.dtype = DType::bf16;
  step.shape = shape, step.batch = 64;
  step.options.microbatches = microbatches, step.options.sequence_parallel = true;
  return step;
}

// With cards so slow that steps wait for them: what is hidden cannot be measured.
Cluster slow_cards() {
  Cluster made = cluster_named("h100x16");
  made.levels[1].beta *= 16;
  return made;
}

// Seconds of some layouts on a cluster whose matmuls and links are as given.
std::vector<MeasuredStep> measured(double matmul, double node, double network) {
  Cluster real = slow_cards();
  real.levels[0].beta /= node, real.levels[1].beta /= network;
  std::vector<MeasuredStep> steps;
  for (const MeshShape& shape : {MeshShape{.tp = 8, .dp_replicate = 2},
                                 MeshShape{.tp = 2, .dp_shard = 8}, MeshShape{.dp_shard = 16},
                                 MeshShape{.tp = 4, .pp = 4}, MeshShape{.tp = 8, .dp_shard = 2}}) {
    DescribedStep step = step_of(shape, 4);
    step.efficiency = h100_kernels;
    step.efficiency.matmul = matmul;
    steps.push_back({step, estimate_step(real, step).seconds});
  }
  return steps;
}

}  // namespace

TEST_CASE("what was put in comes out, and the error falls") {
  const Cluster cluster = slow_cards();
  const Calibration found = calibrate(cluster, h100_kernels, measured(0.5, 0.6, 0.7));
  CHECK(found.efficiency.matmul == doctest::Approx(0.5).epsilon(0.03).scale(0));
  CHECK(found.bandwidths[0] == doctest::Approx(0.6).epsilon(0.1).scale(0));
  CHECK(found.bandwidths[1] == doctest::Approx(0.7).epsilon(0.1).scale(0));
  CHECK(found.error_before > 0.2);
  CHECK(found.error_after < 0.01);
  CHECK(found.left_out > found.error_after);
  CHECK(found.left_out < 0.1);
  CHECK(found.worst_left_out >= found.left_out);
  CHECK(calibrated(cluster, found).levels[1].beta > cluster.levels[1].beta);
  CHECK(text_of(cluster, found).find("off on average") != std::string::npos);
}

TEST_CASE("steps that are faster than any chip raise no number above the description") {
  std::vector<MeasuredStep> steps = measured(1, 1, 1);
  for (MeasuredStep& each : steps) each.seconds /= 3;
  const Calibration found = calibrate(slow_cards(), h100_kernels, steps);
  CHECK(found.efficiency.matmul == 1);
  for (const double each : found.bandwidths) CHECK(each <= 1);
}

TEST_CASE("two steps move no number further than they say something of it") {
  std::vector<MeasuredStep> two = measured(0.5, 0.6, 0.7);
  two.resize(2);
  two[1].seconds *= 1.15;  // noise
  const Calibration found = calibrate(slow_cards(), h100_kernels, two);
  CHECK(found.efficiency.attention > 0.5 * h100_kernels.attention);
  CHECK(found.bandwidths[0] > 0.3);
}

TEST_CASE("steps of several models on several clusters are fitted together") {
  std::vector<MeasuredStep> steps = measured(0.5, 0.6, 0.7);
  Cluster node = cluster_named("h100x8");
  node.levels[0].beta *= 3;  // of another kind
  Cluster real = node;
  real.levels[0].beta /= 0.6;
  DescribedStep small = step_of({.tp = 4, .dp_replicate = 2}, 4);
  small.config.layers = 8, small.efficiency = h100_kernels, small.efficiency.matmul = 0.5;
  steps.push_back({small, estimate_step(real, small).seconds, node});
  const Calibration found = calibrate(slow_cards(), h100_kernels, steps);
  CHECK(found.efficiency.matmul == doctest::Approx(0.5).epsilon(0.05).scale(0));
  CHECK(found.error_after < 0.01);
  CHECK(found.left_out < 0.05);
  steps.back().cluster.reset();
  CHECK(calibrate(slow_cards(), h100_kernels, steps).error_before != found.error_before);
}

TEST_CASE("what no measured step depends on stays") {
  DescribedStep step = step_of({.tp = 8}, 4);
  step.efficiency = h100_kernels;
  const Cluster cluster = cluster_named("h100x16");
  const Calibration found =
      calibrate(cluster, h100_kernels, {{step, 1.2 * estimate_step(cluster, step).seconds}});
  CHECK(found.bandwidths[1] == doctest::Approx(1).scale(0));
  CHECK(found.error_after < 0.02);
  CHECK(text_of(cluster, found).find("none is left to check") != std::string::npos);
}

TEST_CASE("no step and no time are refused") {
  const Cluster cluster = cluster_named("h100x16");
  CHECK(message_of([&] { calibrate(cluster, h100_kernels, {}); }).find("no measured step") !=
        std::string::npos);
  CHECK(message_of([&] {
          calibrate(cluster, h100_kernels, {{step_of({}, 1), 0}});
        }).find("longer than 0 s") != std::string::npos);
}
