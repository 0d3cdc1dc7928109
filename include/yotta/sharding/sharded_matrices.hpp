// Sharded matrices: who holds what of a matrix that is cut over a mesh, and how two such matrices
// are multiplied.
//
// A (I, J) times B (J, K). Each rank multiplies what it holds. There are four cases:
//
//     1   A[I_X, J]  B[J, K_Y]     J is whole in both: nothing is sent      C[I_X, K_Y]
//     2   A[I, J_X]  B[J, K]       J is cut in one of them only: all_gather that one, or take the
//                                  matching rows of B as well, which is case 3
//     3   A[I, J_X]  B[J_X, K]     J is cut alike: each rank has a part of every sum, C[I,
//                                  K]{U_X}; then an all_reduce, or a reduce_scatter to C[I_X, K]
//     4   A[I_X, J]  B[J, K_X]     X cuts I and K: C[I_X, K_X] cannot be held (spread.hpp), so one
//                                  of the two must be gathered first
//
// Cost of a collective over p ranks, for N bytes that a rank holds of the array that is not cut
// over them: all_gather and reduce_scatter send (p-1)/p N each, all_reduce twice that.
// Contract: all ranks of the mesh call gathered, reduced, scattered and sharded_matmul together.
// Any sizes. A dim is cut over its first axis, each part over the next (chunk_begin); parts differ
// by one row where they do not divide. An all_gather can take only the last axes of a dim away:
// I_XY becomes I_X. Plans with all_to_all, and the cheapest of all: matmul_plans.hpp.
// Letters: I, J, K dims; X, Y axes; U unreduced; p ranks; N bytes.
// Reference: Austin et al. (2025), How to scale your model, "Sharded matrices".
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "yotta/core/matrix_view.hpp"
#include "yotta/sharding/axis_groups.hpp"
#include "yotta/sharding/spreads/boxes.hpp"

namespace yotta {

// The numbers of a dim of `size` that a rank holds, if these axes cut it.
inline IndexRange held_range(int64_t size, const std::string& axes, const NamedMesh& mesh,
                             int rank) {
  IndexRange held{0, size};
  for (const char axis : axes) {
    const int parts = axis_size(mesh, axis), i = coordinate(mesh, rank, axis);
    const int64_t length = held.size();
    held.end = held.begin + chunk_begin(length, parts, i + 1);
    held.begin += chunk_begin(length, parts, i);
  }
  return held;
}

// The same for every dim of a tensor, its shape, and its bytes.
inline Box held_box(const Shape& whole, const Spread& spread, const NamedMesh& mesh, int rank,
                    Where where = Where::current()) {
  if (whole.size() != spread.dims.size())
    fail(where, "{} has {} dims, and the tensor's shape is {}", str(spread), spread.dims.size(),
         str(whole));
  Box box;
  for (size_t d = 0; d < whole.size(); ++d)
    box.push_back(held_range(whole[d], spread.dims[d].axes, mesh, rank));
  return box;
}
inline Shape held_shape(const Shape& whole, const Spread& spread, const NamedMesh& mesh, int rank,
                        Where where = Where::current()) {
  return shape_of(held_box(whole, spread, mesh, rank, where));
}
inline int64_t held_bytes(const Shape& whole, DType dtype, const Spread& spread,
                          const NamedMesh& mesh, int rank, Where where = Where::current()) {
  return product(held_shape(whole, spread, mesh, rank, where)) * bytes_of(dtype);
}

// What one rank holds of a tensor.
struct ShardedMatrix {
  Tensor local;
  Spread spread;
  Shape whole;
};
inline int64_t held_bytes(const ShardedMatrix& x, const NamedMesh& mesh, int rank) {
  return held_bytes(x.whole, x.local.dtype(), x.spread, mesh, rank);
}

// This rank's part of a tensor that every rank has.
inline ShardedMatrix cut(const Tensor& whole, const Spread& spread, const AxisGroups& groups) {
  expect_spread(spread, groups.mesh());
  Box all;
  for (const int64_t size : whole.shape()) all.push_back({0, size});
  const Box held = held_box(whole.shape(), spread, groups.mesh(), groups.rank());
  return {part_of_box(whole, all, held), spread, whole.shape()};
}

namespace detail {

inline Spread without_last(Spread spread, size_t dim, size_t count, Where where) {
  std::string& axes = spread.dims[dim].axes;
  if (count > axes.size()) fail(where, "{} has no {} axes to gather", str(spread), count);
  axes.resize(axes.size() - count);
  return spread;
}

// x with room for the part of another spread; its values are not set.
inline ShardedMatrix space_for(const ShardedMatrix& x, Spread spread, const AxisGroups& groups) {
  const Shape shape = held_shape(x.whole, spread, groups.mesh(), groups.rank());
  return {Tensor::empty(shape, x.local.dtype()), std::move(spread), x.whole};
}

}  // namespace detail

// x's parts on all members of the group, as far as `held` has them: into result.local.
inline void gather_parts(const ShardedMatrix& x, const Communicator& group, AxisGroups& groups,
                         const Box& held, ShardedMatrix& result, Where where) {
  std::vector<Box> from;
  std::vector<int64_t> counts;
  for (const int member : group.members()) {
    from.push_back(held_box(x.whole, x.spread, groups.mesh(), member));
    counts.push_back(product(shape_of(from.back())));
  }
  Tensor parts = Tensor::empty({product(shape_of(held))}, x.local.dtype());
  all_gather_uneven(group, x.local, parts, counts, where);
  int64_t begin = 0;
  for (size_t i = 0; i < from.size(); begin += counts[i++]) {
    const Tensor part = parts.rows(begin, begin + counts[i]).reshape(shape_of(from[i]));
    copy_overlap(part, from[i], result.local, held);
  }
}

// [I_XY, J] -> [I_X, J], or [I, J] for two axes: an all_gather over the last `count` axes of a dim.
inline ShardedMatrix gathered(const ShardedMatrix& x, size_t dim, size_t count, AxisGroups& groups,
                              Where where = Where::current()) {
  const Spread less = detail::without_last(x.spread, dim, count, where);
  ShardedMatrix result = detail::space_for(x, less, groups);
  const Communicator& group =
      groups.along(x.spread.dims[dim].axes.substr(less.dims[dim].axes.size()));
  const Box held = held_box(x.whole, less, groups.mesh(), groups.rank());
  gather_parts(x, group, groups, held, result, where);
  return result;
}

// [I, J]{U_X} -> [I, J]: an all_reduce over these axes.
inline ShardedMatrix reduced(const ShardedMatrix& x, const std::string& axes, AxisGroups& groups,
                             Where where = Where::current()) {
  ShardedMatrix result{x.local.clone(), x.spread, x.whole};
  result.spread.unreduced = without(x.spread.unreduced, axes);
  groups.along(axes).all_reduce(result.local, ReduceOp::sum, {Algorithm::ring}, where);
  return result;
}

namespace detail {

inline std::vector<Box> boxes_of(const ShardedMatrix& x, const Spread& spread,
                                 const Communicator& group, const AxisGroups& groups) {
  std::vector<Box> boxes;
  for (const int member : group.members())
    boxes.push_back(held_box(x.whole, spread, groups.mesh(), member));
  return boxes;
}

}  // namespace detail

// [I, J]{U_X} -> [I_X, J]: a reduce_scatter over these axes; they come last of those of the dim.
inline ShardedMatrix scattered(const ShardedMatrix& x, const std::string& axes, size_t dim,
                               AxisGroups& groups, Where where = Where::current()) {
  Spread more = x.spread;
  more.dims[dim].axes += axes;
  more.unreduced = without(x.spread.unreduced, axes);
  ShardedMatrix result = detail::space_for(x, more, groups);
  const Communicator& group = groups.along(axes);
  const Box from = held_box(x.whole, x.spread, groups.mesh(), groups.rank());
  const BoxPieces sorted =
      pieces_of(from, detail::boxes_of(x, more, group, groups), x.local.dtype());
  each_piece(sorted,
             [&](Tensor piece, const Box& box) { copy_overlap(x.local, from, piece, box); });
  reduce_scatter_uneven(group, sorted.numbers, result.local, sorted.counts, where);
  return result;
}

// What the ranks get if each multiplies what it holds.
struct LocalProduct {
  int which = 1;        // of the four cases; 2 and 4: cannot be multiplied as it is
  std::string between;  // 2 and 4: the axes that stand in the way, in any order
  Spread result;        // 1 and 3: of C
};
// Case 4 comes before 2 and 3. A{U_X} times B is the product unreduced over X if X stands nowhere
// in B, and case 4 otherwise; the same holds for a sum B. The product's U are those of A, of B and,
// in case 3, of J.
inline LocalProduct product_of(const Spread& a, const Spread& b) {
  const SpreadDim &i = a.dims[0], &j = a.dims[1], &j_of_b = b.dims[0], &k = b.dims[1];
  LocalProduct product;
  product.result = {{i, k}, a.unreduced + b.unreduced};
  const std::string all_of_b = cutting_axes(b) + b.unreduced;
  const std::string clash = common(i.axes, k.axes + b.unreduced) + common(a.unreduced, all_of_b) +
                            common(j.axes, b.unreduced);
  if (!clash.empty()) {
    product.which = 4;
    product.between = clash;
  } else if (j.axes != j_of_b.axes) {
    product.which = 2;
    product.between = j.axes.size() > j_of_b.axes.size() ? j.axes : j_of_b.axes;
  } else if (!j.axes.empty()) {
    product.which = 3;
    product.result.unreduced += j.axes;
  }
  std::sort(product.result.unreduced.begin(), product.result.unreduced.end());
  return product;
}

// Cases 2 and 4: how many of the last axes of J, I or K must be gathered, if `axes` cut it in this
// input, and `other` cut the dim that it clashes with: of J_XY only Y if J_X stands in the other.
inline size_t axes_to_gather(const LocalProduct& product, const std::string& axes,
                             const std::string& other) {
  const auto same = std::mismatch(axes.begin(), axes.end(), other.begin(), other.end()).first;
  const size_t kept = product.which == 2 ? static_cast<size_t>(same - axes.begin())
                                         : axes.find_first_of(product.between);
  return axes.size() - (kept == axes.npos ? 0 : kept);
}

// A B. In case 2 J is gathered of the input where more axes cut it, of B if as many do. In case 4 I
// of A or K of B is gathered: of the one of which rank 0 holds fewer bytes, of A if they are equal.
// All ranks must decide alike. No more axes are gathered than must be (axes_to_gather). If sums are
// unreduced, `onto` is the dim of C (0 or 1) that the sums are scattered onto; -1: an all_reduce.
// Errors: an input that is unreduced.
inline ShardedMatrix sharded_matmul(ShardedMatrix a, ShardedMatrix b, int onto, AxisGroups& groups,
                                    Where where = Where::current()) {
  expect_summed(a.spread, where), expect_summed(b.spread, where);
  ShardedMatrix c{{}, {}, {a.whole[0], b.whole[1]}};
  LocalProduct product = product_of(a.spread, b.spread);
  for (; product.which == 2 || product.which == 4; product = product_of(a.spread, b.spread)) {
    const size_t dim = product.which == 2 ? 1 : 0;  // of A; of B it is the other
    const std::string of_a = a.spread.dims[dim].axes, of_b = b.spread.dims[1 - dim].axes;
    if (product.which == 2 ? of_a.size() > of_b.size()  // rank 0's bytes: all decide alike
                           : held_bytes(a, groups.mesh(), 0) <= held_bytes(b, groups.mesh(), 0))
      a = gathered(a, dim, axes_to_gather(product, of_a, of_b), groups, where);
    else
      b = gathered(b, 1 - dim, axes_to_gather(product, of_b, of_a), groups, where);
  }
  c.spread = product.result;
  c.local = local_matmul(a.local, b.local, where);
  if (const std::string sums = c.spread.unreduced; !sums.empty())
    c = onto < 0 ? reduced(c, sums, groups, where)
                 : scattered(c, sums, static_cast<size_t>(onto), groups, where);
  return c;
}

// FLOPs for each byte of memory traffic in rank 0's product of A (I, J) and B (J, K), spread so,
// if A, B and C pass once. Numbers have `width` bytes.
inline double local_intensity(int64_t I, int64_t J, int64_t K, const Spread& a, const Spread& b,
                              int64_t width, const NamedMesh& mesh) {
  const Shape left = held_shape({I, J}, a, mesh, 0), right = held_shape({J, K}, b, mesh, 0);
  return matmul_intensity(left[0], right[1], left[1], width);
}

// A feed-forward layer In[B, D] W_in[D, F] W_out[F, D] that is trained on several ranks: texts for
// parse_spread.
struct DataParallelSpreads {
  std::string in, w_in, w_out;
  std::string dw_in_local;  // what In'[D, B] dHidden[B, F] leaves on a rank
  std::string collective;   // that makes dW_in of it, spread as W_in
};
inline DataParallelSpreads data_parallel(char axis) {
  DataParallelSpreads layer;
  layer.in = fmt::format("In[B_{}, D]", axis);
  layer.w_in = "W_in[D, F]", layer.w_out = "W_out[F, D]";
  layer.dw_in_local = fmt::format("dW_in[D, F]{{U_{}}}", axis);
  layer.collective = "all_reduce";
  return layer;
}

}  // namespace yotta
