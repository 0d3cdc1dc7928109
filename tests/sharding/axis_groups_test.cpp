#include "yotta/sharding/axis_groups.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/comm/run_ranks.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("groups along axes: the first axis is the outermost") {
  using Members = std::vector<int>;
  run_ranks(4, [](Communicator& world) {
    AxisGroups groups(world, parse_mesh("X 2, Y 2"));
    const Communicator &x = groups.along("X"), &y = groups.along("Y");
    const Communicator &xy = groups.along("XY"), &yx = groups.along("YX");
    if (world.rank() != 3) return;
    CHECK(x.members() == Members{2, 3});
    CHECK(y.members() == Members{1, 3});
    CHECK(xy.members() == Members{0, 2, 1, 3});
    CHECK(yx.members() == Members{0, 1, 2, 3});
    CHECK(xy.name() == "XY");
  });
}

TEST_CASE("a group is made once, and holds the ranks that differ along its axes only") {
  run_ranks(12, [](Communicator& world) {
    AxisGroups groups(world, parse_mesh("X 2, Y 3, Z 2"));
    for (const std::string axes : {"X", "Y", "Z", "ZX", "YZ", "XYZ", "ZYX"}) {
      const Communicator& group = groups.along(axes);
      CHECK(&group == &groups.along(axes));
      CHECK(group.size() == axes_size(groups.mesh(), axes));
      for (int i = 0; i < group.size(); ++i) {
        const int member = group.members()[static_cast<size_t>(i)];
        int place = 0;
        for (const char axis : axes)
          place = place * axis_size(groups.mesh(), axis) + coordinate(groups.mesh(), member, axis);
        CHECK(place == i);
        for (const MeshAxis& axis : groups.mesh().axes)
          if (axes.find(axis.name) == axes.npos)
            CHECK(coordinate(groups.mesh(), member, axis.name) ==
                  coordinate(groups.mesh(), groups.rank(), axis.name));
      }
    }
  });
}

TEST_CASE("the mesh has as many ranks as the world") {
  run_ranks(3, [](Communicator& world) {
    CHECK(contains(message_of([&] { AxisGroups(world, parse_mesh("X 2, Y 2")); }),
                   "the mesh {X 2, Y 2} has 4 ranks, but there are 3"));
  });
}

TEST_CASE("an axis that the mesh lacks is refused") {
  CHECK(contains(message_of([] { members_along(parse_mesh("X 2, Y 2"), "XQ", 0); }),
                 "the mesh {X 2, Y 2} has no axis Q"));
}
