// Lanes: what shares a port takes longer, what does not goes on as if alone.
#include "yotta/plan/gradient_lanes.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
DataAxes axes(int shards_port, int data_port) {
  DataAxes made;
  made.shards = {4, {0, 0, shards_port}}, made.data = {2, {0, 0, data_port}};
  return made;
}
}  // namespace

TEST_CASE("collectives of one lane follow each other") {
  GradientLanes lanes(axes(0, 1));
  CHECK(lanes.start(GradientLane::shards, 1, 2, 2) == 3);
  CHECK(lanes.start(GradientLane::shards, 1, 2, 2) == 5);
  CHECK(lanes.free(GradientLane::shards) == 5);
  CHECK(lanes.start(GradientLane::shards, 0, 0, 0) == 0);  // nothing is sent
}

TEST_CASE("two lanes share a port, and each gets half of it") {
  GradientLanes apart(axes(0, 1)), shared(axes(1, 1));
  for (GradientLanes* const lanes : {&apart, &shared}) lanes->start(GradientLane::shards, 0, 2, 2);
  CHECK(apart.start(GradientLane::data, 0, 2, 2) == 2);
  CHECK(shared.start(GradientLane::data, 0, 2, 2) == 4);
  CHECK(shared.free(GradientLane::shards) == 4);
}

TEST_CASE("experts have a lane of their own: latencies overlap") {
  DataAxes both = axes(-1, 1);
  both.shards.p = 1;
  both.experts = {2, {0, 0, 1}};
  GradientLanes lanes(both);
  lanes.start(GradientLane::data, 0, 2, 0);  // latency alone
  CHECK(lanes.start(GradientLane::experts, 0, 2, 0) == 2);
}

TEST_CASE("a layer whose messages use a lane's port takes longer, and so does the lane") {
  DataAxes beside = axes(0, 1);
  beside.beside_shards[0] = true;
  PartTime layer;
  layer.exposed[0] = layer.sent[0] = layer.slowed[0] = 1;
  PartTime extra;
  GradientLanes lanes(beside);
  CHECK(lanes.compute(layer, 0, extra) == 1);  // nothing is under way
  lanes.start(GradientLane::shards, 1, 4, 4);
  CHECK(lanes.compute(layer, 1, extra) == 3);
  CHECK(extra.exposed[0] == 1);
  CHECK(lanes.free(GradientLane::shards) == 6);
}

TEST_CASE("over nodes a collective uses the port into the node too, for a part of its time") {
  GradientLanes lanes(axes(0, 1));
  lanes.start(GradientLane::shards, 0, 2, 2);
  CHECK(lanes.start(GradientLane::data, 0, 2, 2, 1) == 3);  // both are in the node for half of it
  CHECK(lanes.free(GradientLane::shards) == 3);
  DataAxes beside = axes(1, 1);
  beside.in_node[0] = true;
  PartTime layer, extra;
  layer.exposed[0] = layer.sent[0] = layer.slowed[0] = 1;
  GradientLanes over(beside);
  over.start(GradientLane::shards, 0, 4, 4, 2);
  CHECK(over.compute(layer, 0, extra) == 1.5);
}
