// AxisGroups: the communicators along the axes of a mesh with names.
//
//     {X 2, Y 2}: ranks 0 1 2 3 are (x, y) = (0, 0) (1, 0) (0, 1) (1, 1)
//
//     of rank 3     along X     2, 3        in the order of x
//                   along Y     1, 3        in the order of y
//                   along XY    0, 2, 1, 3  in the order of (x, y), x the outermost
//                   along YX    0, 1, 2, 3  in the order of (y, x)
//
// Member i of the group along XY holds part i of what I_XY cuts (spread.hpp): so a collective over
// that group puts its chunks into the right order by itself.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/sharding/spread.hpp"

namespace yotta {

// The ranks that differ from this one along these axes only, ordered by their coordinates: the
// first axis is the outermost. Errors: an axis that the mesh lacks.
inline std::vector<int> members_along(const NamedMesh& mesh, const std::string& axes, int rank) {
  std::vector<int> members = {rank};
  for (const char axis : axes) {
    const int size = axis_size(mesh, axis), here = coordinate(mesh, rank, axis);
    int stride = 1;
    for (size_t i = 0; mesh.axes[i].name != axis; ++i) stride *= mesh.axes[i].size;
    std::vector<int> more;
    for (const int member : members)
      for (int i = 0; i < size; ++i) more.push_back(member + (i - here) * stride);
    members = std::move(more);
  }
  return members;
}

// A mesh with a communicator for any axes of it. All ranks ask for the same ones in the same order.
class AxisGroups {
 public:
  AxisGroups(const Communicator& world, NamedMesh mesh, Where where = Where::current())
      : world_(world), mesh_(std::move(mesh)) {
    if (world.size(where) != ranks_of(mesh_))
      fail(where, "the mesh {} has {} ranks, but there are {}", str(mesh_), ranks_of(mesh_),
           world.size(where));
  }

  const NamedMesh& mesh() const { return mesh_; }
  int rank() const { return world_.rank(); }  // of the world: what held_range takes
  // Their communicator: member i holds part i of what I_XY cuts.
  const Communicator& along(const std::string& axes) {
    Communicator& group = made_[axes];
    if (group.is_member()) return group;
    const std::vector<int> members = members_along(mesh_, axes, rank());
    const auto place = std::find(members.begin(), members.end(), rank()) - members.begin();
    return group = world_.split(members[0], static_cast<int>(place)).named(axes);
  }

 private:
  Communicator world_;
  NamedMesh mesh_;
  std::map<std::string, Communicator> made_;
};

}  // namespace yotta
