// The bodies of device/compile/interpreter.hpp.
#pragma once

#include "yotta/device/compile/interpreter.hpp"
//
#include <atomic>

#include "yotta/core/parallel_for.hpp"

namespace yotta {

namespace detail {

// One task: a row, or a piece of one.
template <class Real>
class TileRun {
 public:
  TileRun(const Graph& graph, const Walk& walk, const std::map<int, void*>& memory, Where where)
      : graph_(graph), walk_(walk), memory_(memory), where_(where), values_(graph) {}

  void run(const std::vector<Line>& lines, int64_t row, int64_t begin, int64_t end) {
    place_ = {row, begin, walk_.space.columns};
    count_ = end - begin;
    for (Value& value : values_) value.there = value.saved = false;
    for (const Line& line : lines) execute(line);
  }
  Moved moved() const { return moved_; }

 private:
  struct Value {
    std::vector<Real> room;
    Tile<Real> tile;
    bool there = false, saved = false, in_loop = false;
  };

  Value& value(int n) { return values_[n]; }
  bool a_row(int n) const { return walk_.a_row[n]; }
  int64_t count(int n) const { return a_row(n) ? 1 : count_; }

  void execute(const Line& line) {
    const int n = line.node;
    switch (line.step) {
      case LineStep::loop: in_loop_ = true; return;
      case LineStep::end:
        for (Value& each : values_) each.there = each.there && !each.in_loop;
        in_loop_ = false;
        return;
      case LineStep::load: return load(n);
      case LineStep::compute: return compute(n);
      case LineStep::save: value(used(n)).saved = true; return;
      case LineStep::recall:
        if (!value(n).saved) fail(where_, "value {} is recalled, and was never saved", n);
        return define(n);
      case LineStep::reduce: return reduce(n);
      case LineStep::fold: return define(n);
      case LineStep::store: return store(n);
    }
  }
  void define(int n) {
    value(n).there = true;
    value(n).in_loop = in_loop_;
  }
  int used(int n) {
    if (!value(n).there)
      fail(where_, "value {} ({}) is used where it is not there: {}", n,
           info(graph_.node(n).op).name,
           is_row_reduction(graph_.node(n).op)
               ? "a reduction has its value when its loop is over, behind the fold"
               : "a loop's values end with the loop, unless they are saved and recalled");
    return n;
  }
  Real* address(int n) {
    const TilePlace place = place_in(n);
    return static_cast<Real*>(memory_.at(n)) + place.row * place.columns + place.column;
  }
  // Where the tile begins in the value n, which may be smaller than the walk.
  TilePlace place_in(int n) const {
    const Size size = walk_.flat && !a_row(n) ? walk_.space : graph_.node(n).size;
    return {size.rows == 1 ? 0 : place_.row, a_row(n) ? 0 : place_.column, size.columns};
  }
  // A place for the numbers of n.
  Real* room(int n) {
    value(n).room.resize(static_cast<size_t>(count(n)));
    value(n).tile = {value(n).room.data(), a_row(n) ? 0 : 1};
    return value(n).room.data();
  }

  void load(int n) {
    std::copy_n(address(n), count(n), room(n));
    moved_.loaded += count(n);
    define(n);
  }
  void compute(int n) {
    const Node& node = graph_.node(n);
    std::vector<Tile<Real>> in;
    for (const int i : node.in) in.push_back(value(used(i)).tile);
    compute_tile(node, in, place_in(n), count(n), room(n));
    define(n);
  }
  void reduce(int n) {
    const Real total =
        reduce_tile(graph_.node(n).op, value(used(graph_.node(n).in[0])).tile, count_);
    value(n).room.assign(1, total);
    value(n).tile = {value(n).room.data(), 0};
  }
  void store(int n) {
    std::copy_n(value(used(n)).tile.data, count(n), address(n));
    moved_.stored += count(n);
  }

  const Graph& graph_;
  const Walk& walk_;
  const std::map<int, void*>& memory_;
  Where where_;
  ByNode<Value> values_;
  TilePlace place_;
  int64_t count_ = 0;
  bool in_loop_ = false;
  Moved moved_;
};

}  // namespace detail

YOTTA_INLINE Moved interpret(const Graph& graph, const Walk& walk, const std::vector<Line>& lines,
                             const std::map<int, void*>& memory, Where where) {
  const int64_t piece = piece_of(walk, cpp_kernel), columns = walk.space.columns;
  const int64_t pieces = ceil_div(columns, piece);
  std::atomic<int64_t> loaded = 0, stored = 0;
  visit_real(graph.dtype, where, [&]<class Real>(Type<Real>) {
    parallel_for(walk.space.rows * pieces, std::max<int64_t>(1, 16384 / piece),
                 [&](int64_t begin, int64_t end) {
                   detail::TileRun<Real> run(graph, walk, memory, where);
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t first = task % pieces * piece;
                     run.run(lines, task / pieces, first, std::min(first + piece, columns));
                   }
                   loaded += run.moved().loaded;
                   stored += run.moved().stored;
                 });
  });
  return {loaded, stored};
}

}  // namespace yotta
