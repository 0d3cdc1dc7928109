#include "yotta/sharding/resharding.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "sharding/spreads/spread_cases.hpp"
#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr TorusLinks links{90e9, 1e-6};

// The least time of all sequences of at most four steps, tried one by one.
int64_t brute_force(const Spread& from, const Spread& to, const WholeTensor& whole,
                    const NamedMesh& mesh) {
  int64_t least = INT64_MAX;
  const std::function<void(const Spread&, int64_t, int)> walk = [&](const Spread& at, int64_t time,
                                                                    int left) {
    if (at == to) least = std::min(least, time);
    if (left == 0) return;
    for (const Step& step : steps_from(at, mesh))
      walk(after(at, step), time + cost_of(step, at, whole, mesh, links).ticks, left - 1);
  };
  walk(from, 0, 4);
  return least;
}

bool can_reach(const Spread& from, const Spread& to) {
  return without(to.unreduced, from.unreduced).empty();
}

}  // namespace

TEST_CASE("no sequence of up to four steps is faster than the plan") {
  for (const char* text : {"X 2", "X 8", "X 2, Y 3"}) {
    const NamedMesh mesh = parse_mesh(text);
    for (const WholeTensor& whole :
         {WholeTensor{{4096, 512}, DType::bf16}, WholeTensor{{7, 5}, DType::f32}}) {
      const auto spreads = all_spreads("[I, J]", mesh);
      for (size_t i = 0; i < spreads.size(); i += 2)  // half of them: brute force takes its time
        for (const Spread& to : spreads) {
          if (!can_reach(spreads[i], to)) continue;
          const ReshardPlan plan = cheapest_reshard(spreads[i], to, whole, mesh, links);
          const int64_t least = brute_force(spreads[i], to, whole, mesh);
          CAPTURE(str(spreads[i]) + " to " + str(to));
          if (std::ssize(plan.steps) <= 4)
            CHECK(plan.cost.ticks == least);
          else
            CHECK(plan.cost.ticks < least);
        }
    }
  }
}

TEST_CASE("any spread to any other, with data") {
  for (const char* text : {"X 3", "X 2, Y 2", "X 2, Y 4"}) {
    const NamedMesh mesh = parse_mesh(text);
    const Tensor whole = normal_numbers({7, 5}, "whole");
    const auto spreads = all_spreads("[I, J]", mesh);
    std::vector<std::pair<ReshardPlan, Spread>> plans;
    for (const Spread& from : spreads)
      for (const Spread& to : spreads)
        if (can_reach(from, to))
          plans.emplace_back(cheapest_reshard(from, to, {whole.shape(), DType::f64}, mesh, links),
                             to);
    CHECK(plans.size() > spreads.size());
    run_ranks(ranks_of(mesh), [&](Communicator& world) {
      AxisGroups groups(world, mesh);
      for (const auto& [plan, to] : plans)
        check_part(resharded(part_of(whole, plan.from, groups), plan.steps, groups), to, whole,
                   groups);
    });
  }
}

TEST_CASE("a plan is printed with bytes and time") {
  const NamedMesh mesh = parse_mesh("X 4, Y 2");
  const WholeTensor whole{{4096, 4096}, DType::bf16};
  const ReshardPlan plan = cheapest_reshard(parse_spread("[I_XY, J]", mesh),
                                            parse_spread("[I, J_X]", mesh), whole, mesh, links);
  CHECK(str(plan, whole, mesh, links) ==
        "   all_gather Y       [I_XY, J]      -> [I_X, J]          4194304 bytes     93.21 us\n"
        "   all_to_all X       [I_X, J]       -> [I, J_X]          6291456 bytes     93.21 us\n"
        "   in all                                               10485760 bytes    186.41 us\n");
  const ReshardPlan none = cheapest_reshard(plan.from, plan.from, whole, mesh, links);
  CHECK(contains(str(none, whole, mesh, links), "nothing to do"));
}

TEST_CASE("a sum cannot be taken apart again") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  const auto plan = [&](const char* from, const char* to) {
    cheapest_reshard(parse_spread(from, mesh), parse_spread(to, mesh), {{4, 4}, DType::f32}, mesh,
                     links);
  };
  CHECK(contains(message_of([&] { plan("[I, J]", "[I, J]{U_X}"); }),
                 "a sum over X is asked for in parts, but it is not in parts now"));
  CHECK(contains(message_of([&] { plan("[I_X, J]{U_Y}", "[I, J]{U_X}"); }), "a sum over X"));
}
