// A torus's shape: which rank is where in which ring, and which part of an array lies where. What
// torus_rings.hpp runs on.
//
//     axes {4, 4}, 2 directions:   ring 0 axis 0 forward   ring 2 axis 1 forward
//                                  ring 1 axis 0 back      ring 3 axis 1 back
//
//     part 0:   phase 0 in ring 0, phase 1 in ring 2       a part takes another axis in each phase,
//     part 2:   phase 0 in ring 2, phase 1 in ring 0       so no ring ever has two parts
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "yotta/comm/data.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta {

using TorusCuts = std::vector<Data>;

// The lengths of a torus's axes, and the number of directions of its rings.
struct TorusShape {
  std::vector<int> axes;
  int directions = 2;

  int axis_count() const { return static_cast<int>(axes.size()); }
  int rings() const { return axis_count() * directions; }  // and parts
  int ranks() const { return stride(rings()); }

  // The ring of a part in a phase. Ring axis x directions + 0 goes forward, + 1 back.
  int ring(int part, int phase) const { return (part + phase * directions) % rings(); }
  // "axis 0", "axis 0 back"
  std::string name(int ring) const {
    return fmt::format("axis {}{}", ring / directions, ring % directions == 0 ? "" : " back");
  }
  int length(int ring) const { return axes[static_cast<size_t>(ring / directions)]; }
  // How far apart the numbers of two neighbours in a ring are.
  int stride(int ring) const {
    int product = 1;
    for (int axis = 0; axis < ring / directions; ++axis) product *= axes[static_cast<size_t>(axis)];
    return product;
  }
  // The place of a rank in a ring: its place on the axis, or counted the other way.
  int place(int ring, int rank) const {
    const int forward = rank / stride(ring) % length(ring);
    return ring % directions == 0 ? forward : (length(ring) - forward) % length(ring);
  }
  // Where a rank's chunk lies in a part: it is chunk number `slot` of p.
  int slot(int part, int rank) const {
    int found = 0;
    for (int phase = 0; phase < axis_count(); ++phase)
      found = found * length(ring(part, phase)) + place(ring(part, phase), rank);
    return found;
  }
  // Elements that a part holds of each chunk, for n elements in all.
  int64_t piece(int64_t n) const { return (chunk_count(n, ranks(), 0) + rings() - 1) / rings(); }

  // Part `part` of the array; what a rank is left with after one ring; after two; ...
  TorusCuts cuts(int rank, int part, Data whole) const;
  // What a part holds of a chunk, for n elements in all: nothing, if a short chunk ends before it.
  template <class AnyData>
  AnyData piece_of(AnyData chunk, int part, int64_t n) const {
    return chunk.part(std::min(part * piece(n), chunk.count),
                      std::min((part + 1) * piece(n), chunk.count));
  }
  // For each part, room for its pieces of all chunks. Zeros, since padding is added up too.
  std::vector<Tensor> buffers(ConstData like) const;
  // Throws unless `chunk` is as large as a rank's chunk of `all`, of its type and where it is.
  void expect_chunk(int rank, ConstData chunk, ConstData all, const char* name, Where where) const;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/layouts/impl/torus_shape.ipp"
#endif
