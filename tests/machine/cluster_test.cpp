#include "yotta/machine/cluster.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::message_of;

TEST_CASE("two chips talk over the smallest group that holds both") {
  const Cluster c = llama3_24k();
  CHECK(c.size() == 24576);
  CHECK(c.link(3, 3).seconds(1e9) == 0);
  CHECK(c.link(0, 7).level == 0);
  CHECK(c.link(7, 8).level == 1);
  CHECK(c.link(8, 7).level == 1);
  CHECK(c.link(15, 16).level == 2);
  CHECK(c.link(3071, 3072).level == 3);
  CHECK(c.link(0, 24575).level == 3);
  CHECK(c.link(0, 1).seconds(450e9) == doctest::Approx(1 + 1e-6).epsilon(1e-12));
  CHECK(c.link(0, 24575).seconds(50e9) == doctest::Approx(7 + 7e-6).epsilon(1e-12));
  CHECK(contains(message_of([&] { c.link(0, 24576); }), "chips 0 to 24575, not 24576"));
  CHECK(contains(message_of([&] { c.link(-1, 0); }), "not -1"));
}

TEST_CASE("a torus hops, the shorter way round on each axis") {
  CHECK(torus_hops({4}, 0, 3) == 1);
  CHECK(torus_hops({4}, 0, 2) == 2);
  CHECK(torus_hops({4, 4}, 0, 15) == 2);
  CHECK(torus_hops({4, 4, 4}, 0, 42) == 6);
  CHECK(torus_hops({2}, 0, 1) == 1);
  const Cluster c = torus(chip_named("v5p"), {4, 4});
  CHECK(c.link(0, 10).alpha == 4 * c.link(0, 1).alpha);
  CHECK(c.link(0, 10).beta == 1 / 90e9);
}

TEST_CASE("machines by name") {
  CHECK(cluster_named("h100x8").levels.size() == 1);
  CHECK(cluster_named("h100x4").size() == 4);
  const Cluster large = cluster_named("h100x16384");
  CHECK(large.size() == 16384);
  CHECK(large.link(0, 7).beta == 1 / 450e9);
  CHECK(large.link(0, 8).beta == 1 / 50e9);
  CHECK(cluster_named("a100x16").link(0, 7).beta == 1 / 300e9);
  CHECK(cluster_named("a100x16").link(0, 8).beta == 1 / 25e9);  // its cards have half of that
  CHECK(cluster_named("v5px64").torus == std::vector<int>{4, 4, 4});
  CHECK(cluster_named("v5ex256").torus == std::vector<int>{16, 16});
  CHECK(cluster_named("v5ex12").torus == std::vector<int>{3, 4});
  CHECK(cluster_named("h100-pciex2").chip.link == 300e9);
  CHECK(cluster_named("llama3-24k").size() == 24576);
  const Cluster far = cluster_named("cities4x8");
  CHECK(far.size() == 32);
  CHECK(far.link(0, 3).alpha == 1e-6);
  CHECK(std::abs(far.link(0, 4).seconds(125e6) - 1.05) < 1e-12);  // a second and 50 ms
  CHECK(std::abs(far.link(15, 16).seconds(0) - 0.1) < 1e-12);     // across the ocean
  CHECK(cluster_named("citiesx4").link(0, 3).level == 1);
  CHECK(cluster_named("citiesx1").size() == 1);
  CHECK(cluster_named("ideal").link(0, 5).seconds(1e12) < 1e-200);
  for (const char* wrong : {"h100", "h100x", "h100x0", "x8", "h100x-8", "h900x8", "h100x8k", "",
                            "cities4", "cities4kx8", "cities-1x2"})
    CHECK_THROWS_AS(cluster_named(wrong), Error);
}

TEST_CASE(
    "links are equal within one level, or along a ring of a torus; else two that differ are "
    "named") {
  const Cluster c = llama3_24k();
  const auto unequal = [](const Cluster& cluster, std::vector<int> group) {
    return unequal_links(cluster, group);
  };
  CHECK(unequal(c, {0, 1, 2, 3, 4, 5, 6, 7}).empty());
  CHECK(unequal(c, {5}).empty());
  CHECK(unequal(c, {3000, 16, 128, 2944}).empty());
  CHECK(
      contains(unequal(c, {7, 6, 8}), "chips 7 and 6 talk over the node (1e-06 s), chips 7 and 8"));
  CHECK(contains(unequal(c, {0, 128, 2944, 3072}), "chips 0 and 3072 talk over the cluster"));
  CHECK(contains(unequal(c, {0, 16, 128, 136}), "chips 128 and 136 talk over the rack"));
  CHECK(contains(unequal(c, {0, 16, 16}), "chip 16 is listed twice"));
  const Cluster grid = torus(chip_named("v5p"), {4, 4});
  CHECK(unequal(grid, {0, 1, 2, 3}).empty());
  CHECK(unequal(grid, {0, 3, 2, 1}).empty());
  CHECK(unequal(grid, {0, 4, 8, 12}).empty());
  CHECK(contains(unequal(grid, {0, 1, 2}), "talk over the torus"));
  CHECK(contains(unequal(grid, {0, 1, 5}), "talk over the torus"));
}

TEST_CASE("a ring's all_gather: p - 1 steps, each as long as its slowest link takes") {
  const std::vector<int> two_nodes = {0, 1, 2, 3, 8, 9, 10, 11};
  const double part = 1e9 / 8;
  const auto seconds = [&](const Cluster& cluster, const std::vector<int>& chips) {
    return ring_all_gather_seconds(cluster, chips, 1e9);
  };
  const Cluster h100 = cluster_named("h100x16");
  CHECK(seconds(h100, {0, 1, 2, 3, 4, 5, 6, 7}) ==
        doctest::Approx(7 * (1e-6 + part / 450e9)).scale(0));
  CHECK(seconds(h100, two_nodes) == doctest::Approx(7 * (5e-6 + part / 50e9)).scale(0));
  CHECK(seconds(h100, {5}) == 0);
  const Cluster tpu = torus(chip_named("v5p"), {8});
  CHECK(seconds(tpu, {0, 1, 2, 3}) ==
        doctest::Approx(3 * (3e-6 + 0.25e9 / 90e9)));  // 3 to 0: 3 hops
  CHECK(seconds(tpu, {0, 1, 2, 3, 4, 5, 6, 7}) ==
        doctest::Approx(7 * (1e-6 + part / 90e9)).scale(0));
  CHECK(contains(message_of([&] { seconds(h100, {0, 16}); }), "chips 0 to 15, not 16"));
}
