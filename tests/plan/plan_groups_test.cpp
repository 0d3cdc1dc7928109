// Groups of a layout: sizes, links and what collectives take on them.
#include "yotta/plan/plan_groups.hpp"

#include <doctest/doctest.h>

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
    CHECK(groups.tp.port() == 0);
  }
  const PlanGroups hsdp = plan_groups(cluster, shapes[2]);
  CHECK(hsdp.shards.p == 4);
  CHECK(hsdp.shards.port() == 0);
  CHECK(hsdp.data.p == 8);
  CHECK(hsdp.data.port() == 1);
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
  CHECK(groups.data.port() == 1);
}

TEST_CASE("with ep experts are summed by those that hold the same ones") {
  const PlanGroups groups = plan_groups(cluster_named("h100x16"), {.ep = 4, .dp_replicate = 4});
  CHECK(groups.ep.p == 4);
  CHECK(groups.data.p == 16);
  CHECK(groups.experts.p == 4);
  CHECK(groups.routed.p == 16);
}

TEST_CASE("with pp outermost experts and replicas are in a node, and stages are not") {
  const Cluster cluster = cluster_named("h100x64");
  const MeshShape shape{.pp = 4, .ep = 8, .dp_replicate = 2};
  const PlanGroups inside = plan_groups(cluster, shape),
                   outside = plan_groups(cluster, shape, true);
  CHECK(inside.pp.port() == 0);
  CHECK(inside.ep.port() == 1);
  CHECK(outside.pp.port() == 1);
  CHECK(outside.ep.port() == 0);
  CHECK(outside.data.node() == 8);
  const MeshShape dense{.tp = 8, .pp = 4, .dp_replicate = 2};  // nodes are tp's either way
  CHECK(plan_groups(cluster, dense).data == plan_groups(cluster, dense, true).data);
}

TEST_CASE("a group that fills nodes evenly knows how many of its ranks share one") {
  const Cluster cluster = cluster_named("h100x64");
  const auto node = [&](const MeshShape& shape) { return plan_groups(cluster, shape).data.node(); };
  CHECK(node({.dp_replicate = 64}) == 8);
  CHECK(node({.tp = 4, .dp_replicate = 16}) == 2);
  CHECK(node({.tp = 4, .cp = 2, .pp = 2, .dp_replicate = 4}) == 2);  // of cp and dp together
  CHECK(node({.tp = 8, .dp_replicate = 8}) == 1);
  CHECK(node({.tp = 3, .dp_replicate = 16}) == 1);
  CHECK(node({.dp_replicate = 6}) == 6);
}

TEST_CASE("one ring: a group over nodes takes as long as one card of a node does") {
  const Cluster cluster = cluster_named("h100x32");
  const MeshShape shape{.tp = 8, .dp_replicate = 4}, fsdp{.dp_shard = 32};
  CHECK(plan_groups(cluster, shape, false, true).tp == plan_groups(cluster, shape).tp);
  const PlanGroup all = plan_groups(cluster, fsdp).shards,
                  one = plan_groups(cluster, fsdp, false, true).shards;
  const double bytes = 1 << 30;
  CHECK(collective_seconds(Operation::all_gather, one, bytes) ==
        all_gather_ring_seconds(32, bytes, alpha_beta(one)));
  CHECK(collective_seconds(Operation::all_gather, one, bytes) >
        5 * collective_seconds(Operation::all_gather, all, bytes));
}
