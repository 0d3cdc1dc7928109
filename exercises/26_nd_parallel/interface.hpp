// What the graded cases of exercise 26 call. adapter.cpp fills it with one solution.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "yotta/comm/mesh.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/machine/cluster.hpp"
#include "yotta/parallel/sequence_parallel.hpp"

namespace exercise {

using yotta::Axis;
using yotta::Cluster;
using yotta::MeshShape;

using Axes = std::vector<Axis>;
using Coordinates = std::array<int, yotta::all_axes.size()>;
using Order = std::array<Axis, yotta::all_axes.size()>;
using Bytes = std::array<double, yotta::all_axes.size()>;

// As Spreading and SumAxes of the header, which each solution has for itself.
struct Spread {
  MeshShape shape;
  bool shares_tokens = false;
  std::string on_both_ends = {};
  bool sharded = false, sharded_states = false;
};
struct Sums {
  Axes data, experts, loss, runs, squares;
};

struct Solution {
  Coordinates (*coordinates)(const MeshShape& shape, int rank);
  std::vector<int> (*group)(const MeshShape& shape, int rank, const Axes& axes);
  std::string (*along)(Axis axis, const yotta::Parameter& parameter, const Spread& spread);
  Sums (*sums)(const Spread& spread);
  double (*loss_weight)(const MeshShape& shape, int64_t tokens);
  yotta::Link (*slowest_link)(const Cluster& cluster, const MeshShape& shape, Axis axis,
                              const Order& order);
  double (*seconds)(const Cluster& cluster, const MeshShape& shape, const Bytes& bytes,
                    const Order& order);
};
extern const Solution solution;

}  // namespace exercise
