// Plans for products of sharded matrices: which collectives, on which matrix, in which order.
//
//     A (I, J)  ──steps──►  A'  ┐
//                               ├── multiply ──►  C'  ──steps──►  C (I, K)
//     B (J, K)  ──steps──►  B'  ┘
//
// A planner knows the cheapest way of A to every spread, of B to every spread, and of C from every
// spread. It tries every pair A', B' that can be multiplied as it is (product_of, cases 1 and 3),
// and takes the cheapest sum of the three. So the answers of the four cases come out of one search:
//
//     J cut in A only      gather A, or slice B alike and reduce C: whichever is the smaller
//     X cuts I and K       gather A or B; or move X from I to J with an all_to_all, slice B alike,
//                          and reduce_scatter C
//
// Cost of a plan: the time of its collectives (torus_times.hpp) and, if the chip's FLOP/s are
// given, of the product on rank 0. Nothing overlaps. Of equal times the fewest bytes win, then the
// fewest steps.
// Reference: Austin et al. (2025), How to scale your model, "Sharded matrices"; Xu et al. (2021),
// GSPMD.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "yotta/core/matrix_view.hpp"
#include "yotta/sharding/resharding.hpp"
#include "yotta/sharding/spreads/boxes.hpp"
#include "yotta/sharding/spreads/spread_graph.hpp"

namespace yotta {

class SpreadGraph;

// A product of A (I, J) and B (J, K) on a machine.
struct MatmulProblem {
  int64_t I = 0, J = 0, K = 0;
  DType dtype = DType::bf16;
  NamedMesh mesh;
  TorusLinks links;
  double flops = 0;                                 // of a chip, FLOP/s; 0: computing takes no time
  std::vector<std::string> dims = {"I", "J", "K"};  // their names
};

struct MatmulPlan {
  Spread a, b;                         // before
  std::vector<Step> of_a, of_b, of_c;  // of C after the product
  Spread multiplied_a, multiplied_b, product, c;
  StepCost cost;           // of all steps
  double multiplying = 0;  // seconds of the product on rank 0
};

namespace detail {

inline Spread bare_spread(const std::string& first, const std::string& second) {
  return {{{first, ""}, {second, ""}}, ""};
}

}  // namespace detail

// One line per step, as str(ReshardPlan) has it, with the matrix in front and the product in
// between.
inline std::string str(const MatmulPlan& plan, const MatmulProblem& problem) {
  const auto lines = [&](const char* matrix, const Spread& from, const std::vector<Step>& steps,
                         int64_t rows, int64_t columns) {
    return lines_of(matrix, from, steps, {{rows, columns}, problem.dtype}, problem.mesh,
                    problem.links);
  };
  return lines("A", plan.a, plan.of_a, problem.I, problem.J) +
         lines("B", plan.b, plan.of_b, problem.J, problem.K) +
         fmt::format("   multiply           {} {} -> {}{}\n", str(plan.multiplied_a),
                     str(plan.multiplied_b), str(plan.product),
                     problem.flops > 0 ? fmt::format("   {:.2f} us", 1e6 * plan.multiplying) : "") +
         lines("C", plan.product, plan.of_c, problem.I, problem.K);
}

// The seconds of the product of what rank 0 holds; 0 if the chip has no FLOP/s.
inline double multiply_seconds(const MatmulProblem& problem, const Spread& a, const Spread& b) {
  if (problem.flops <= 0) return 0;
  const Shape left = held_shape({problem.I, problem.J}, a, problem.mesh, 0);
  const Shape right = held_shape({problem.J, problem.K}, b, problem.mesh, 0);
  return matmul_flops(left[0], right[1], left[1]) / problem.flops;
}

class MatmulPlanner {
 public:
  explicit MatmulPlanner(MatmulProblem problem) : problem_(std::move(problem)) {
    const auto graph = [&](size_t first, size_t second, int64_t rows, int64_t columns) {
      return std::make_unique<SpreadGraph>(
          detail::bare_spread(problem_.dims[first], problem_.dims[second]),
          WholeTensor{{rows, columns}, problem_.dtype}, problem_.mesh, problem_.links);
    };
    graph_a_ = graph(0, 1, problem_.I, problem_.J);
    graph_b_ = graph(1, 2, problem_.J, problem_.K);
    graph_c_ = graph(0, 2, problem_.I, problem_.K);
    list_pairs();
  }
  ~MatmulPlanner() = default;

  // The cheapest plan of at most `most_steps` steps. wanted: the spread of C; none: any that is not
  // unreduced. Errors: no plan of so few steps.
  MatmulPlan choose(const Spread& a, const Spread& b, const std::optional<Spread>& wanted = {},
                    int most_steps = 9, Where where = Where::current()) {
    const int from_a = graph_a_->index_of(a, where), from_b = graph_b_->index_of(b, where);
    const int to = wanted ? graph_c_->index_of(*wanted, where) : -1;
    std::optional<Choice> best;
    for (const Pair& pair : pairs_) try_pair(pair, from_a, from_b, to, most_steps, best);
    if (!best)
      fail(where, "no plan of at most {} steps multiplies {} by {} to {}", most_steps, str(a),
           str(b), wanted ? str(*wanted) : "what is reduced");
    return plan_of(*best, a, b, most_steps);
  }
  const MatmulProblem& problem() const { return problem_; }

 private:
  struct Pair {  // spreads of A and B that can be multiplied
    int a, b, c;
    int64_t ticks;
  };
  struct Choice {
    Pair pair{};
    int of_a = 0, of_b = 0, c = -1;  // steps at most; the spread of C at the end
    std::tuple<int64_t, int64_t, int> rank{};
  };
  void list_pairs() {
    for (size_t a = 0; a < graph_a_->nodes().size(); ++a)
      for (size_t b = 0; b < graph_b_->nodes().size(); ++b) {
        const Spread &left = graph_a_->nodes()[a], &right = graph_b_->nodes()[b];
        const LocalProduct product = product_of(left, right);
        if (product.which != 1 && product.which != 3) continue;
        pairs_.push_back({static_cast<int>(a), static_cast<int>(b),
                          graph_c_->index_of(product.result),
                          ticks_of(multiply_seconds(problem_, left, right), problem_.links)});
      }
  }

  // The spread in which C ends: `wanted`, or for -1 the cheapest that is not unreduced.
  int best_end(int from, int wanted, int most_steps) {
    if (wanted >= 0) return graph_c_->way(from, wanted, most_steps).exists ? wanted : -1;
    const auto [found, is_new] = ends_.try_emplace({from, most_steps}, -1);
    if (!is_new) return found->second;
    SpreadGraph::Way best;
    for (size_t c = 0; c < graph_c_->nodes().size(); ++c) {
      const SpreadGraph::Way& way = graph_c_->way(from, static_cast<int>(c), most_steps);
      if (!graph_c_->nodes()[c].unreduced.empty() || !way.is_better_than(best)) continue;
      best = way;
      found->second = static_cast<int>(c);
    }
    return found->second;
  }
  MatmulPlan plan_of(const Choice& best, const Spread& a, const Spread& b, int most_steps) {
    const Pair& pair = best.pair;
    const int from_a = graph_a_->index_of(a), from_b = graph_b_->index_of(b);
    const int left = most_steps - best.of_a - best.of_b;
    MatmulPlan plan;
    plan.a = a, plan.b = b;
    plan.of_a = graph_a_->steps(from_a, pair.a, best.of_a);
    plan.of_b = graph_b_->steps(from_b, pair.b, best.of_b);
    plan.of_c = graph_c_->steps(pair.c, best.c, left);
    plan.multiplied_a = graph_a_->nodes()[static_cast<size_t>(pair.a)];
    plan.multiplied_b = graph_b_->nodes()[static_cast<size_t>(pair.b)];
    plan.product = graph_c_->nodes()[static_cast<size_t>(pair.c)];
    plan.c = graph_c_->nodes()[static_cast<size_t>(best.c)];
    plan.cost = graph_a_->way(from_a, pair.a, best.of_a).cost +
                graph_b_->way(from_b, pair.b, best.of_b).cost +
                graph_c_->way(pair.c, best.c, left).cost;
    plan.multiplying = multiply_seconds(problem_, plan.multiplied_a, plan.multiplied_b);
    return plan;
  }

  // Shares the steps out among A, B and C in every way.
  void try_pair(const Pair& pair, int a, int b, int wanted, int most_steps,
                std::optional<Choice>& best) {
    for (int of_a = 0; of_a <= most_steps; ++of_a) {
      const SpreadGraph::Way& way_a = graph_a_->way(a, pair.a, of_a);
      if (!way_a.exists || way_a.steps < of_a) continue;  // with fewer steps it is just as good
      for (int of_b = 0; of_a + of_b <= most_steps; ++of_b) {
        const SpreadGraph::Way& way_b = graph_b_->way(b, pair.b, of_b);
        if (!way_b.exists || way_b.steps < of_b) continue;
        const int left = most_steps - of_a - of_b, c = best_end(pair.c, wanted, left);
        if (c < 0) continue;
        const SpreadGraph::Way& way_c = graph_c_->way(pair.c, c, left);
        const StepCost sum = way_a.cost + way_b.cost + way_c.cost;
        const std::tuple rank(sum.ticks + pair.ticks, sum.bytes, of_a + of_b + way_c.steps);
        if (!best || rank < best->rank) best = Choice{pair, of_a, of_b, c, rank};
      }
    }
  }

  MatmulProblem problem_;
  std::unique_ptr<SpreadGraph> graph_a_, graph_b_, graph_c_;
  std::vector<Pair> pairs_;
  std::map<std::pair<int, int>, int> ends_;  // what best_end has found, by start and most steps
};

// Runs a plan on data. All ranks of the mesh call.
inline ShardedMatrix run_plan(const MatmulPlan& plan, ShardedMatrix a, ShardedMatrix b,
                              AxisGroups& groups, Where where = Where::current()) {
  a = resharded(std::move(a), plan.of_a, groups, where);
  b = resharded(std::move(b), plan.of_b, groups, where);
  const ShardedMatrix c{
      local_matmul(a.local, b.local, where), plan.product, {a.whole[0], b.whole[1]}};
  return resharded(c, plan.of_c, groups, where);
}

}  // namespace yotta
