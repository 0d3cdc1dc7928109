// Groups of a layout: sizes, links and what collectives take on them.
#include "yotta/plan/plan_groups.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/chooser.hpp"
#include "yotta/parallel/gradient_groups.hpp"

using namespace yotta;

TEST_CASE("each group has the slowest link that any group along its axes has") {
  const Cluster cluster = cluster_named("h100x64");
  const MeshShape shapes[] = {{.tp = 8, .pp = 2, .dp_replicate = 4},
                              {.tp = 4, .pp = 2, .dp_replicate = 8},
                              {.tp = 2, .dp_shard = 4, .dp_replicate = 8},
                              {.tp = 2, .cp = 2, .pp = 4, .dp_replicate = 4}};
  for (const MeshShape& shape : shapes) {
    const PlanGroups groups = plan_groups(cluster, shape);
    CAPTURE(describe(shape));
    CHECK(groups.tp.p == shape.tp);
    CHECK(groups.tp.link.alpha == slowest_link(cluster, shape, Axis::tp).alpha);
    CHECK(groups.pp.link.beta == slowest_link(cluster, shape, Axis::pp).beta);
    CHECK(groups.tp.port == 0);
  }
  const PlanGroups hsdp = plan_groups(cluster, shapes[2]);
  CHECK(hsdp.shards.p == 4);
  CHECK(hsdp.shards.port == 0);
  CHECK(hsdp.data.p == 8);
  CHECK(hsdp.data.port == 1);
  const PlanGroups ring = plan_groups(cluster, shapes[3]);
  CHECK(ring.shards.p == 1);
  CHECK(ring.data.p == 8);  // cp sums gradients too
}

TEST_CASE("the farthest link is the slowest, also where its latency is the smaller one") {
  Cluster cluster = cluster_named("h100x16");
  cluster.levels[1].alpha = cluster.levels[0].alpha / 2;
  const PlanGroups groups = plan_groups(cluster, {.cp = 2, .dp_replicate = 8});
  CHECK(groups.data.p == 16);
  CHECK(groups.data.link.beta == cluster.levels[1].beta);
  CHECK(groups.data.port == 1);
}

TEST_CASE("with ep experts are summed by those that hold the same ones") {
  const PlanGroups groups = plan_groups(cluster_named("h100x16"), {.ep = 4, .dp_replicate = 4});
  CHECK(groups.ep.p == 4);
  CHECK(groups.data.p == 16);
  CHECK(groups.experts.p == 4);
  CHECK(groups.routed.p == 16);
}

TEST_CASE("collectives take what they take under the clock, small ones and large ones") {
  const Cluster cluster = cluster_named("h100x8");
  const PlanGroup group = plan_groups(cluster, {.tp = 8}).tp;
  for (const int64_t bytes : {1 << 10, 1 << 14, 1 << 20}) {
    CAPTURE(bytes);
    const Algorithm all_reduce = bytes < 16 << 10 ? Algorithm::recursive_doubling : Algorithm::ring;
    CHECK(
        all_reduce_seconds(group, static_cast<double>(bytes)) ==
        doctest::Approx(all_reduce_seconds(cluster, 8, bytes, {.algorithm = all_reduce})).scale(0));
    const Algorithm all_gather = bytes < 16 << 10 ? Algorithm::bruck : Algorithm::ring;
    for (const AlgorithmTime& each : all_gather_times(cluster, 8, bytes))
      if (each.algorithm == all_gather)
        CHECK(all_gather_seconds(group, static_cast<double>(bytes)) ==
              doctest::Approx(each.seconds).scale(0));
  }
}

TEST_CASE("of a collective's seconds those at a port are without latency") {
  const PlanGroup group{4, {1e-6, 1e-9, 0}, 0};
  CHECK(port_seconds(all_reduce_seconds, group, 1e6) == doctest::Approx(2 * 0.75 * 1e-3).scale(0));
  CHECK(all_reduce_seconds({1, {1, 1, 0}, 0}, 1e6) == 0);
  CHECK(ring_scratch(group, 8) == 4);
  CHECK(ring_scratch({1, {}, 0}, 8) == 0);
}
