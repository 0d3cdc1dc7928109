#include "yotta/machine/routes.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("a message leaves by its port and goes up and down as far as it must") {
  const Cluster c = llama3_24k();
  Wires wires(c);
  CHECK(wires.route(5, 5).empty());
  CHECK(wires.route(0, 7).size() == 2);
  CHECK(wires.route(0, 8).size() == 4);
  CHECK(wires.route(0, 16).size() == 6);
  const std::vector<int> far = wires.route(0, 24575), near = wires.route(0, 3072);
  CHECK(far.size() == 8);
  CHECK(far[0] == near[0]);                                // the same port out
  CHECK(wires.capacity(far[0]) == doctest::Approx(50e9));  // not its share of the uplink
  CHECK(far[6] == near[6]);                                // the same uplink of pod 0
  CHECK(wires.capacity(far[6]) == doctest::Approx(3072 * 50e9 / 7));
  CHECK(wires.route(8, 0)[0] != wires.route(0, 8)[0]);
  CHECK(wires.capacity(wires.route(0, 7)[0]) == doctest::Approx(450e9));
}

TEST_CASE("hops of a torus are wires of their own, the shorter way round") {
  const Cluster ring = torus(chip_named("v5p"), {8}), cube = torus(chip_named("v5p"), {4, 4, 4});
  Wires wires(ring), cubic(cube);
  CHECK(wires.route(0, 3).size() == 3);
  CHECK(wires.route(0, 6).size() == 2);
  CHECK(wires.route(2, 3)[0] == wires.route(0, 3)[2]);
  CHECK(wires.route(3, 2)[0] != wires.route(2, 3)[0]);
  CHECK(wires.route(4, 4).empty());
  CHECK(cubic.route(0, 42).size() == 6);
}
