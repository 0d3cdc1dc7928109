// The bodies of device/compile/tiles.hpp.
#pragma once

#include "yotta/device/compile/tiles.hpp"

#include <algorithm>

#include "yotta/core/matmul.hpp"
#include "yotta/core/parallel_for.hpp"
#include "yotta/core/random.hpp"
#include "yotta/device/compile/lanes.hpp"

namespace yotta {

namespace detail {

// Whether the numbers of a tile are stored past the caches.
enum class Stored : uint8_t { in_cache, past_caches };

// Numbers: an operand of a result that is stored past the caches is in no cache either, and the
// processor's own prefetching is late.
inline constexpr int64_t fetched_ahead = 1024;

// out[i] = f(in[0][i], in[1][i], in[2][i]), a vector at a time.
template <Stored stored, class Real, class F>
void map_tile(const std::vector<Tile<Real>>& in, int64_t count, Real* out, F f) {
  using L = Lanes<Real>;
  using V = typename L::V;
  const auto operand = [&](size_t k, int64_t i) {
    if (k >= in.size()) return V{};
    if (stored == Stored::past_caches)
      L::fetch(in[k].data + in[k].step * std::min(i + fetched_ahead, count));
    return in[k].step == 0 ? L::spread(*in[k].data) : L::load(in[k].data + i, count - i);
  };
  for (int64_t i = 0; i < count; i += L::lanes) {
    const V v = f(operand(0, i), operand(1, i), operand(2, i));
    if (stored == Stored::past_caches)
      L::stream(out + i, v, count - i);
    else
      L::store(out + i, v, count - i);
  }
}

template <class Real>
void make_tile(const Node& node, TilePlace place, int64_t count, Real* out) {
  using L = Lanes<Real>;
  const uint64_t stream = hash_name(node.name);
  const auto low = [](uint64_t bits) { return static_cast<unsigned>(bits); };
  typename L::Draws draws;
  for (int64_t i = 0; i < count; i += L::lanes) {
    typename L::V v = L::spread(static_cast<Real>(node.number));
    if (node.op == Op::row) v = L::spread(static_cast<Real>(place.row));
    if (node.op == Op::column) v = L::count_from(place.column + i);
    if (node.op == Op::keep)
      v = L::keep(draws, place.row * place.columns + place.column + i,
                  low(keep_threshold(node.number)), low(node.seed), low(node.seed >> 32),
                  low(stream), low(stream >> 32));
    L::store(out + i, v, count - i);
  }
}

template <Stored stored = Stored::in_cache, class Real>
void compute_tile_of(const Node& node, const std::vector<Tile<Real>>& in, TilePlace place,
                     int64_t count, Real* out) {
  using L = Lanes<Real>;
  using V = typename L::V;
  const auto map = [&](auto f) { map_tile<stored>(in, count, out, f); };
  switch (node.op) {
    case Op::add: return map([](V a, V b, V) { return a + b; });
    case Op::subtract: return map([](V a, V b, V) { return a - b; });
    case Op::multiply: return map([](V a, V b, V) { return a * b; });
    case Op::divide: return map([](V a, V b, V) { return a / b; });
    case Op::larger: return map([](V a, V b, V) { return L::larger(a, b); });
    case Op::less: return map([](V a, V b, V) { return L::less(a, b); });
    case Op::choose: return map([](V a, V b, V c) { return L::choose(a, b, c); });
    case Op::exp: return map([](V a, V, V) { return L::exp_of(a); });
    case Op::sqrt: return map([](V a, V, V) { return L::sqrt_of(a); });
    default: return make_tile(node, place, count, out);
  }
}

template <class Real>
Real reduce_tile_of(Op op, Tile<Real> x, int64_t count) {
  using L = Lanes<Real>;
  using V = typename L::V;
  const V nothing = L::spread(op == Op::row_sum ? Real{0} : -L::infinity());
  V totals[4] = {nothing, nothing, nothing, nothing};
  for (int64_t i = 0; i < count;)
    for (V& total : totals) {
      if (i >= count) break;
      const V v = x.step == 0 ? L::spread(*x.data) : L::load(x.data + i, count - i);
      const V part = L::among(v, count - i, nothing);
      total = op == Op::row_sum ? total + part : L::larger(total, part);
      i += L::lanes;
    }
  return op == Op::row_sum ? L::fold_sum(totals) : L::fold_max(totals);
}

// Row r of an operand, for a result with `columns`.
template <class Real>
Tile<Real> row_of(const Tensor& x, Size size, int64_t r) {
  const Real* data = x.data<Real>() + (size.rows == 1 ? 0 : r * size.columns);
  return {data, size.columns == 1 ? 0 : 1};
}

// An elementwise or a made node: row by row, or as one long row where nothing is repeated.
template <class Real>
void run_elementwise_node(const Node& node, const std::vector<Tensor>& in,
                          const std::vector<Size>& sizes, Tensor& out) {
  bool flat = node.op != Op::row && node.op != Op::column;
  for (const Size& each : sizes) flat = flat && (each == node.size || each.count() == 1);
  Size walk = flat ? Size{1, node.size.count()} : node.size;
  std::vector<Size> seen = sizes;
  for (Size& each : seen)
    if (flat && each == node.size) each = walk;
  constexpr int64_t piece = 4096;
  const int64_t pieces = ceil_div(walk.columns, piece);
  Real* to = out.data<Real>();
  const auto compute = out.nbytes() > streamed_bytes ? compute_tile_of<Stored::past_caches, Real>
                                                     : compute_tile_of<Stored::in_cache, Real>;
  parallel_for(walk.rows * pieces, std::max<int64_t>(1, 16384 / std::min(piece, walk.columns)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t r = task / pieces, c = task % pieces * piece;
                   std::vector<Tile<Real>> tiles;
                   for (size_t k = 0; k < in.size(); ++k) {
                     tiles.push_back(row_of<Real>(in[k], seen[k], r));
                     tiles.back().data += c * tiles.back().step;
                   }
                   compute(node, tiles, {r, c, walk.columns}, std::min(piece, walk.columns - c),
                           to + r * walk.columns + c);
                 }
                 wait_for_stores();
               });
}

template <class Real>
void run_row_reduction(const Node& node, const Tensor& x, Size size, Tensor& out) {
  Real* to = out.data<Real>();
  const Real* from = x.data<Real>();
  parallel_for(size.rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, size.columns)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r)
                   to[r] = reduce_tile_of<Real>(node.op, {from + r * size.columns}, size.columns);
               });
}

template <class Real>
void run_column_sum(const Tensor& x, Size size, Tensor& out) {
  out.zero();
  Real* to = out.data<Real>();
  const Real* from = x.data<Real>();
  parallel_for(size.columns, std::max<int64_t>(64, 16384 / std::max<int64_t>(1, size.rows)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = 0; r < size.rows; ++r)
                   for (int64_t c = begin; c < end; ++c) to[c] += from[r * size.columns + c];
               });
}

template <class Real>
void run_matmul(const Node& node, const std::vector<Tensor>& in, const std::vector<Size>& sizes,
                Tensor& out) {
  auto a = row_major(in[0].data<Real>(), sizes[0].rows, sizes[0].columns);
  auto b = row_major(in[1].data<Real>(), sizes[1].rows, sizes[1].columns);
  if (node.op == Op::matmul_tn) a = transposed(a);
  if (node.op == Op::matmul_nt) b = transposed(b);
  matmul(a, b, row_major(out.data<Real>(), node.size.rows, node.size.columns), Into::overwrite,
         context().threads);
}

template <class Real>
void run_node_of(const Node& node, const std::vector<Tensor>& in, Tensor& out) {
  std::vector<Size> sizes;
  for (const Tensor& each : in) {
    const int64_t columns = each.ndim() == 0 ? 1 : each.dim(-1);
    sizes.push_back({each.numel() / columns, columns});
  }
  if (is_matmul(node.op)) return run_matmul<Real>(node, in, sizes, out);
  if (node.op == Op::column_sum) return run_column_sum<Real>(in[0], sizes[0], out);
  if (is_row_reduction(node.op)) return run_row_reduction<Real>(node, in[0], sizes[0], out);
  run_elementwise_node<Real>(node, in, sizes, out);
}

}  // namespace detail

YOTTA_INLINE void compute_tile(const Node& node, const std::vector<Tile<float>>& in,
                               TilePlace place, int64_t count, float* out) {
  detail::compute_tile_of(node, in, place, count, out);
}
YOTTA_INLINE void compute_tile(const Node& node, const std::vector<Tile<double>>& in,
                               TilePlace place, int64_t count, double* out) {
  detail::compute_tile_of(node, in, place, count, out);
}
YOTTA_INLINE float reduce_tile(Op op, Tile<float> x, int64_t count) {
  return detail::reduce_tile_of(op, x, count);
}
YOTTA_INLINE double reduce_tile(Op op, Tile<double> x, int64_t count) {
  return detail::reduce_tile_of(op, x, count);
}

YOTTA_INLINE Tensor run_node(const Node& node, DType dtype, const std::vector<Tensor>& in,
                             Where where) {
  if (node.op == Op::all_reduce)
    fail(where,
         "all_reduce sums over ranks: run the graph with run_on_ranks of "
         "parallel/graph_collectives.hpp");
  Tensor out = Tensor::empty({node.size.rows, node.size.columns}, dtype, where);
  if (out.numel() == 0) return out;
  visit_real(dtype, where,
             [&]<class Real>(Type<Real>) { detail::run_node_of<Real>(node, in, out); });
  return out;
}

}  // namespace yotta
