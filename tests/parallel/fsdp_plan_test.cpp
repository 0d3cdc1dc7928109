#include "yotta/parallel/fsdp_plan.hpp"

#include <doctest/doctest.h>

#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/tied_parameters.hpp"

using namespace yotta;

namespace {

std::string describe(const FsdpPlan& plan) {
  std::string text;
  for (const FsdpPlan::Slice& slice : plan.slices) {
    text += "[";
    for (const LayerPtr& layer : slice.layers) text += layer->name() + " ";
    text += "in " + std::to_string(slice.unit);
    text += slice.outer ? " and " + std::to_string(*slice.outer) + "]" : "]";
  }
  return text;
}

// A stack whose first and last layer share their weight: l0, l1, ..., tied.
std::vector<LayerPtr> make_tied(int64_t layers) {
  std::vector<LayerPtr> stack;
  for (int64_t i = 0; i < layers; ++i)
    stack.push_back(std::make_unique<Linear>("l" + std::to_string(i), LinearOptions{2, 2}));
  stack.push_back(
      std::make_unique<Linear>("tied", parameters(Layers(stack).subspan(0, 1)).front()));
  return stack;
}

}  // namespace

TEST_CASE("units are slices of a given length; the last one may be shorter") {
  const std::vector<LayerPtr> net = make_linear_net({5, 2});
  const FsdpPlan plan = plan_fsdp(net, 2);
  CHECK(describe(plan) == "[layers.0 layers.1 in 0][layers.2 layers.3 in 1][layers.4 in 2]");
  REQUIRE(plan.parameters.size() == 3);
  CHECK(plan.parameters[0].size() == 2);
  CHECK(plan.parameters[2] == parameters(Layers(net).subspan(4, 1)));
  for (const FsdpPlan::Slice& slice : plan.slices) CHECK((slice.is_first && slice.is_last));
  CHECK(plan_fsdp(net, 1).slices.size() == 5);
  CHECK(plan_fsdp(net, 100).slices.size() == 1);
  CHECK(plan_fsdp({}, 1).slices.empty());
}

TEST_CASE("layers that share a parameter are the root, with the parameter once") {
  const std::vector<LayerPtr> stack = make_tied(4);
  const FsdpPlan plan = plan_fsdp(stack, 2);
  CHECK(describe(plan) == "[l0 in 0][l1 l2 in 1][l3 in 2][tied in 0]");
  REQUIRE(plan.parameters.size() == 3);
  CHECK(plan.parameters[0].size() == 1);
  CHECK(plan.slices.front().is_first);
  CHECK_FALSE(plan.slices.front().is_last);
  CHECK_FALSE(plan.slices.back().is_first);
  CHECK(plan.slices.back().is_last);
}

TEST_CASE("what is apart is a unit of its own, beside or in place of that of its slice") {
  const std::vector<LayerPtr> net = make_linear_net({4, 2});
  const FsdpPlan plan = with_own_units(plan_fsdp(net, 2), {"layers.1.weight"});
  CHECK(describe(plan) == "[layers.0 layers.1 in 0 and 1][layers.2 layers.3 in 2]");
  CHECK(plan.parameters[0] == parameters(Layers(net).subspan(0, 1)));
  CHECK(plan.parameters[1] == parameters(Layers(net).subspan(1, 1)));
  const FsdpPlan alone = with_own_units(plan_fsdp(net, 1), {"layers.1.weight"});
  CHECK(describe(alone) == "[layers.0 in 0][layers.1 in 1][layers.2 in 2][layers.3 in 3]");
  CHECK(alone.parameters[1] == plan.parameters[1]);
}

TEST_CASE("a unit of no layers is refused") {
  CHECK_THROWS_WITH_AS(plan_fsdp({}, 0), doctest::Contains("a unit of 0 layers"), Error);
}
