#include "yotta/sharding/spreads/spread_graph.hpp"

#include <doctest/doctest.h>

#include <set>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// On links on which a byte costs little beside a hop, and the other way round.
constexpr TorusLinks slow_hops{1e9, 1e-6}, slow_bytes{1e9, 0};

SpreadGraph graph_of(const char* like, const NamedMesh& mesh, TorusLinks links = slow_hops) {
  return {parse_spread(like, mesh), {{32, 16}, DType::bf16}, mesh, links};
}

}  // namespace

TEST_CASE("every spread is a node once") {
  for (const auto& [text, nodes] : {std::pair{"X 2", 4}, {"X 2, Y 2", 18}, {"X 2, Y 2, Z 2", 92}}) {
    const NamedMesh mesh = parse_mesh(text);
    const SpreadGraph graph = graph_of("[I, J]", mesh);
    std::set<std::string> texts;
    for (const Spread& node : graph.nodes()) {
      expect_spread(node, mesh);
      texts.insert(str(node));
      CHECK(graph.nodes()[static_cast<size_t>(graph.index_of(node))] == node);
    }
    CHECK(std::ssize(texts) == nodes);
    CHECK(std::ssize(graph.nodes()) == nodes);
  }
}

TEST_CASE("the steps of a way lead to its end and cost what it costs; more steps never cost more") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2, Z 2");
  for (const TorusLinks links : {slow_hops, slow_bytes}) {
    SpreadGraph graph = graph_of("[I, J]", mesh, links);
    const int count = static_cast<int>(graph.nodes().size());
    for (int from = 0; from < count; ++from)
      for (int to = 0; to < count; ++to)
        for (const int most : {0, 1, 2, 3, 4, 9}) {
          const SpreadGraph::Way& way = graph.way(from, to, most);
          if (!way.exists) continue;
          Spread at = graph.nodes()[static_cast<size_t>(from)];
          StepCost cost;
          const std::vector<Step> steps = graph.steps(from, to, most);
          for (const Step& step : steps) {
            cost = cost + cost_of(step, at, {{32, 16}, DType::bf16}, mesh, links);
            at = after(at, step);
          }
          CHECK(at == graph.nodes()[static_cast<size_t>(to)]);
          CHECK(cost.ticks == way.cost.ticks);
          CHECK(cost.bytes == way.cost.bytes);
          CHECK(std::ssize(steps) == way.steps);
          CHECK(way.steps <= most);
          CHECK_FALSE(way.is_better_than(graph.way(from, to, most + 1)));
        }
  }
}

TEST_CASE("a spread of other dims is no node") {
  const NamedMesh mesh = parse_mesh("X 2");
  const SpreadGraph graph = graph_of("[I, J]", mesh);
  CHECK(contains(message_of([&] { graph.index_of(parse_spread("[J, K]", mesh)); }),
                 "[J, K] is not a spread of this tensor"));
}
