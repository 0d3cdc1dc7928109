// Group network: what a group of ranks sees of a cluster: how many share a node, a rack, a pod,
// and over which links they reach the others.
//
//     nodes of 8         chips of a group       in a node     to all      cards of a node at work
//                        0 1 2 ... 15           8, NVLink     16, cards   8
//                        0 4 8 12               2, NVLink     4, cards    2: the group's own
//                        0 8 16 24              1             4, cards    1
//                        0 1 2 3                4, NVLink     -           0
//
// A chip has a network card of its own (clock.hpp), so a group of which g ranks are in a node has g
// cards there. Ranks of other groups in that node have theirs. So groups of one axis of a mesh, all
// at work at once, do not slow each other.
//
// Ranks are counted by levels only if they fill them evenly: in the order of the group as many
// ranks follow each other in each node. A group that does not (6 ranks in one node and 2 in the
// next) has one level: all its ranks, over the slowest link that any two of them have. So has a
// group on a torus.
// Letters: p ranks of a group, g of them in a node.
#pragma once

#include "yotta/machine/cluster.hpp"

namespace yotta {

// So many ranks, that follow each other in a group, reach each other over this link.
struct GroupLevel {
  int ranks = 1;
  Link link;

  bool operator==(const GroupLevel&) const = default;
};

struct GroupNetwork {
  int p = 1;
  Link link = {};                      // the slowest that two of its ranks have
  double gamma = 0;                    // seconds per byte reduced inside a collective
  std::vector<GroupLevel> inner = {};  // of fewer ranks, the fewest first: a node's, a rack's

  // The port that is busy when the group's slowest link is: 0 into the node, 1 out of it.
  int port() const { return link.level > 0 ? 1 : 0; }
  // Ranks in a node: g. 1: each has a node of its own, or the nodes are not filled evenly.
  int node() const {
    if (port() == 0) return p;
    return !inner.empty() && inner.front().link.level == 0 ? inner.front().ranks : 1;
  }
  bool operator==(const GroupNetwork&) const = default;
};

namespace detail {

// The network of p ranks, of which ranks_inside(level) follow each other in a group of that level;
// 1 also stands for "not evenly".
template <class RanksInside>
GroupNetwork network_of_levels(const Cluster& cluster, int p, RanksInside ranks_inside) {
  GroupNetwork network{p, {}, cluster.gamma};
  int within = 1;
  for (size_t i = 0; i < cluster.levels.size() && within < p; ++i) {
    const int ranks = ranks_inside(cluster.levels[i].chips);
    if (ranks <= within) continue;
    const Link link{cluster.levels[i].alpha, cluster.levels[i].beta, static_cast<int>(i)};
    if (ranks < p) network.inner.push_back({ranks, link});
    if (ranks == p) network.link = link;
    within = ranks;
  }
  return network;
}

// How many of the listed chips follow each other in one group of `size` chips, if as many do in
// every group that the list enters; else 1.
inline int run_inside(std::span<const int> chips, int size) {
  size_t run = 1;
  while (run < chips.size() && chips[run] / size == chips[0] / size) ++run;
  if (chips.size() % run != 0) return 1;
  for (size_t i = run; i < chips.size(); ++i) {
    const bool begins = i % run == 0;
    if ((chips[i] / size != chips[i - 1] / size) != begins) return 1;
  }
  return static_cast<int>(run);
}

}  // namespace detail

// The network of ranks on these chips, in their order. Errors: the cluster has no such chip.
inline GroupNetwork group_network(const Cluster& cluster, std::span<const int> chips,
                                  Where where = Where::current()) {
  const int p = static_cast<int>(chips.size());
  for (const int chip : chips) cluster.link(chips[0], chip, where);
  if (cluster.torus.empty() || p == 1)
    return detail::network_of_levels(cluster, p,
                                     [&](int size) { return detail::run_inside(chips, size); });
  GroupNetwork ring{p, {}, cluster.gamma};
  for (size_t i = 0; i < chips.size(); ++i) {
    const Link next = cluster.link(chips[i], chips[(i + 1) % chips.size()], where);
    if (next.alpha >= ring.link.alpha) ring.link = next;
  }
  return ring;
}

// `count` chips, `stride` apart.
struct ChipAxis {
  int stride = 1, count = 1;
};

// The network of a group along some axes of a mesh of `ranks` ranks, the axis of neighbours first:
// strides are products of the sizes of the axes before. All groups along those axes have it, or a
// better one. Contract: a cluster with switches, rank r on chip r.
inline GroupNetwork group_network(const Cluster& cluster, std::span<const ChipAxis> axes,
                                  int64_t ranks) {
  int p = 1;
  for (const ChipAxis& axis : axes) p *= axis.count;
  return detail::network_of_levels(cluster, p, [&](int size) {
    if (ranks <= size) return p;
    int inside = 1;
    for (const auto& [stride, count] : axes) {
      const int64_t reach = int64_t{1} * stride * count;
      if (count == 1 || stride % size == 0) continue;  // one in each
      if (size % reach == 0)
        inside *= count;
      else if (size % stride == 0 && reach % size == 0)
        inside *= size / stride;
      else
        return 1;
    }
    return inside;
  });
}

}  // namespace yotta
