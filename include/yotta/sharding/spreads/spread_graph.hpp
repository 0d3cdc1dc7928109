// The graph of all spreads of a tensor: nodes are spreads, edges are steps with their cost, and a
// plan is the cheapest path.
//
// reached(from)[k][to] is the cheapest way from one spread to another in at most k steps: round k
// tries to make each way of round k - 1 longer by one step (Bellman and Ford). Rounds end when
// nothing gets cheaper. Both kinds of question come from it: the cheapest plan at all, and the
// cheapest of at most k steps. Ways from a spread are computed when they are first asked for.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "yotta/sharding/reshard_steps.hpp"

namespace yotta {

class SpreadGraph {
 public:
  struct Way {
    bool exists = false;
    StepCost cost;
    int steps = 0;
    int previous = -1, edge = -1;  // the node before, and its edge here; -1: this is the start

    auto rank() const { return std::tuple(cost.ticks, cost.bytes, steps); }
    bool is_better_than(const Way& other) const {
      return exists && (!other.exists || rank() < other.rank());
    }
  };
  using Round = std::vector<Way>;  // by node

  // like: a spread with the tensor's dims.
  SpreadGraph(const Spread& like, const WholeTensor& whole, const NamedMesh& mesh,
              TorusLinks links);

  const std::vector<Spread>& nodes() const { return nodes_; }
  int index_of(const Spread& spread, Where where = Where::current()) const;

  // By the most steps, from 0 on; what is beyond the last round is as in the last.
  const std::vector<Round>& reached(int from);
  const Way& way(int from, int to, int most_steps = 1 << 20);
  StepCost cost(int from, int to) { return way(from, to).cost; }
  std::vector<Step> steps(int from, int to, int most_steps = 1 << 20);

 private:
  struct Edge {
    int to;
    Step step;
    StepCost cost;
  };
  void add_nodes(Spread spread, size_t axis, const NamedMesh& mesh);
  Round longer_by_one(const Round& before) const;

  std::vector<Spread> nodes_;
  std::map<std::string, int> index_;  // by the spread's text
  std::vector<std::vector<Edge>> edges_;
  std::map<int, std::vector<Round>> reached_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/sharding/spreads/impl/spread_graph.ipp"
#endif
