// What the graded cases of exercise 26 call. adapter.cpp fills it with one solution.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "course/cases/own_stack.hpp"
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
  Call<Coordinates(const MeshShape& shape, int rank)> coordinates;
  Call<std::vector<int>(const MeshShape& shape, int rank, const Axes& axes)> group;
  Call<std::string(Axis axis, const yotta::Parameter& parameter, const Spread& spread)> along;
  Call<Sums(const Spread& spread)> sums;
  Call<double(const MeshShape& shape, int64_t tokens)> loss_weight;
  Call<yotta::Link(const Cluster& cluster, const MeshShape& shape, Axis axis, const Order& order)>
      slowest_link;
  Call<double(const Cluster& cluster, const MeshShape& shape, const Bytes& bytes,
              const Order& order)>
      seconds;
};
extern const Solution solution;

}  // namespace exercise
