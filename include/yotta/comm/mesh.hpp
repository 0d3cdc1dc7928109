// Mesh: the ranks as a box, with one axis for each way of splitting the work.
//
// One technique is seldom enough: tensor parallelism inside a node, pipelines between nodes, data
// parallelism over everything. A rank's number then stands for its coordinates. The innermost axis
// counts fastest, because neighbouring ranks share the fastest links:
//
//     tp 2, pp 2, dp_shard 2:   rank = tp + 2 (pp + 2 dp_shard)
//
//                             tp 0   tp 1
//         dp_shard 0   pp 0      0      1     <- mesh[Axis::tp] of ranks 0 and 1
//         dp_shard 0   pp 1      2      3
//         dp_shard 1   pp 0      4      5
//         dp_shard 1   pp 1      6      7
//                                |
//                                mesh[Axis::dp_shard] of ranks 0 and 4: the same place in the
//                                model, different sequences
//
// The communicator of some axes holds the ranks that differ from this one in those coordinates
// only. Axes, innermost first: tp splits inside a layer, cp the sequence, pp the stack of layers,
// ep the batch and the experts, dp_shard (FSDP) the batch and the weights, dp_replicate (DDP) the
// batch. ep, dp_shard and dp_replicate together are data parallelism.
// Contract: all ranks of the world make the mesh and its communicators, in the same order.
// Timelines call a communicator by the axes that it splits: "tp", "fsdp", "cp+dp".
// Reference: Llama team (2024), section 3.3.2: 4D parallelism ordered [TP, CP, PP, DP].
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "yotta/comm/communicator.hpp"

namespace yotta {

enum class Axis : uint8_t { tp, cp, pp, ep, dp_shard, dp_replicate };
inline constexpr std::array<Axis, 6> all_axes = {Axis::tp, Axis::cp,       Axis::pp,
                                                 Axis::ep, Axis::dp_shard, Axis::dp_replicate};
constexpr const char* name(Axis axis) {
  constexpr const char* names[] = {"tp", "cp", "pp", "ep", "dp_shard", "dp_replicate"};
  return names[static_cast<int>(axis)];
}
// As layouts are written: dp is DDP's axis, fsdp FSDP's.
constexpr const char* short_name(Axis axis) {
  return axis == Axis::dp_shard ? "fsdp" : axis == Axis::dp_replicate ? "dp" : name(axis);
}

// Ranks along each axis: {.tp = 2, .dp_shard = 4}.
struct MeshShape {
  int tp = 1, cp = 1, pp = 1, ep = 1, dp_shard = 1, dp_replicate = 1;

  constexpr int& operator[](Axis axis) { return this->*member(axis); }
  constexpr int operator[](Axis axis) const { return this->*member(axis); }
  // Ranks that train on different sequences, and ranks in all.
  constexpr int64_t data_ranks() const { return int64_t{1} * ep * dp_shard * dp_replicate; }
  constexpr int64_t ranks() const { return int64_t{1} * tp * cp * pp * data_ranks(); }
  constexpr bool operator==(const MeshShape&) const = default;

 private:
  static constexpr int MeshShape::*member(Axis axis) {
    switch (axis) {
      case Axis::tp: return &MeshShape::tp;
      case Axis::cp: return &MeshShape::cp;
      case Axis::pp: return &MeshShape::pp;
      case Axis::ep: return &MeshShape::ep;
      case Axis::dp_shard: return &MeshShape::dp_shard;
      case Axis::dp_replicate: break;
    }
    return &MeshShape::dp_replicate;
  }
};

// How far apart the numbers of two neighbours on an axis are: the product of the sizes further in.
constexpr int stride(const MeshShape& shape, Axis axis) {
  int product = 1;
  for (const Axis inner : all_axes)
    if (inner < axis) product *= shape[inner];
  return product;
}
constexpr int coordinate(const MeshShape& shape, int rank, Axis axis) {
  return rank / stride(shape, axis) % shape[axis];
}

// "tp 2 x fsdp 4": the axes that split something.
std::string describe(const MeshShape& shape);

// Throws unless the shape has exactly `ranks` ranks. The message suggests the nearest shape that
// has, among those that work.
using MeshWorks = std::function<bool(const MeshShape&)>;  // empty: every shape works
void expect_mesh(const MeshShape& shape, int ranks, Where where = Where::current(),
                 const MeshWorks& works = {});

// That nearest shape: it needs the fewest doublings and halvings of sizes in all. Among equals the
// outer axes change, because they are the cheapest to change.
std::optional<MeshShape> nearest_mesh(const MeshShape& wanted, int ranks,
                                      const MeshWorks& works = {});

class Mesh {
 public:
  Mesh(const Communicator& world, const MeshShape& shape, Where where = Where::current());
  // One live rank per stage of pp, at coordinate 0 of the other axes: `stages` are these, and stage
  // s is on chip s stride(shape, Axis::pp). The others are their images (Communicator::mirrored).
  static Mesh mirrored(const Communicator& stages, const MeshShape& shape,
                       Where where = Where::current());

  const MeshShape& shape() const { return shape_; }
  int size(Axis axis) const { return shape_[axis]; }
  int coordinate(Axis axis) const { return yotta::coordinate(shape_, rank_, axis); }

  // The ranks along one axis through this rank; one member where the size is 1.
  Communicator& operator[](Axis axis) { return axes_[static_cast<size_t>(axis)]; }
  // ep, dp_shard and dp_replicate as one: all ranks that train on different sequences.
  Communicator& dp() { return dp_; }
  Communicator& world() { return world_; }

  // The ranks that differ from this one only along these axes, by rank. All ranks of the world must
  // call. Of a mirrored mesh, where nothing can be summed, pp with other axes gives an empty one.
  Communicator along(std::span<const Axis> axes, Where where = Where::current()) const;
  Communicator along(std::initializer_list<Axis> axes, Where where = Where::current()) const {
    return along(std::span<const Axis>(axes.begin(), axes.size()), where);
  }

 private:
  Mesh(const Communicator& world, const MeshShape& shape, int rank, bool is_mirrored, Where where);
  std::string name_of(std::span<const Axis> axes) const;

  Communicator world_;
  MeshShape shape_;
  int rank_;          // of the whole mesh
  bool is_mirrored_;  // one live rank per stage
  std::array<Communicator, 6> axes_;
  Communicator dp_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/impl/mesh.ipp"
#endif
