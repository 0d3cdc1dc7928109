#include "yotta/machine/ports.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
TraceEvent message(EventKind kind, int peer, int lane = -1, double begin = 0, double end = 3) {
  return {kind, lane, begin, end, "x", {}, peer, 100};
}
constexpr EventKind out = EventKind::send, in = EventKind::recv;
const std::vector<int> as_ranked;
}  // namespace

TEST_CASE("a chip has a port into its node and a card, each both ways") {
  const Cluster c = cluster_named("h100x16");
  Ports ports(c, as_ranked);
  const int node = ports.of(0, message(out, 1)), card = ports.of(0, message(out, 8));
  CHECK(node != card);
  CHECK(ports.of(0, message(out, 7)) == node);
  CHECK(ports.of(0, message(out, 15)) == card);
  CHECK(ports.of(0, message(in, 1)) != node);
  CHECK(ports.of(0, message(in, 1)) == ports.of(0, message(in, 5)));
  CHECK(ports.of(0, message(in, 8)) != ports.of(0, message(in, 5)));
  CHECK(ports.of(0, message(in, 8)) != ports.of(1, message(in, 8)));
  CHECK(ports.of(1, message(in, 0)) != ports.of(0, message(in, 1)));
  CHECK(ports.of(0, message(out, 0)) == -1);
  CHECK_UNARY(ports.leads_out(0, message(out, 8)));
  CHECK_UNARY_FALSE(ports.leads_out(0, message(out, 7)));
}

TEST_CASE("a torus chip has a port for each way of each axis; hops use the first and the last") {
  const Cluster c = torus(chip_named("v5p"), {4, 4});
  Ports ports(c, as_ranked);
  std::set<int> leave;
  for (const int peer : {1, 3, 4, 12}) leave.insert(ports.of(0, message(out, peer)));
  CHECK(leave.size() == 4);
  CHECK(ports.of(0, message(out, 5)) == ports.of(0, message(out, 1)));  // the first axis first
  CHECK(ports.of(5, message(in, 0)) == ports.of(5, message(in, 1)));    // from below
}

TEST_CASE("ranks sit on chips; images are given by theirs") {
  const Cluster c = cluster_named("h100x16");
  const std::vector<int> chips = {8, 9, 0};
  Ports ports(c, chips);
  CHECK(ports.of(0, message(out, 1)) == ports.of(0, message(out, first_image + 10)));
  CHECK(ports.of(0, message(out, 2)) == ports.of(0, message(out, first_image + 3)));
}

TEST_CASE("a message occupies its port for its bytes, not for its latency") {
  Cluster c = ideal(2);
  c.levels[0] = {"node", 2, 1, 0.02};
  Ports ports(c, as_ranked);
  CHECK(ports.work(0, message(out, 1)) == 2);  // 3 s, one of them latency
  TraceEvent nothing = message(out, 1);
  nothing.bytes = 0;
  CHECK(ports.work(0, nothing) == 0);
  CHECK(ports.work(0, message(out, 0)) == 0);
}

TEST_CASE("lanes meet if they use one port at one time") {
  Cluster c = ideal(4);
  c.levels = {{"node", 2, 0, 0.03}, {"all", 4, 0, 0.03}};
  const auto meet = [&](const TraceEvent& a, const TraceEvent& b) {
    return lanes_meet({{{a, b}, {}, {}, {}}}, c, as_ranked);
  };
  const TraceEvent first = message(out, 1);
  CHECK_UNARY(meet(first, message(out, 1, -2, 2, 5)));
  CHECK_UNARY_FALSE(meet(first, message(out, 1, -2, 3, 6)));  // one ends as the other begins
  CHECK_UNARY_FALSE(meet(first, message(out, 1, -1, 2, 5)));  // one lane
  CHECK_UNARY_FALSE(meet(first, message(out, 2, -2, 2, 5)));  // the card
  CHECK_UNARY_FALSE(meet(first, message(in, 1, -2, 2, 5)));   // the other way
  CHECK_UNARY(meet(message(in, 1), message(in, 1, 4, 1, 4)));
}
