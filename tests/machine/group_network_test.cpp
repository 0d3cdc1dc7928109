#include "yotta/machine/group_network.hpp"

#include <doctest/doctest.h>

#include <numeric>

using namespace yotta;

namespace {
using Chips = std::vector<int>;
GroupNetwork network(const Cluster& cluster, const Chips& chips) {
  return group_network(cluster, chips);
}
GroupNetwork along(const Cluster& cluster, const std::vector<ChipAxis>& axes, int64_t ranks) {
  return group_network(cluster, axes, ranks);
}
}  // namespace

TEST_CASE("ranks that fill nodes evenly are counted by node; others have the slowest link alone") {
  const Cluster c = cluster_named("h100x32");
  CHECK(network(c, {0, 1, 2, 3}).node() == 4);
  CHECK(network(c, {0, 1, 2, 3}).port() == 0);
  CHECK(network(c, {0, 8, 16, 24}).node() == 1);
  CHECK(network(c, {0, 8, 16, 24}).port() == 1);
  CHECK(network(c, {0, 4, 8, 12}).node() == 2);
  CHECK(network(c, {0, 4, 8, 12}).link.beta == c.levels[1].beta);
  CHECK(network(c, {0, 4, 8, 12}).inner[0].link.beta == c.levels[0].beta);
  for (const Chips& uneven : {Chips{0, 1, 2, 8}, {0, 8, 9, 16}, {0, 1, 8, 16, 17, 24}, {7, 8, 9}}) {
    CHECK(network(c, uneven).inner.empty());
    CHECK(network(c, uneven).node() == 1);
    CHECK(network(c, uneven).link.level == 1);
  }
  CHECK(network(c, {5}).p == 1);
}

TEST_CASE("levels: node, rack, pod and cluster, each with its link") {
  const Cluster c = llama3_24k();
  Chips chips(6144);
  std::iota(chips.begin(), chips.end(), 0);
  const GroupNetwork all = network(c, chips);
  REQUIRE(all.inner.size() == 3);
  CHECK(all.inner[0].ranks == 8);
  CHECK(all.inner[1].ranks == 16);
  CHECK(all.inner[2].ranks == 3072);
  CHECK(all.link.level == 3);
  CHECK(all.p == 6144);
  const GroupNetwork one_in_each = network(c, {0, 8, 16, 24});
  REQUIRE(one_in_each.inner.size() == 1);
  CHECK(one_in_each.inner[0].ranks == 2);  // of a rack
  CHECK(one_in_each.node() == 1);
}

TEST_CASE("a group along axes of a mesh has the network of its chips") {
  const Cluster c = llama3_24k();
  for (const int a : {1, 2, 4, 8, 16})
    for (const int b : {1, 2, 3, 16})
      for (const int between : {1, 2, 8}) {
        const std::vector<ChipAxis> axes = {{2, a}, {2 * a * between, b}};
        Chips chips;
        for (int j = 0; j < b; ++j)
          for (int i = 0; i < a; ++i) chips.push_back(2 * i + 2 * a * between * j);
        const GroupNetwork found = along(c, axes, 2 * a * between * b), listed = network(c, chips);
        CAPTURE(a);
        CAPTURE(b);
        CAPTURE(between);
        CHECK(found.p == listed.p);
        CHECK(found.node() == listed.node());
        CHECK(found.link == listed.link);
        CHECK(found.inner.size() == listed.inner.size());
      }
  // Of groups of 6 on nodes of 8 the second lies on two nodes: it is the slowest.
  const GroupNetwork six = along(cluster_named("h100x24"), {{1, 6}}, 24);
  CHECK(six.node() == 1);
  CHECK(six.link.level == 1);
}

TEST_CASE("on a torus a group is one ring, as slow as its longest hop") {
  const GroupNetwork ring = network(torus(chip_named("v5p"), {4, 4}), {0, 1, 5});
  CHECK(ring.p == 3);
  CHECK(ring.inner.empty());
  CHECK(ring.link.alpha == 2e-6);  // from 5 back to 0
  CHECK(ring.node() == 3);
}
