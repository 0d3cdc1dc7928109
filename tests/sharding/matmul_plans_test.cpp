#include "yotta/sharding/matmul_plans.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <map>

#include "sharding/spreads/spread_cases.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr TorusLinks links{90e9, 1e-6};

// The steps of one matrix as numbers, so that many plans can be tried one by one.
struct Table {
  struct Edge {
    int to;
    int64_t ticks;
  };
  std::vector<Spread> spreads;
  std::map<std::string, int> index;
  std::vector<std::vector<Edge>> edges;

  Table(const char* like, const WholeTensor& whole, const NamedMesh& mesh)
      : spreads(all_spreads(like, mesh)), edges(spreads.size()) {
    for (size_t i = 0; i < spreads.size(); ++i) index[str(spreads[i])] = static_cast<int>(i);
    for (size_t i = 0; i < spreads.size(); ++i)
      for (const Step& step : steps_from(spreads[i], mesh))
        edges[i].push_back({index.at(str(after(spreads[i], step))),
                            cost_of(step, spreads[i], whole, mesh, links).ticks});
  }
};

// All plans of at most `most` steps, in the order A, B, product, C. least[c]: the least time of
// those that end with C spread so.
struct BruteForce {
  Table a, b, c;
  std::vector<std::vector<int>> product;  // by A's and B's spread; -1: cannot be multiplied
  std::vector<std::vector<int64_t>> multiply;
  std::vector<int64_t> least;
  int64_t plans = 0;  // that were tried

  explicit BruteForce(const MatmulProblem& p)
      : a("[I, J]", {{p.I, p.J}, p.dtype}, p.mesh),
        b("[J, K]", {{p.J, p.K}, p.dtype}, p.mesh),
        c("[I, K]", {{p.I, p.K}, p.dtype}, p.mesh) {
    for (const Spread& left : a.spreads) {
      product.emplace_back(), multiply.emplace_back();
      for (const Spread& right : b.spreads) {
        const LocalProduct local = product_of(left, right);
        const bool can = local.which == 1 || local.which == 3;
        product.back().push_back(can ? c.index.at(str(local.result)) : -1);
        multiply.back().push_back(ticks_of(multiply_seconds(p, left, right), links));
      }
    }
  }
  void walk_c(int at, int64_t ticks, int left) {
    ++plans;
    least[static_cast<size_t>(at)] = std::min(least[static_cast<size_t>(at)], ticks);
    if (left == 0) return;
    for (const Table::Edge& edge : c.edges[static_cast<size_t>(at)])
      walk_c(edge.to, ticks + edge.ticks, left - 1);
  }
  void walk_b(int at_a, int at, int64_t ticks, int left) {
    const auto i = static_cast<size_t>(at_a), j = static_cast<size_t>(at);
    if (product[i][j] >= 0) walk_c(product[i][j], ticks + multiply[i][j], left);
    if (left == 0) return;
    for (const Table::Edge& edge : b.edges[j]) walk_b(at_a, edge.to, ticks + edge.ticks, left - 1);
  }
  void walk_a(int at, int at_b, int64_t ticks, int left) {
    walk_b(at, at_b, ticks, left);
    if (left == 0) return;
    for (const Table::Edge& edge : a.edges[static_cast<size_t>(at)])
      walk_a(edge.to, at_b, ticks + edge.ticks, left - 1);
  }
  const std::vector<int64_t>& run(int from_a, int from_b, int most) {
    least.assign(c.spreads.size(), INT64_MAX);
    walk_a(from_a, from_b, 0, most);
    return least;
  }
};

int64_t ticks_in(const MatmulPlan& plan) {
  return plan.cost.ticks + ticks_of(plan.multiplying, links);
}

// The chooser against brute force for pairs of spreads, with every spread of C that is asked for.
int64_t compare(const MatmulProblem& problem, int most, bool every_end,
                const std::function<bool(const Spread&, const Spread&)>& wanted_pair) {
  MatmulPlanner planner(problem);
  BruteForce brute(problem);
  int64_t pairs = 0;
  for (size_t i = 0; i < brute.a.spreads.size(); ++i)
    for (size_t j = 0; j < brute.b.spreads.size(); ++j) {
      const Spread &a = brute.a.spreads[i], &b = brute.b.spreads[j];
      if (!wanted_pair(a, b)) continue;
      const std::vector<int64_t>& least = brute.run(static_cast<int>(i), static_cast<int>(j), most);
      int64_t any = INT64_MAX;
      for (size_t c = 0; c < least.size(); ++c) {
        const Spread& end = brute.c.spreads[c];
        if (end.unreduced.empty()) any = std::min(any, least[c]);
        if (!every_end || !end.unreduced.empty() || least[c] == INT64_MAX) continue;
        const int64_t chosen = ticks_in(planner.choose(a, b, end, most));
        if (chosen != least[c])
          FAIL_CHECK(fmt::format("{} {} to {}: {}, brute force {}", str(a), str(b), str(end),
                                 chosen, least[c]));
      }
      if (any == INT64_MAX) continue;
      ++pairs;
      const int64_t chosen = ticks_in(planner.choose(a, b, {}, most));
      if (chosen != any)
        FAIL_CHECK(fmt::format("{} {}: {}, brute force {}", str(a), str(b), chosen, any));
      if (ticks_in(planner.choose(a, b)) > chosen) FAIL_CHECK("more steps cost more");
    }
  return pairs;
}

}  // namespace

TEST_CASE("the chooser equals brute force over all plans of up to 4 steps: one axis") {
  for (int size = 1; size <= 8; ++size)
    for (const double flops : {0.0, 200e12}) {
      const NamedMesh mesh{{{'X', size}}};
      for (const MatmulProblem& problem :
           {MatmulProblem{4096, 512, 2048, DType::bf16, mesh, links, flops},
            MatmulProblem{64, 8192, 512, DType::bf16, mesh, links, flops},
            MatmulProblem{7, 5, 3, DType::f32, mesh, links, flops}})
        CHECK(compare(problem, 4, true, [](auto&, auto&) { return true; }) >= 16);
    }
}

TEST_CASE("the chooser equals brute force over all plans of up to 4 steps: two axes") {
  for (const char* text : {"X 2, Y 2", "X 2, Y 3", "X 3, Y 2", "X 2, Y 4", "X 4, Y 2"}) {
    const NamedMesh mesh = parse_mesh(text);
    const MatmulProblem problem{4096, 512, 2048, DType::bf16, mesh, links, 0};
    CHECK(compare(problem, 4, true, [](auto&, auto&) { return true; }) == 18 * 18);
  }
  const MatmulProblem timed{96, 512, 64, DType::bf16, parse_mesh("X 2, Y 2"), links, 200e12};
  CHECK(compare(timed, 4, true, [](auto&, auto&) { return true; }) == 18 * 18);
}

TEST_CASE("the chooser equals brute force over all plans of up to 4 steps: three axes") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2, Z 2");
  const MatmulProblem problem{4096, 512, 2048, DType::bf16, mesh, links, 0};
  CHECK(compare(problem, 4, false, [](const Spread& a, const Spread& b) {
          return a.unreduced.empty() && b.unreduced.empty();
        }) == 49 * 49);
}

TEST_CASE("the chooser equals brute force: three axes, and inputs that are unreduced") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2, Z 2");
  const MatmulProblem problem{4096, 512, 2048, DType::bf16, mesh, links, 200e12};
  int64_t unreduced = 0,
          chosen = 0;  // of 92 x 92 pairs all but 49 x 49; in the short form a sample
  const int64_t compared = compare(problem, 4, long_form(), [&](const Spread& a, const Spread& b) {
    if (a.unreduced.empty() && b.unreduced.empty()) return false;
    const bool wanted = long_form() || unreduced % 53 == 0;
    ++unreduced, chosen += wanted;
    return wanted;
  });
  CHECK(unreduced == 92 * 92 - 49 * 49);
  CHECK(compared == chosen);
}

TEST_CASE("plans with data equal the serial product, for sizes that do not divide") {
  for (const char* text : {"X 1", "X 2", "X 3", "X 2, Y 2", "X 2, Y 4", "X 2, Y 2, Z 2"}) {
    const NamedMesh mesh = parse_mesh(text);
    const Tensor a = normal_numbers({5, 7}, "a"), b = normal_numbers({7, 6}, "b");
    const Tensor c = local_matmul(a, b);
    MatmulPlanner planner({5, 7, 6, DType::f64, mesh, links, 1e9});
    std::vector<MatmulPlan> plans;
    size_t next = 0;  // takes a part of the pairs, if there are many
    const auto of_a = all_spreads("[I, J]", mesh), of_b = all_spreads("[J, K]", mesh);
    const size_t stride = of_a.size() > 20 ? 41 : 1;
    for (; next < of_a.size() * of_b.size(); next += stride)
      plans.push_back(planner.choose(of_a[next / of_b.size()], of_b[next % of_b.size()]));
    const auto reports = run_ranks(ranks_of(mesh), [&](Communicator& world) {
      AxisGroups groups(world, mesh);
      for (const MatmulPlan& plan : plans) {
        const ShardedMatrix left = part_of(a, plan.a, groups), right = part_of(b, plan.b, groups);
        check_part(run_plan(plan, left, right, groups), plan.c, c, groups);
      }
    });
    CHECK(static_cast<int>(reports.size()) == ranks_of(mesh));
  }
}

TEST_CASE("which is cheaper: gather an input, or reduce the result") {
  const NamedMesh mesh = parse_mesh("X 4");
  const auto plan = [&](int64_t I, int64_t J, int64_t K, const char* a, const char* b) {
    MatmulPlanner planner({I, J, K, DType::bf16, mesh, links, 0});
    const MatmulPlan chosen = planner.choose(parse_spread(a, mesh), parse_spread(b, mesh));
    std::string text;
    for (const auto& [matrix, steps] :
         {std::pair{"A", chosen.of_a}, {"B", chosen.of_b}, {"C", chosen.of_c}})
      for (const Step& step : steps) text += fmt::format("{} {}; ", matrix, name(step.move));
    return text + str(chosen.c);
  };
  // Case 2: A is I x J, C is I x K.
  CHECK(plan(1024, 512, 4096, "[I, J_X]", "[J, K]") == "A all_to_all; [I_X, K]");
  CHECK(plan(1024, 65536, 512, "[I, J_X]", "[J, K]") == "B slice; C reduce_scatter; [I_X, K]");
  // Case 3: one reduce_scatter. Case 4: the cheaper one moves its axis away.
  CHECK(plan(1024, 4096, 1024, "[I, J_X]", "[J_X, K]") == "C reduce_scatter; [I_X, K]");
  CHECK(plan(1024, 4096, 512, "[I_X, J]", "[J, K_X]") == "B all_gather; [I_X, K]");
}

TEST_CASE("a plan is printed; what cannot be reached is refused") {
  const NamedMesh mesh = parse_mesh("X 4");
  MatmulPlanner planner({1024, 4096, 2048, DType::bf16, mesh, links, 197e12});
  const Spread a = parse_spread("[I, J_X]", mesh), b = parse_spread("[J_X, K]", mesh);
  const MatmulPlan plan = planner.choose(a, b, parse_spread("[I, K]", mesh));
  CHECK(str(plan, planner.problem()) ==
        "   multiply           [I, J_X] [J_X, K] -> [I, K]{U_X}   21.80 us\n"
        "C  all_reduce X       [I, K]{U_X}    -> [I, K]            6291456 bytes     93.21 us\n");
  CHECK(contains(message_of([&] { planner.choose(a, b, parse_spread("[I, K]", mesh), 0); }),
                 "no plan of at most 0 steps multiplies [I, J_X] by [J_X, K] to [I, K]"));
  CHECK(contains(message_of([&] { planner.choose(b, a); }),
                 "[J_X, K] is not a spread of this tensor"));
}
