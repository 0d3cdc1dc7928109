// The steps of which resharding is made: what each does, what it sends, and how long it takes.
//
//     A[I_X, J] ──► A[I, J_X] on four ranks
//
//     all_gather, then a slice                 all_to_all
//     r0 │ 0 0 0 0       0 0 0 0 ┐             r0 │ 0 0 0 0       0 1 2 3
//     r1 │ 1 1 1 1  ──►  1 1 1 1 │ on every    r1 │ 1 1 1 1  ──►  0 1 2 3  each rank keeps a
//     r2 │ 2 2 2 2       2 2 2 2 │ rank: it    r2 │ 2 2 2 2       0 1 2 3  block, and sends the
//     r3 │ 3 3 3 3       3 3 3 3 ┘ keeps a     r3 │ 3 3 3 3       0 1 2 3  other three
//                                  column
//
// all_to_all sends 1/p of the gather's bytes, and takes a quarter of its time on a ring with two
// directions (torus_times.hpp). The steps, on axes of p ranks in all, with N bytes per rank of what
// is not cut over them:
//
//     slice           [I, J]      -> [I_X, J]      nothing is sent
//     all_gather      [I_XY, J]   -> [I_X, J]      (p-1)/p N                 the last axes of a dim
//     all_to_all      [I_X, J]    -> [I, J_X]      (p-1)/p N/p               one axis, last in both
//     all_reduce      [I, J]{U_X} -> [I, J]        2 (p-1)/p N
//     reduce_scatter  [I, J]{U_X} -> [I_X, J]      (p-1)/p N
//
// Contract: run_step is called by all ranks of the mesh. Any sizes; a rank may hold nothing.
// Reference: Austin et al. (2025), How to scale your model, "Sharded matrices".
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "yotta/sharding/sharded_matrices.hpp"
#include "yotta/sharding/spreads/boxes.hpp"
#include "yotta/sharding/torus_times.hpp"

namespace yotta {

enum class Move : uint8_t { slice, all_gather, all_to_all, all_reduce, reduce_scatter };
constexpr const char* name(Move move) {
  constexpr const char* names[] = {"slice", "all_gather", "all_to_all", "all_reduce",
                                   "reduce_scatter"};
  return names[static_cast<int>(move)];
}

struct Step {
  Move move;
  std::string axes;
  int from = -1, to = -1;  // dims that lose and that gain the axes; -1: none

  bool operator==(const Step&) const = default;
};

// A tensor before it is cut.
struct WholeTensor {
  Shape shape;
  DType dtype = DType::bf16;
};

// What a step costs rank 0. Ticks are its time in whole numbers, so that plans compare exactly. One
// byte over one axis takes 60 ticks, so a byte over 2, 3 or 4 axes at once takes a whole number
// too.
struct StepCost {
  int64_t bytes = 0, ticks = 0;
  double seconds = 0;

  StepCost operator+(const StepCost& more) const {
    return {bytes + more.bytes, ticks + more.ticks, seconds + more.seconds};
  }
};
inline int64_t ticks_of(double seconds, TorusLinks links) {
  return std::llround(60 * seconds * links.both_ways);
}

namespace detail {

// The axes that stand nowhere in a spread.
inline std::string idle_axes(const Spread& spread, const NamedMesh& mesh) {
  std::string all;
  for (const MeshAxis& axis : mesh.axes) all += axis.name;
  return without(all, cutting_axes(spread) + spread.unreduced);
}

// Calls use(axes) for every order of every part of `axes` that is not empty.
template <class Use>
void each_selection(const std::string& axes, const std::string& chosen, Use use) {
  for (const char axis : axes) {
    use(chosen + axis);
    each_selection(without(axes, std::string(1, axis)), chosen + axis, use);
  }
}

}  // namespace detail

// Every step that can be taken from a spread, and where it leads.
inline std::vector<Step> steps_from(const Spread& spread, const NamedMesh& mesh) {
  std::vector<Step> steps;
  const int dims = static_cast<int>(spread.dims.size());
  const std::string idle = detail::idle_axes(spread, mesh);
  for (int d = 0; d < dims; ++d) {
    const std::string& axes = spread.dims[static_cast<size_t>(d)].axes;
    for (const char axis : idle) steps.push_back({Move::slice, std::string(1, axis), -1, d});
    for (size_t count = 1; count <= axes.size(); ++count)
      steps.push_back({Move::all_gather, axes.substr(axes.size() - count), d, -1});
    for (int other = 0; other < dims && !axes.empty(); ++other)
      if (other != d) steps.push_back({Move::all_to_all, axes.substr(axes.size() - 1), d, other});
    detail::each_selection(spread.unreduced, "", [&](const std::string& chosen) {
      steps.push_back({Move::reduce_scatter, chosen, -1, d});
    });
  }
  detail::each_selection(spread.unreduced, "", [&](const std::string& chosen) {
    if (std::is_sorted(chosen.begin(), chosen.end())) steps.push_back({Move::all_reduce, chosen});
  });
  return steps;
}
inline Spread after(const Spread& spread, const Step& step) {
  Spread result = spread;
  if (step.from >= 0) {
    std::string& axes = result.dims[static_cast<size_t>(step.from)].axes;
    axes.resize(axes.size() - step.axes.size());
  }
  if (step.to >= 0) result.dims[static_cast<size_t>(step.to)].axes += step.axes;
  result.unreduced = without(spread.unreduced, step.axes);
  return result;
}

namespace detail {

// A rank's place in its ring along these axes, and the next rank there.
inline std::pair<int64_t, int> place_and_next(const NamedMesh& mesh, const std::string& axes,
                                              int rank) {
  const std::vector<int> ring = members_along(mesh, axes, rank);
  const auto place = std::find(ring.begin(), ring.end(), rank) - ring.begin();
  return {place, ring[static_cast<size_t>(place + 1) % ring.size()]};
}

}  // namespace detail

// Bytes that a rank sends in a step, exactly: what the ledger counts.
inline int64_t bytes_sent(const Step& step, const Spread& before, const WholeTensor& whole,
                          const NamedMesh& mesh, int rank) {
  const Spread next = after(before, step);
  const auto held = [&](const Spread& spread, int of) {
    return held_bytes(whole.shape, whole.dtype, spread, mesh, of);
  };
  const int64_t n = axes_size(mesh, step.axes), width = bytes_of(whole.dtype);
  if (n == 1 || step.move == Move::slice) return 0;
  const int64_t all = held(before, rank);
  const auto [place, neighbour] = detail::place_and_next(mesh, step.axes, rank);
  if (step.move == Move::all_gather)  // all but the piece of the next in the ring
    return held(next, rank) - held(before, neighbour);
  if (step.move == Move::reduce_scatter) return all - held(next, rank);
  if (step.move == Move::all_reduce)
    return 2 * all - width * (chunk_count(all / width, n, place) +
                              chunk_count(all / width, n, (place + 1) % n));
  const Box kept =
      overlap(held_box(whole.shape, before, mesh, rank), held_box(whole.shape, next, mesh, rank));
  return all - width * product(shape_of(kept));
}
inline StepCost cost_of(const Step& step, const Spread& before, const WholeTensor& whole,
                        const NamedMesh& mesh, TorusLinks links) {
  std::vector<int> sizes;
  for (const char axis : step.axes) sizes.push_back(axis_size(mesh, axis));
  const auto held = [&](const Spread& spread) {
    return static_cast<double>(held_bytes(whole.shape, whole.dtype, spread, mesh, 0));
  };
  double seconds = 0;
  if (step.move == Move::all_gather)
    seconds = torus_gather_seconds(links, sizes, held(after(before, step)));
  if (step.move == Move::reduce_scatter) seconds = torus_gather_seconds(links, sizes, held(before));
  if (step.move == Move::all_reduce) seconds = torus_all_reduce_seconds(links, sizes, held(before));
  if (step.move == Move::all_to_all)
    seconds = torus_all_to_all_seconds(links, sizes[0], held(before) * sizes[0]);
  return {bytes_sent(step, before, whole, mesh, 0), ticks_of(seconds, links), seconds};
}

namespace detail {

inline ShardedMatrix exchanged(const ShardedMatrix& x, const Step& step, AxisGroups& groups,
                               Where where) {
  ShardedMatrix result = space_for(x, after(x.spread, step), groups);
  const Communicator& group = groups.along(step.axes);
  const Box from = held_box(x.whole, x.spread, groups.mesh(), groups.rank());
  const Box to = held_box(x.whole, result.spread, groups.mesh(), groups.rank());
  const DType type = x.local.dtype();
  const BoxPieces out = pieces_of(from, boxes_of(x, result.spread, group, groups), type);
  each_piece(out, [&](Tensor piece, const Box& box) { copy_overlap(x.local, from, piece, box); });
  BoxPieces in = pieces_of(to, boxes_of(x, x.spread, group, groups), type);
  group.all_to_all_v(in.numbers, in.counts, out.numbers, out.counts, {.label = "all_to_all"},
                     where);
  each_piece(
      in, [&](const Tensor& piece, const Box& box) { copy_overlap(piece, box, result.local, to); });
  return result;
}

}  // namespace detail

// A step with data.
inline ShardedMatrix run_step(const ShardedMatrix& x, const Step& step, AxisGroups& groups,
                              Where where = Where::current()) {
  const auto from = static_cast<size_t>(step.from), to = static_cast<size_t>(step.to);
  switch (step.move) {
    case Move::all_gather: return gathered(x, from, step.axes.size(), groups, where);
    case Move::all_reduce: return reduced(x, step.axes, groups, where);
    case Move::reduce_scatter: return scattered(x, step.axes, to, groups, where);
    case Move::all_to_all: return detail::exchanged(x, step, groups, where);
    case Move::slice: break;
  }
  const Spread next = after(x.spread, step);
  const auto box = [&](const Spread& s) {
    return held_box(x.whole, s, groups.mesh(), groups.rank());
  };
  return {part_of_box(x.local, box(x.spread), box(next)), next, x.whole};
}

}  // namespace yotta
