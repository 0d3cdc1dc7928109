// What software reaches of a cluster, and what is left when a cause is left out.
#include "yotta/plan/stacks.hpp"

#include <doctest/doctest.h>

#include <set>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("names are found, and others are errors that list them") {
  CHECK(std::string(stack_named("usual").name) == "usual");
  CHECK(message_of([] { stack_named("unusual"); }).find("known are usual") != std::string::npos);
  CHECK(stack_of_source("TorchTitan's tables") == &stack_named("torchtitan"));
  CHECK(stack_of_source("a paper") == nullptr);
  CHECK(cause_named("links") == Cause::links);
  CHECK(message_of([] { cause_named("cord"); }).find("known are size") != std::string::npos);
}

TEST_CASE("no stack reaches more than the description says; each has its own rows") {
  std::set<std::string_view> rows;
  for (const Stack& each : known_stacks) {
    CAPTURE(std::string(each.name));
    CHECK(each.passes >= 1);
    CHECK((each.network > 0 && each.network <= 1));
    CHECK((each.interference >= 0 && each.interference <= 1));
    for (const std::string_view words : each.rows)
      if (!words.empty()) CHECK(rows.insert(words).second);
    for (const char* chip : {"a100", "h100", "b200", "rtx4090"}) {
      const Efficiency e = reached_kernels(chip_named(chip), each);
      CHECK((e.matmul > 0 && e.matmul <= 1));
      CHECK((e.attention > 0 && e.attention <= 1));
    }
  }
}

TEST_CASE("all causes left out leave the data sheet") {
  const Cluster cluster = cluster_named("h100x16");
  Causes all;
  for (size_t i = 0; i < cause_names.size(); ++i) all.push_back(static_cast<Cause>(i));
  const Efficiency e = reached_kernels(cluster.chip, known_stacks[0], all);
  CHECK(e.matmul == 1);
  CHECK(e.overlap == 1);
  CHECK(e.interference == 0);
  const Cluster made = reached_cluster(cluster, known_stacks[0], all);
  for (size_t i = 0; i < cluster.levels.size(); ++i) {
    CHECK(made.levels[i].alpha == cluster.levels[i].alpha);
    CHECK(made.levels[i].beta == cluster.levels[i].beta);
    CHECK(reached_cluster(cluster, known_stacks[0]).levels[i].beta > cluster.levels[i].beta);
  }
}
