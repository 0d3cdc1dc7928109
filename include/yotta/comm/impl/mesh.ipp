// The bodies of comm/mesh.hpp.
#pragma once

#include "yotta/comm/mesh.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace yotta {

YOTTA_INLINE Mesh::Mesh(const Communicator& world, const MeshShape& shape, Where where)
    : Mesh((expect_mesh(shape, world.size(where), where), world), shape, world.rank(), false,
           where) {}

YOTTA_INLINE Mesh Mesh::mirrored(const Communicator& stages, const MeshShape& shape, Where where) {
  if (stages.size(where) != shape.pp)
    fail(where, "{} needs {} live ranks, one per stage of pp, not {}", describe(shape), shape.pp,
         stages.size());
  return {stages, shape, stages.rank() * stride(shape, Axis::pp), true, where};
}

YOTTA_INLINE Mesh::Mesh(const Communicator& world, const MeshShape& shape, int rank,
                        bool is_mirrored, Where where)
    : world_(world), shape_(shape), rank_(rank), is_mirrored_(is_mirrored) {
  for (const Axis axis : all_axes) axes_[static_cast<size_t>(axis)] = along({axis}, where);
  // On a mirrored mesh nothing is sent over this communicator, so its links need not be equal.
  CostSink* const clock = std::exchange(context().clock, is_mirrored ? nullptr : context().clock);
  dp_ = along({Axis::ep, Axis::dp_shard, Axis::dp_replicate}, where);
  context().clock = clock;
}

YOTTA_INLINE Communicator Mesh::along(std::span<const Axis> axes, Where where) const {
  const bool has_pp = std::find(axes.begin(), axes.end(), Axis::pp) != axes.end();
  if (is_mirrored_ && has_pp && axes.size() > 1) return {};
  std::vector<int> members = {rank_};  // and its images
  int inside = 0;                      // what its coordinates along these axes add to its number
  for (const Axis axis : axes) {
    inside += coordinate(axis) * stride(shape_, axis);
    const size_t before = members.size();
    for (int i = 1; i < size(axis); ++i)
      for (size_t at = 0; at < before; ++at)
        members.push_back(members[at] + i * stride(shape_, axis));
  }
  std::sort(members.begin(), members.end());  // as split() orders them
  const bool are_alive = !is_mirrored_ || has_pp;
  const Communicator made = are_alive ? world_.split(rank_ - inside, inside, where)
                                      : world_.mirrored(std::move(members), where);
  return made.named(name_of(axes));
}

// "tp", "cp+fsdp": the axes that split something. If none does, all of them but ep, which only a
// mixture of experts has.
YOTTA_INLINE std::string Mesh::name_of(std::span<const Axis> axes) const {
  std::string all, split;
  const auto add = [](std::string& text, Axis axis) {
    text += fmt::format("{}{}", text.empty() ? "" : "+", short_name(axis));
  };
  for (const Axis axis : axes) {
    if (axis != Axis::ep || axes.size() == 1) add(all, axis);
    if (size(axis) > 1) add(split, axis);
  }
  return split.empty() ? all : split;
}

YOTTA_INLINE std::string describe(const MeshShape& shape) {
  std::string text;
  for (const Axis axis : all_axes)
    if (shape[axis] != 1)
      text += fmt::format("{}{} {}", text.empty() ? "" : " x ", short_name(axis), shape[axis]);
  return text.empty() ? "1 rank" : text;
}

YOTTA_INLINE std::optional<MeshShape> nearest_mesh(const MeshShape& wanted, int ranks,
                                                   const MeshWorks& works) {
  std::vector<int> divisors;
  for (int size = 1; int64_t{size} * size <= ranks; ++size)
    if (ranks % size == 0) divisors.insert(divisors.end(), {size, ranks / size});
  MeshShape tried;
  std::optional<MeshShape> best;
  double least = std::numeric_limits<double>::infinity();
  const std::function<void(size_t, int, double)> choose = [&](size_t at, int left, double sum) {
    for (const int size : divisors) {
      if (left % size != 0 || (at + 1 == all_axes.size() && size != left)) continue;
      const double price = 1.04 - 0.01 * static_cast<double>(at);
      const double change = std::abs(std::log2(static_cast<double>(size) / wanted[all_axes[at]]));
      const double total = sum + price * change;
      if (total >= least) continue;
      tried[all_axes[at]] = size;
      if (at + 1 < all_axes.size())
        choose(at + 1, left / size, total);
      else if (!works || works(tried))
        least = total, best = tried;
    }
  };
  choose(0, ranks, 0);
  return best;
}

YOTTA_INLINE void expect_mesh(const MeshShape& shape, int ranks, Where where,
                              const MeshWorks& works) {
  for (const Axis axis : all_axes)
    if (shape[axis] < 1)
      fail(where, "{} is {}; every axis has at least one rank", short_name(axis), shape[axis]);
  if (shape.ranks() == ranks) return;
  const std::optional<MeshShape> nearest = nearest_mesh(shape, ranks, works);
  const auto count = [](int64_t n) { return fmt::format("{} rank{}", n, n == 1 ? "" : "s"); };
  const std::string splits =
      shape.ranks() == 1 ? "a layout that splits nothing has " : describe(shape) + " makes ";
  const std::string other =
      works && works(shape) ? fmt::format("{} works on {}", describe(shape), count(shape.ranks()))
                            : "take another number";
  fail(where, "{}{}, but there {} {}: the sizes of the axes multiply to the number of ranks. {}",
       splits, count(shape.ranks()), ranks == 1 ? "is" : "are", ranks,
       nearest ? "The nearest that does: " + describe(*nearest)
               : fmt::format("No layout of {} works here; {}", count(ranks), other));
}

}  // namespace yotta
