// Resharding: from any spread of a tensor to any other, by the cheapest steps.
//
//     A[I_XY, J] to A[I, J_X]
//
//     by hand       all_gather XY    [I_XY, J] -> [I, J]        the whole of A on every rank
//                   slice X          [I, J]    -> [I, J_X]
//
//     cheapest      all_gather Y     [I_XY, J] -> [I_X, J]      a part of A
//                   all_to_all X     [I_X, J]  -> [I, J_X]      a quarter of a gather of that
//
// The search: every spread is a node and every step (reshard_steps.hpp) an edge with its time; the
// plan is the shortest path (spreads/spread_graph.hpp). Two dims over three axes have 92 spreads.
// Contract: what is asked for may be unreduced only over axes over which the tensor is already. A
// plan's costs are those of rank 0, which holds the longest parts.
// Reference: Rink et al. (2022), "Memory-efficient array redistribution through portable
// collective communication".
#pragma once

#include <string>
#include <vector>

#include "yotta/sharding/reshard_steps.hpp"
#include "yotta/sharding/spreads/spread_graph.hpp"

namespace yotta {

struct ReshardPlan {
  Spread from;
  std::vector<Step> steps;
  StepCost cost;
};
// One line per step: the matrix, the move, its axes, the spreads before and after, bytes and
// microseconds. A plan ends with the sum.
inline std::string lines_of(std::string_view matrix, const Spread& from,
                            const std::vector<Step>& steps, const WholeTensor& whole,
                            const NamedMesh& mesh, TorusLinks links) {
  std::string text;
  Spread at = from;
  for (const Step& step : steps) {
    const Spread next = after(at, step);
    const StepCost cost = cost_of(step, at, whole, mesh, links);
    text += fmt::format("{:<2} {:<18} {:<14} -> {:<14} {:>10} bytes {:>9.2f} us\n", matrix,
                        fmt::format("{} {}", name(step.move), step.axes), str(at), str(next),
                        cost.bytes, 1e6 * cost.seconds);
    at = next;
  }
  return text;
}
inline std::string str(const ReshardPlan& plan, const WholeTensor& whole, const NamedMesh& mesh,
                       TorusLinks links) {
  return lines_of("", plan.from, plan.steps, whole, mesh, links) +
         fmt::format("   {:<51}{:>10} bytes {:>9.2f} us\n",
                     plan.steps.empty() ? "nothing to do" : "in all", plan.cost.bytes,
                     1e6 * plan.cost.seconds);
}

// The plan of the least time; of several the one of the fewest bytes, then of the fewest steps.
// Errors: `to` is unreduced over an axis over which `from` is not.
inline ReshardPlan cheapest_reshard(const Spread& from, const Spread& to, const WholeTensor& whole,
                                    const NamedMesh& mesh, TorusLinks links,
                                    Where where = Where::current()) {
  expect_spread(from, mesh, where), expect_spread(to, mesh, where);
  if (const std::string undone = without(to.unreduced, from.unreduced); !undone.empty())
    fail(where,
         "{} to {}: a sum over {} is asked for in parts, but it is not in parts now. Ask for {} "
         "summed, or make the parts by a product",
         str(from), str(to), undone, undone);
  SpreadGraph graph(from, whole, mesh, links);
  return {from, graph.steps(graph.index_of(from, where), graph.index_of(to, where)),
          graph.cost(graph.index_of(from, where), graph.index_of(to, where))};
}

// Runs such steps on data. All ranks of the mesh call.
inline ShardedMatrix resharded(ShardedMatrix x, const std::vector<Step>& steps, AxisGroups& groups,
                               Where where = Where::current()) {
  for (const Step& step : steps) x = run_step(x, step, groups, where);
  return x;
}

}  // namespace yotta
