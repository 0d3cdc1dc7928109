#include "yotta/parallel/nd_groups.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

namespace {

ParameterPtr called(const std::string& name) {
  return make_parameter(name, {2, 2}, true, zeros(), 0, DType::f32);
}

}  // namespace

TEST_CASE("experts are summed without ep, all else over it: the picture of the header") {
  run_ranks(4, [](Communicator& world) {
    Mesh mesh(world, {.ep = 2, .dp_replicate = 2});
    const NdGroups groups(mesh, {.shape = mesh.shape()}, true);
    REQUIRE(groups.data.size() == 2);
    const int rank = world.rank();
    using Ranks = std::vector<int>;
    CHECK(groups.data[0].members() == Ranks{0, 1, 2, 3});
    CHECK(groups.data[1].members() == (rank % 2 == 0 ? Ranks{0, 2} : Ranks{1, 3}));
    CHECK(groups.losses.members() == Ranks{0, 1, 2, 3});
    CHECK(groups.routed.members() == Ranks{0, 1, 2, 3});
    CHECK(groups.weights.members() == (rank < 2 ? Ranks{0, 1} : Ranks{2, 3}));

    const ParameterPtr router = called("layers.0.mlp.router.weight");
    const ParameterPtr expert = called("layers.0.mlp.experts.1.up.weight");
    groups.count_copies({router, expert});
    CHECK(router->copies == 2);
    CHECK(expert->copies == 1);
    const auto sets = groups.sets({router, expert});
    REQUIRE(sets.size() == 2);
    CHECK(sets[0] == std::vector<ParameterPtr>{router});
    CHECK(sets[1] == std::vector<ParameterPtr>{expert});
  });
}

TEST_CASE("without ep there is one set, and without experts no loads") {
  run_ranks(2, [](Communicator& world) {
    Mesh mesh(world, {.dp_replicate = 2});
    const NdGroups groups(mesh, {.shape = mesh.shape()}, false);
    CHECK(groups.data.size() == 1);
    CHECK_FALSE(groups.routed.is_member());
    CHECK(groups.sets({called("a"), called("b.experts.0.up")}).size() == 1);
    CHECK(groups.runs.empty());
  });
}

TEST_CASE("with FSDP its units sum over cp and fsdp, and what is left is ep and dp") {
  run_ranks(8, [](Communicator& world) {
    Mesh mesh(world, {.ep = 2, .dp_shard = 2, .dp_replicate = 2});
    const NdGroups groups(mesh, {.shape = mesh.shape(), .sharded = true}, true);
    CHECK(groups.shards.size() == 2);
    CHECK(groups.data[0].size() == 4);
    CHECK(groups.data[1].size() == 2);
    CHECK(groups.weights.size() == 4);
    CHECK(groups.routed.size() == 8);
  });
}
