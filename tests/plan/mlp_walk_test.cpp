// The feed-forward layer by formula: its FLOPs, its messages, and what it keeps.
#include "yotta/plan/mlp_walk.hpp"

#include <doctest/doctest.h>

#include "yotta/nn/activations.hpp"
#include "yotta/nn/linear_ops.hpp"

using namespace yotta;

namespace {

struct Walked {
  Cluster cluster = cluster_named("h100x8");
  Efficiency efficiency = {};
  LayerSizes z;
  PlanGroups groups;

  explicit Walked(int tp, bool shares = false) {
    z.B = 1, z.T = z.N = 1024, z.n = shares ? 1024 / tp : 1024;
    z.C = 512, z.F = 2048 / tp, z.tp = tp, z.shares_tokens = shares;
    z.dtype = DType::bf16, z.width = 2;
    groups = plan_groups(cluster, {.tp = tp});
  }
  StepWalk walk() const { return {cluster.chip, efficiency}; }
};

}  // namespace

TEST_CASE("three matrices and swiglu, forward; twice the products backward") {
  const Walked w(1);
  const StepWalk clock = w.walk();
  MlpWalk mlp(w.z, w.groups, clock);
  mlp.mlp_forward(w.z.F, false);
  mlp.end_forward(mlp.stream(), mlp.stream());
  mlp.mlp_input(w.z.F);
  mlp.end_input();
  mlp.mlp_weight(w.z.F, false);
  const LayerFigures found = mlp.end_weight();
  const double up = clock.seconds_of(linear_cost("linear", DType::bf16, 1024, 2048, 512)),
               down = clock.seconds_of(linear_cost("linear", DType::bf16, 1024, 512, 2048)),
               between = clock.seconds_of(swiglu_cost(DType::bf16, 1024 * 2048));
  CHECK(found.forward.computed == doctest::Approx(2 * up + down + between).scale(0));
  CHECK(found.forward.seconds() == found.forward.computed);
  CHECK(found.parameters() == 3 * 512 * 2048);
  CHECK(found.saved >= 3 * 2.0 * 1024 * 2048);  // up, gate, and what down reads
}

TEST_CASE("tp sums over its ranks once each way; with shared tokens it gathers and scatters") {
  for (const bool shares : {false, true}) {
    const Walked w(4, shares);
    MlpWalk mlp(w.z, w.groups, w.walk());
    mlp.mlp_forward(w.z.F, false);
    mlp.end_forward(mlp.stream(), mlp.stream());
    mlp.mlp_input(w.z.F);
    mlp.end_input();
    LayerFigures found = mlp.end_weight();
    const double bytes = 2.0 * 1024 * 512;
    const double each =
        shares ? all_gather_seconds(w.groups.tp, bytes) + reduce_scatter_seconds(w.groups.tp, bytes)
               : all_reduce_seconds(w.groups.tp, bytes);
    CHECK(found.forward[Exposed::tp] == doctest::Approx(each).scale(0));
    CHECK(found.input[Exposed::tp] == doctest::Approx(each).scale(0));
  }
}
