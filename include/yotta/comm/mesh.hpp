// Mesh: the ranks as a box, with one axis for each way of splitting the work.
//
// One technique seldom suffices: tensor parallelism inside a node, pipelines between nodes, data parallelism
// over everything. Rank numbers are then coordinates, the innermost axis counted fastest, because
// neighbouring ranks share the fastest links:
//
//     tp 2, pp 2, dp_shard 2:   rank = tp + 2 (pp + 2 dp_shard)
//
//                             tp 0   tp 1
//         dp_shard 0   pp 0      0      1     <- mesh[Axis::tp] of ranks 0 and 1
//         dp_shard 0   pp 1      2      3
//         dp_shard 1   pp 0      4      5
//         dp_shard 1   pp 1      6      7
//                                |
//                                mesh[Axis::dp_shard] of ranks 0 and 4: the same place in the model,
//                                different sequences
//
// The communicator of some axes holds the ranks that differ from this one in those coordinates alone.
// Axes, innermost first: tp splits inside a layer, cp the sequence, pp the stack of layers, dp_shard (FSDP)
// the batch and the weights, dp_replicate (DDP) the batch.
// Contract: all ranks of the world make the mesh and its communicators, in the same order.
// Reference: Llama team (2024), section 3.3.2: 4D parallelism ordered [TP, CP, PP, DP].
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>

#include "yotta/comm/axis.hpp"
#include "yotta/comm/communicator.hpp"

namespace yotta {

enum class Axis : uint8_t { tp, cp, pp, dp_shard, dp_replicate };
inline constexpr std::array<Axis, 5> all_axes = {Axis::tp, Axis::cp, Axis::pp, Axis::dp_shard,
                                                 Axis::dp_replicate};
constexpr const char* name(Axis axis) {
  constexpr const char* names[] = {"tp", "cp", "pp", "dp_shard", "dp_replicate"};
  return names[static_cast<int>(axis)];
}
// As layouts are written: dp is DDP's axis, fsdp FSDP's.
constexpr const char* short_name(Axis axis) {
  return axis == Axis::dp_shard ? "fsdp" : axis == Axis::dp_replicate ? "dp" : name(axis);
}

// Ranks along each axis: {.tp = 2, .dp_shard = 4}.
struct MeshShape {
  int tp = 1, cp = 1, pp = 1, dp_shard = 1, dp_replicate = 1;

  constexpr int& operator[](Axis axis) { return this->*member(axis); }
  constexpr int operator[](Axis axis) const { return this->*member(axis); }
  // Ranks in all.
  constexpr int64_t ranks() const { return int64_t{1} * tp * cp * pp * dp_shard * dp_replicate; }
  constexpr bool operator==(const MeshShape&) const = default;

 private:
  static constexpr int MeshShape::*member(Axis axis) {
    switch (axis) {
      case Axis::tp: return &MeshShape::tp;
      case Axis::cp: return &MeshShape::cp;
      case Axis::pp: return &MeshShape::pp;
      case Axis::dp_shard: return &MeshShape::dp_shard;
      case Axis::dp_replicate: break;
    }
    return &MeshShape::dp_replicate;
  }
};

// How far apart two ranks are that are neighbours on an axis: the product of the sizes further in.
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
inline std::string describe(const MeshShape& shape) {
  std::string text;
  for (const Axis axis : all_axes)
    if (shape[axis] != 1)
      text += fmt::format("{}{} {}", text.empty() ? "" : " x ", short_name(axis), shape[axis]);
  return text.empty() ? "1 rank" : text;
}

// The shape of exactly `ranks` ranks that is nearest to `wanted`, of those that work: the fewest doublings and
// halvings of sizes in all. Among equals the outer axes change, which are the cheapest to change.
using MeshWorks = std::function<bool(const MeshShape&)>;  // empty: every shape does
inline std::optional<MeshShape> nearest_mesh(const MeshShape& wanted, int ranks,
                                             const MeshWorks& works = {}) {
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

// Throws unless the shape has exactly `ranks` ranks, and names the nearest that has, and works.
inline void expect_mesh(const MeshShape& shape, int ranks, Where where = Where::current(),
                        const MeshWorks& works = {}) {
  for (const Axis axis : all_axes)
    if (shape[axis] < 1)
      fail(where, "{} is {}; every axis has at least one rank", short_name(axis), shape[axis]);
  if (shape.ranks() == ranks) return;
  const std::optional<MeshShape> nearest = nearest_mesh(shape, ranks, works);
  fail(where,
       "{} makes {} ranks, but there are {}: the sizes of the axes multiply to the number of "
       "ranks. {}",
       describe(shape), shape.ranks(), ranks,
       nearest ? "The nearest that does: " + describe(*nearest)
               : fmt::format("No layout of {} ranks works here; take another number", ranks));
}

// "tp=2,dp=4" as a shape; dp and fsdp are short for dp_replicate and dp_shard. What is not named is 1. Of more
// ranks than an int counts there is no shape.
inline MeshShape parse_mesh(const std::string& text, Where where = Where::current()) {
  MeshShape shape;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::string word = item.substr(0, item.find('='));
    const std::string number = item.substr(std::min(word.size() + 1, item.size()));
    const auto known = std::find_if(all_axes.begin(), all_axes.end(), [&](Axis each) {
      return word == name(each) || word == short_name(each);
    });
    const bool is_number = !number.empty() && number.size() < 7 &&
                           number.find_first_not_of("0123456789") == std::string::npos;
    if (known == all_axes.end() || !is_number || std::stoi(number) < 1)
      fail(where,
           "'{}' is no axis and its size; a layout is written as in pp=2,tp=2, with the axes pp, "
           "dp, "
           "fsdp, cp, tp",
           item);
    if (shape[*known] != 1) fail(where, "{} is given twice in '{}'", word, text);
    shape[*known] = std::stoi(number);
    if (shape.ranks() > std::numeric_limits<int>::max())
      fail(where, "'{}' makes more than {} ranks", text, std::numeric_limits<int>::max());
    begin = end + 1;
  }
  return shape;
}

// Which rank has which coordinates, as a table: a column for each (cp, tp), a row for each of the rest. `word` names
// the axes.
inline std::string picture(const MeshShape& shape, const char* (*word)(Axis) = name) {
  const auto label = [&](int rank, bool inside) {
    std::string text;
    for (size_t i = all_axes.size(); i-- > 0;)
      if (const Axis axis = all_axes[i]; shape[axis] > 1 && (axis < Axis::pp) == inside)
        text += fmt::format("   {} {}", word(axis), coordinate(shape, rank, axis));
    return text;
  };
  const int columns = shape.tp * shape.cp, rows = static_cast<int>(shape.ranks()) / columns;
  const size_t left = label((rows - 1) * columns, false).size();
  const size_t wide = std::max<size_t>(label(columns - 1, true).size(), 7);
  std::string text(columns > 1 ? left : 0, ' ');  // a heading, if there is something to tell apart
  for (int c = 0; c < columns && columns > 1; ++c)
    text += fmt::format("{:>{}}", label(c, true), wide);
  for (int r = 0; r < rows; ++r) {
    text += fmt::format("{}{:<{}}", text.empty() ? "" : "\n", label(r * columns, false), left);
    for (int c = 0; c < columns; ++c) text += fmt::format("{:>{}}", r * columns + c, wide);
  }
  return text + "\n";
}

// How attention crosses cp: keys and values go round the ring, or heads are exchanged for tokens.
enum class ContextParallel : uint8_t { ring, ulysses };

// The axes that reach inside a layer. Empty ones stand for size 1: the serial layer.
struct LayerAxes {
  Communicator tp, cp;
  ContextParallel context = ContextParallel::ring;
};

class Mesh {
 public:
  Mesh(const Communicator& world, const MeshShape& shape, Where where = Where::current())
      : world_(world), shape_(shape) {
    expect_mesh(shape, world.size(where), where);
    for (const Axis axis : all_axes) axes_[static_cast<size_t>(axis)] = along({axis}, where);
    dp_ = along({Axis::dp_shard, Axis::dp_replicate}, where);
  }

  const MeshShape& shape() const { return shape_; }
  int size(Axis axis) const { return shape_[axis]; }
  int coordinate(Axis axis) const { return yotta::coordinate(shape_, world_.rank(), axis); }

  // The ranks along one axis through this rank; one member where the size is 1.
  Communicator& operator[](Axis axis) { return axes_[static_cast<size_t>(axis)]; }
  // dp_shard and dp_replicate as one: all that train on different sequences.
  Communicator& dp() { return dp_; }
  Communicator& world() { return world_; }
  LayerAxes layer_axes(ContextParallel context = ContextParallel::ring) {
    return {(*this)[Axis::tp], (*this)[Axis::cp], context};
  }

  // The ranks that differ from this one along these axes alone, by rank. All ranks of the world must call.
  Communicator along(std::initializer_list<Axis> axes, Where where = Where::current()) const {
    int inside = 0;  // what this rank's coordinates along them add to its number
    for (const Axis axis : axes) inside += coordinate(axis) * stride(shape_, axis);
    return world_.split(world_.rank() - inside, inside, where).named(name_of(axes));
  }

 private:
  // "tp", "cp+fsdp": the axes among these that split something; all, if none does.
  std::string name_of(std::initializer_list<Axis> axes) const {
    const auto add = [&](std::string name, Axis axis) {
      return name + (name.empty() ? "" : "+") + short_name(axis);
    };
    std::string all, split;
    for (const Axis axis : axes) {
      all = add(all, axis);
      if (size(axis) > 1) split = add(split, axis);
    }
    return split.empty() ? all : split;
  }

  Communicator world_;
  MeshShape shape_;
  std::array<Communicator, 5> axes_;
  Communicator dp_;
};

}  // namespace yotta
