#include "yotta/comm/mesh.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/rank_errors.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
using Members = std::vector<int>;
}  // namespace

TEST_CASE("the mesh of Llama 3's picture: tp pairs 0-1, cp 0-2, pp 0-4, dp 0-8") {
  const MeshShape shape{.tp = 2, .cp = 2, .pp = 2, .dp_replicate = 2};
  CHECK(shape.ranks() == 16);
  run_ranks(16, [&](Communicator& world) {
    Mesh mesh(world, shape);
    if (world.rank() == 0) {
      CHECK(mesh[Axis::tp].members() == Members{0, 1});
      CHECK(mesh[Axis::cp].members() == Members{0, 2});
      CHECK(mesh[Axis::pp].members() == Members{0, 4});
      CHECK(mesh[Axis::dp_replicate].members() == Members{0, 8});
    }
    if (world.rank() == 13) {  // 1 + 2 (0 + 2 (1 + 2 * 1))
      CHECK(mesh.coordinate(Axis::tp) == 1);
      CHECK(mesh.coordinate(Axis::cp) == 0);
      CHECK(mesh.coordinate(Axis::pp) == 1);
      CHECK(mesh.coordinate(Axis::dp_replicate) == 1);
      CHECK(mesh[Axis::pp].members() == Members{9, 13});
    }
    CHECK(mesh[Axis::dp_shard].size() == 1);
  });
}

TEST_CASE("on any mesh: axes have their sizes and ranks, and combinations hold what they join") {
  for (const MeshShape shape :
       {MeshShape{}, MeshShape{.tp = 3}, MeshShape{.cp = 2, .dp_shard = 3},
        MeshShape{.tp = 2, .dp_shard = 2, .dp_replicate = 2}, MeshShape{.pp = 4, .dp_replicate = 2},
        MeshShape{1, 1, 1, 1, 2, 3}, MeshShape{.ep = 2, .dp_shard = 3, .dp_replicate = 2}})
    run_ranks(static_cast<int>(shape.ranks()), [&](Communicator& world) {
      Mesh mesh(world, shape);
      for (const Axis axis : all_axes) {
        CHECK(mesh[axis].size() == shape[axis]);
        CHECK(mesh[axis].rank() == mesh.coordinate(axis));
        std::vector<int> sum = {world.rank()}, by_hand = {0};
        mesh[axis].all_reduce(sum);
        for (const int member : mesh[axis].members()) by_hand[0] += member;
        CHECK(sum == by_hand);
      }
      CHECK(mesh.dp().size() == shape.data_ranks());
      CHECK(mesh.dp().rank() ==
            mesh.coordinate(Axis::ep) +
                shape.ep * (mesh.coordinate(Axis::dp_shard) +
                            shape.dp_shard * mesh.coordinate(Axis::dp_replicate)));
      const Communicator all =
          mesh.along({Axis::tp, Axis::cp, Axis::pp, Axis::ep, Axis::dp_shard, Axis::dp_replicate});
      CHECK(all.members() == world.members());
      CHECK(mesh.along({}).members() == Members{world.rank()});
    });
}

TEST_CASE("a communicator has the names of the axes that it splits") {
  run_ranks(8, [](Communicator& world) {
    Mesh mesh(world, {.tp = 2, .cp = 2, .dp_shard = 2});
    CHECK(world.name() == "world");
    CHECK(mesh[Axis::tp].name() == "tp");
    CHECK(mesh[Axis::dp_shard].name() == "fsdp");
    CHECK(mesh[Axis::pp].name() == "pp");  // of size 1
    CHECK(mesh.dp().name() == "fsdp");     // dp_replicate splits nothing
    CHECK(mesh.along({Axis::cp, Axis::dp_shard}).name() == "cp+fsdp");
    CHECK(mesh.along({Axis::pp, Axis::dp_replicate}).name() == "pp+dp");
    CHECK(world.split(0, 0).name() == "split 10 of world");
    CHECK(world.split(-1, 0).named("nobody's").is_member() == false);
  });
}

TEST_CASE("sizes that do not multiply out are refused with the nearest that do") {
  const std::string text = error_of<RankFailed>(
      8, [](Communicator& world) { Mesh(world, {.tp = 2, .dp_replicate = 3}); });
  check_says(text,
             {"tp 2 x dp 3 makes 6 ranks, but there are 8", "The nearest that does: tp 2 x dp 4"});
  CHECK(contains(message_of([] { expect_mesh({.tp = 0}, 1); }), "tp is 0"));
  CHECK(contains(message_of([] { expect_mesh({}, 2); }),
                 "a layout that splits nothing has 1 rank, but there are 2"));
  CHECK(contains(message_of([] { expect_mesh({.tp = 2}, 1); }),
                 "tp 2 makes 2 ranks, but there is 1"));
  expect_mesh({.tp = 2, .cp = 3}, 6);
  CHECK(describe(MeshShape{}) == "1 rank");
}

TEST_CASE("the nearest mesh changes as little as it can, outer axes first") {
  CHECK(nearest_mesh({.tp = 2, .dp_replicate = 3}, 8) == MeshShape{.tp = 2, .dp_replicate = 4});
  CHECK(nearest_mesh({.tp = 3, .dp_shard = 2}, 8) == MeshShape{.tp = 4, .dp_shard = 2});
  CHECK(nearest_mesh({.tp = 2, .pp = 2}, 8) == MeshShape{.tp = 2, .pp = 2, .dp_replicate = 2});
  CHECK(nearest_mesh({.tp = 8, .pp = 16, .dp_shard = 64}, 16384) ==
        MeshShape{.tp = 8, .pp = 16, .dp_shard = 64, .dp_replicate = 2});
  CHECK(nearest_mesh({.tp = 2, .dp_replicate = 2}, 7)->ranks() == 7);
  // Of those that work, if some are ruled out.
  const auto no_pp_3 = [](const MeshShape& shape) { return shape.pp != 3; };
  CHECK(nearest_mesh({.pp = 2}, 3) == MeshShape{.pp = 3});
  CHECK(nearest_mesh({.pp = 2}, 3, no_pp_3) == MeshShape{.dp_replicate = 3});
  CHECK(contains(message_of([&] { expect_mesh({.pp = 2}, 3, Where::current(), no_pp_3); }),
                 "The nearest that does: dp 3"));
  const auto none = [](const MeshShape&) { return false; };
  CHECK(contains(message_of([&] { expect_mesh({.pp = 2}, 3, Where::current(), none); }),
                 "No layout of 3 ranks works here; take another number"));
  // A number that works is named, if it is the layout's own.
  const auto two = [](const MeshShape& shape) { return shape.ranks() == 2; };
  CHECK(contains(message_of([&] { expect_mesh({.pp = 2}, 3, Where::current(), two); }),
                 "No layout of 3 ranks works here; pp 2 works on 2 ranks"));
  CHECK(contains(message_of([&] { expect_mesh({.pp = 2}, 1, Where::current(), two); }),
                 "No layout of 1 rank works here; pp 2 works on 2 ranks"));
  // Of two thousand million ranks the divisors are tried, not the numbers.
  CHECK(nearest_mesh({.tp = 8, .pp = 16}, 2147483646)->ranks() == 2147483646);
  CHECK(nearest_mesh({.tp = 3}, 2147483647)->ranks() == 2147483647);  // a prime
}

TEST_CASE("a mirrored mesh: one live rank a stage, the others are its images") {
  const MeshShape shape{.tp = 2, .pp = 3, .dp_replicate = 4};
  run_ranks(3, [&](Communicator& stages) {
    Mesh mesh = Mesh::mirrored(stages, shape);
    CHECK(mesh.coordinate(Axis::pp) == stages.rank());
    CHECK(mesh.coordinate(Axis::dp_replicate) == 0);
    for (const Axis axis : all_axes) CHECK(mesh[axis].size() == shape[axis]);
    CHECK(!mesh[Axis::pp].is_mirrored());
    CHECK(mesh[Axis::tp].is_mirrored());
    CHECK(mesh.dp().size() == 4);
    CHECK(mesh.along({Axis::tp, Axis::dp_replicate}).size() == 8);
    CHECK(mesh.along({Axis::tp, Axis::dp_replicate}).name() == "tp+dp");
    CHECK(!mesh.along({Axis::pp, Axis::dp_replicate}).is_member());
  });
  CHECK(contains(message_of([&] {
                   run_ranks(2, [&](Communicator& stages) { Mesh::mirrored(stages, shape); });
                 }),
                 "tp 2 x pp 3 x dp 4 needs 3 live ranks, one per stage of pp, not 2"));
}

TEST_CASE("a mirrored mesh's images are on the chips of their ranks") {
  const MeshShape shape{.tp = 2, .cp = 2, .pp = 2, .dp_shard = 3};
  const Timed run = run_on(
      ideal(24, 1, 1), 2,
      [&](Communicator& stages) {
        const DeviceScope meta(Device::meta);
        Mesh mesh = Mesh::mirrored(stages, shape);
        Tensor x = Tensor::empty({12});
        for (const Communicator& each : {mesh[Axis::tp], mesh[Axis::cp], mesh[Axis::dp_shard],
                                         mesh.along({Axis::cp, Axis::dp_shard})})
          each.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
      },
      {.chips = {0, 4}});
  for (const int stage : {0, 1}) {
    std::vector<int> to;  // of each collective's messages, once
    for (const TraceEvent& event : run.trace.ranks[static_cast<size_t>(stage)])
      if (event.kind == EventKind::send && event.peer >= first_image) {
        const int chip = event.peer - first_image - 4 * stage;
        if (to.empty() || to.back() != chip) to.push_back(chip);
      }
    CHECK(to == std::vector<int>{1, 2, 8, 2});
  }
}
