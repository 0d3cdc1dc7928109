// The bodies of sharding/spreads/spread_graph.hpp.
#pragma once

#include "yotta/sharding/spreads/spread_graph.hpp"

#include <algorithm>

namespace yotta {

YOTTA_INLINE SpreadGraph::SpreadGraph(const Spread& like, const WholeTensor& whole,
                                      const NamedMesh& mesh, TorusLinks links) {
  Spread bare = like;
  bare.unreduced.clear();
  for (SpreadDim& dim : bare.dims) dim.axes.clear();
  add_nodes(bare, 0, mesh);
  for (const Spread& node : nodes_) {
    edges_.emplace_back();
    for (const Step& step : steps_from(node, mesh))
      edges_.back().push_back(
          {index_of(after(node, step)), step, cost_of(step, node, whole, mesh, links)});
  }
}

// Puts the axes from `axis` on wherever they can stand: nowhere, among the unreduced ones, or at
// any place among those of a dim.
YOTTA_INLINE void SpreadGraph::add_nodes(Spread spread, size_t axis, const NamedMesh& mesh) {
  if (axis == mesh.axes.size()) {
    std::sort(spread.unreduced.begin(), spread.unreduced.end());
    index_[str(spread)] = static_cast<int>(nodes_.size());
    nodes_.push_back(std::move(spread));
    return;
  }
  const char name = mesh.axes[axis].name;
  add_nodes(spread, axis + 1, mesh);
  Spread unreduced = spread;
  unreduced.unreduced += name;
  add_nodes(unreduced, axis + 1, mesh);
  for (size_t d = 0; d < spread.dims.size(); ++d)
    for (size_t place = 0; place <= spread.dims[d].axes.size(); ++place) {
      Spread cut = spread;
      cut.dims[d].axes.insert(place, 1, name);
      add_nodes(std::move(cut), axis + 1, mesh);
    }
}

YOTTA_INLINE int SpreadGraph::index_of(const Spread& spread, Where where) const {
  const auto found = index_.find(str(spread));
  if (found == index_.end()) fail(where, "{} is not a spread of this tensor", str(spread));
  return found->second;
}

YOTTA_INLINE SpreadGraph::Round SpreadGraph::longer_by_one(const Round& before) const {
  Round next = before;
  for (size_t node = 0; node < before.size(); ++node) {
    if (!before[node].exists) continue;
    for (size_t e = 0; e < edges_[node].size(); ++e) {
      const Edge& edge = edges_[node][e];
      const Way longer{true, before[node].cost + edge.cost, before[node].steps + 1,
                       static_cast<int>(node), static_cast<int>(e)};
      Way& best = next[static_cast<size_t>(edge.to)];
      if (longer.is_better_than(best)) best = longer;
    }
  }
  return next;
}

YOTTA_INLINE const std::vector<SpreadGraph::Round>& SpreadGraph::reached(int from) {
  std::vector<Round>& rounds = reached_[from];
  if (!rounds.empty()) return rounds;
  rounds.emplace_back(nodes_.size());
  rounds[0][static_cast<size_t>(from)].exists = true;
  for (bool better = true; better;) {
    Round next = longer_by_one(rounds.back());
    better = false;
    for (size_t to = 0; to < next.size(); ++to)
      better = better || next[to].is_better_than(rounds.back()[to]);
    if (better) rounds.push_back(std::move(next));
  }
  return rounds;
}

YOTTA_INLINE const SpreadGraph::Way& SpreadGraph::way(int from, int to, int most_steps) {
  const std::vector<Round>& rounds = reached(from);
  const size_t round = std::min(static_cast<size_t>(most_steps), rounds.size() - 1);
  return rounds[round][static_cast<size_t>(to)];
}

YOTTA_INLINE std::vector<Step> SpreadGraph::steps(int from, int to, int most_steps) {
  std::vector<Step> path;
  const Way* at = &way(from, to, most_steps);
  while (at->previous >= 0) {  // the way before was found one round earlier, or before that
    path.push_back(edges_[static_cast<size_t>(at->previous)][static_cast<size_t>(at->edge)].step);
    at = &way(from, at->previous, at->steps - 1);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace yotta
