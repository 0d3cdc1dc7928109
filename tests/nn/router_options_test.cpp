#include "yotta/nn/router_options.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("options that cannot be are refused with their rule") {
  RouterOptions o{.width = 4, .experts = 4, .top_k = 2};
  o.check("router");
  const auto said = [&] { return message_of([&] { o.check("layers.0.mlp.router"); }); };
  o.top_k = 5;
  CHECK(contains(said(), "layers.0.mlp.router: a token of width 4 goes to 5 of 4 experts"));
  o.top_k = 1, o.z_loss = -1;
  CHECK(contains(said(), "the z-loss is -1, expected 0 or more"));
  CHECK(std::string(name(RouterScore::sigmoid)) == "sigmoid");
  o = {.width = 4, .experts = 6, .top_k = 3};
  o.groups = 3, o.top_groups = 2;
  o.check("router");
  o.top_groups = 1;
  CHECK(contains(said(), "6 experts in 3 groups, 1 of which hold the 3 of a token"));
  o.groups = 4, o.top_groups = 2;
  CHECK(contains(said(), "6 experts in 4 groups"));
}
