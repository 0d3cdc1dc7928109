// Gradient groups: who is in a rank's groups on a mesh, over which links they talk, and which of
// them add up a parameter's gradient.
//
//     tp 2, cp 2, pp 2, dp 2                  rank = tp + 2 (cp + 2 (pp + 2 dp)), tp innermost
//
//         node 0   0 1 2 3 4 5 6 7            of rank 0:  tp 0, 1    pp 0, 4
//         node 1   8 9 ...      15                        cp 0, 2    dp 0, 8
//
// A rank has computed a gradient from its own tokens and its own piece of the tensor. What the
// other ranks along an axis have is one of four things:
//
//     alone   nothing of this parameter: one rank, or a stage of pp with other layers
//     piece   another piece of the tensor, with a gradient of its own
//     copy    the same gradient, computed from the same numbers
//     part    another part of the sum: of other tokens, or of another use of the parameter
//
//                                        tp       cp     pp      ep      dp, fsdp
//     a matrix that tp cuts              piece    part   alone   part    part
//
// (Lesson 26 prints the row of every parameter.) The ranks of ep train on other sequences, as those
// of dp do, and each holds other experts.
//
// Only parts are added up. Copies that are added up count p times; parts that are not leave each
// rank with a weight of its own, and nothing fails. With FSDP or ZeRO a rank keeps only its run of
// the sum: the collective is a reduce_scatter, over the same ranks.
//
// Contract: rank r of the mesh is chip r, and a cluster's levels are groups of neighbouring chips.
// References: Llama team (2024), 3.3.2 (the order of the axes); Narayanan et al. (2021), sections 3
// and 4 (tp inside a node; the embedding group).
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "yotta/comm/mesh.hpp"
#include "yotta/machine/cluster.hpp"
#include "yotta/nn/experts.hpp"
#include "yotta/nn/parameter.hpp"
#include "yotta/parallel/sequence_parallel.hpp"

namespace yotta {

// ---- who is in a rank's groups ----

using Coordinates = std::array<int, all_axes.size()>;  // by axis

// Where a rank is on each axis. Errors: no such rank.
inline Coordinates coordinates_of(const MeshShape& shape, int rank,
                                  Where where = Where::current()) {
  if (rank < 0 || rank >= shape.ranks())
    fail(where, "{} has ranks 0 to {}, not {}", describe(shape), shape.ranks() - 1, rank);
  Coordinates at = {};
  for (size_t i = 0; i < all_axes.size(); ++i) {
    at[i] = rank % shape[all_axes[i]];
    rank /= shape[all_axes[i]];
  }
  return at;
}
inline int rank_at(const MeshShape& shape, const Coordinates& at) {
  int rank = 0;
  for (size_t i = all_axes.size(); i-- > 0;) rank = rank * shape[all_axes[i]] + at[i];
  return rank;
}

// The ranks that differ from this one along these axes only, by number. Errors: no such rank.
inline std::vector<int> group_of(const MeshShape& shape, int rank, std::span<const Axis> axes,
                                 Where where = Where::current()) {
  const Coordinates own = coordinates_of(shape, rank, where);
  std::vector<int> group;
  for (int other = 0; other < shape.ranks(); ++other) {
    Coordinates at = coordinates_of(shape, other);
    for (const Axis axis : axes) at[static_cast<size_t>(axis)] = own[static_cast<size_t>(axis)];
    if (at == own) group.push_back(other);
  }
  return group;
}

// ---- what is added up, and over whom ----

enum class Along : uint8_t { alone, piece, copy, part };
constexpr const char* name(Along along) {
  constexpr const char* names[] = {"alone", "piece", "copy", "part"};
  return names[static_cast<int>(along)];
}

// How a model is spread, as far as gradients ask.
struct Spreading {
  MeshShape shape;
  bool shares_tokens = false;     // sequence parallelism, over tp
  std::string on_both_ends = {};  // the tied table's name, if several stages hold it; empty: none
  bool sharded = false;           // FSDP: over cp and dp_shard
  bool sharded_states = false;    // ZeRO-1 or 2: over cp, ep and dp_replicate
};

// What the ranks along an axis have of a parameter's gradient.
inline Along gradient_along(Axis axis, const Parameter& parameter, const Spreading& spread) {
  const bool is_cut = !parameter.range.is_whole();  // by tp
  const bool is_tied = parameter.name == spread.on_both_ends;
  Along along = Along::alone;
  if (spread.shape[axis] == 1) return along;
  if (axis == Axis::ep) return is_expert_parameter(parameter) ? Along::alone : Along::part;
  // tp cuts tensors or leaves them whole. cp and both dp give a rank other tokens; pp gives it
  // other layers, but for a tied table. sees_own_tokens(parameter) is for sequence parallelism.
  if (axis == Axis::tp) {
    const bool sums = spread.shares_tokens && sees_own_tokens(parameter);
    along = is_cut ? Along::piece : sums ? Along::part : Along::copy;
  } else if (axis == Axis::pp) {
    along = is_tied ? Along::part : Along::alone;
  } else {
    along = Along::part;
  }
  return along;
}

// The axes along which it is added up.
inline std::vector<Axis> summed_over(const Parameter& parameter, const Spreading& spread) {
  std::vector<Axis> axes;
  for (const Axis axis : all_axes)
    if (gradient_along(axis, parameter, spread) == Along::part) axes.push_back(axis);
  return axes;
}

// The axes of the communicators that a training step needs.
struct SumAxes {
  std::vector<Axis> shards;   // gradients, by FSDP
  std::vector<Axis> data;     // gradients, by DDP or ZeRO, but for experts'
  std::vector<Axis> experts;  // experts' gradients, by DDP or ZeRO
  std::vector<Axis> loss;     // of which pp's last stage alone has any
  std::vector<Axis> runs;     // along which ranks keep different runs of a parameter
  std::vector<Axis> squares;  // of gradients, for clipping: ranks that step other numbers
};
inline SumAxes sum_axes(const Spreading& spread) {
  SumAxes axes;
  axes.shards = {Axis::cp, Axis::dp_shard};
  axes.data = {Axis::dp_replicate};
  if (!spread.sharded) axes.data.insert(axes.data.begin(), Axis::cp);
  axes.loss = {Axis::cp, Axis::pp, Axis::dp_shard, Axis::dp_replicate};
  if (spread.sharded) axes.runs = axes.shards;
  if (spread.sharded_states) axes.runs = axes.data;
  axes.squares = {Axis::tp, Axis::pp};
  axes.squares.insert(axes.squares.end(), axes.runs.begin(), axes.runs.end());
  axes.experts = axes.data;
  if (spread.shape.ep == 1) return axes;
  for (std::vector<Axis>* each : {&axes.data, &axes.loss, &axes.squares}) each->push_back(Axis::ep);
  if (spread.sharded_states) axes.runs.push_back(Axis::ep);
  return axes;
}

// The loss of a step is the mean over its tokens. A rank weighs the losses of its own `tokens`, as
// many as any other rank has; the weighted losses are then added up over SumAxes::loss.
inline double loss_weight(const MeshShape& shape, int64_t tokens) {
  return 1 / static_cast<double>(tokens * shape.cp * shape.data_ranks());
}

// ---- over which links ----

using AxisOrder = std::array<Axis, all_axes.size()>;    // innermost first: all_axes, or another
using AxisBytes = std::array<double, all_axes.size()>;  // that a rank sends in a step, by axis

// The slowest link that any group along this axis has, if the axes are nested in this order.
inline Link slowest_link(const Cluster& cluster, const MeshShape& shape, Axis axis,
                         const AxisOrder& order = all_axes) {
  const int n = shape[axis];
  Link slowest;
  // Ranks of a group are `stride` apart, and its two ends have its slowest link.
  int stride = 1;
  for (size_t i = 0; order[i] != axis; ++i) stride *= shape[order[i]];
  const int ranks = static_cast<int>(shape.ranks());
  for (int first = 0; first < ranks; ++first) {
    if (first / stride % n != 0) continue;
    const Link link = cluster.link(first, first + (n - 1) * stride);
    if (link.level > slowest.level) slowest = link;
  }
  return slowest;
}

// What a rank's messages take, one after the other, over those links.
inline double seconds_of_order(const Cluster& cluster, const MeshShape& shape,
                               const AxisBytes& bytes, const AxisOrder& order) {
  double seconds = 0;
  for (const Axis axis : all_axes)
    seconds += bytes[static_cast<size_t>(axis)] * slowest_link(cluster, shape, axis, order).beta;
  return seconds;
}

// The order in which they take least, of all orders of the axes that have several ranks; the first
// of equals in the order of all_axes.
inline AxisOrder best_order(const Cluster& cluster, const MeshShape& shape,
                            const AxisBytes& bytes) {
  std::vector<Axis> moved;  // an axis of one rank can stand anywhere
  for (const Axis axis : all_axes)
    if (shape[axis] > 1) moved.push_back(axis);
  AxisOrder best = all_axes;
  double least = seconds_of_order(cluster, shape, bytes, best);
  while (std::next_permutation(moved.begin(), moved.end())) {
    AxisOrder order = all_axes;
    auto next = moved.begin();
    for (Axis& axis : order)
      if (shape[axis] > 1) axis = *next++;
    const double seconds = seconds_of_order(cluster, shape, bytes, order);
    if (seconds < least) least = seconds, best = order;
  }
  return best;
}

namespace detail {
// Do the groups along an axis fill groups of `size` chips evenly? A group lies in one of those, has
// one rank in each, or fills several of them, as no pipeline may: its messages go one by one.
inline bool fills_evenly(const MeshShape& shape, Axis axis, int size) {
  const int64_t apart = stride(shape, axis), reach = apart * shape[axis];
  if (shape[axis] == 1 || apart % size == 0 || size % reach == 0) return true;
  return axis != Axis::pp && size % apart == 0 && reach % size == 0;
}
// The chips of the axes, from the innermost on, that fit into groups of `size` chips.
inline int fitting(const MeshShape& shape, int size) {
  int chips = 1;
  for (const Axis axis : all_axes)
    if (const int64_t reach = int64_t{1} * stride(shape, axis) * shape[axis]; size % reach == 0)
      chips = static_cast<int>(reach);
  return chips;
}
}  // namespace detail

// A cluster on which all groups along an axis have the same network, that of the slowest of them,
// so that its ranks can be mirrored. A node, a rack or a pod that an axis does not fill evenly is
// as small there as the axes inside. Errors: a torus.
inline Cluster as_seen_by(const MeshShape& shape, const Cluster& cluster,
                          Where where = Where::current()) {
  if (!cluster.torus.empty())
    fail(where, "{} is a torus: its links have no levels that axes of a mesh could fill",
         cluster.name);
  Cluster seen{cluster.name, cluster.chip, {}, {}, cluster.gamma};
  for (Level level : cluster.levels) {
    const auto fills = [&](Axis axis) { return detail::fills_evenly(shape, axis, level.chips); };
    if (level.chips >= shape.ranks())
      level.chips = static_cast<int>(shape.ranks());
    else if (!std::all_of(all_axes.begin(), all_axes.end(), fills))
      level.chips = detail::fitting(shape, level.chips);
    if (level.chips > seen.size()) seen.levels.push_back(level);
  }
  return seen;
}

}  // namespace yotta
