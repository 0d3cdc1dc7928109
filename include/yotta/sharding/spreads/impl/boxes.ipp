// The bodies of sharding/spreads/boxes.hpp.
#pragma once

#include "yotta/sharding/spreads/boxes.hpp"

#include <cstring>
#include <numeric>

#include "yotta/comm/channel.hpp"
#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/core/matmul_ladder.hpp"

namespace yotta {

YOTTA_INLINE Shape shape_of(const Box& box) {
  Shape shape;
  for (const IndexRange& range : box) shape.push_back(range.size());
  return shape;
}

YOTTA_INLINE Box overlap(const Box& a, const Box& b) {
  Box both;
  for (size_t d = 0; d < a.size(); ++d) {
    const int64_t begin = std::max(a[d].begin, b[d].begin);
    both.push_back({begin, std::max(begin, std::min(a[d].end, b[d].end))});
  }
  return both;
}

namespace detail {
// Copies the rows of a box of dims d and beyond. Offsets are in elements.
inline void copy_box(const std::byte* from, const Box& at_from, std::byte* to, const Box& at_to,
                     const Box& part, size_t d, int64_t width) {
  const auto inner = [&](const Box& box) {
    int64_t count = width;
    for (size_t i = d + 1; i < box.size(); ++i) count *= box[i].size();
    return count;
  };
  const int64_t step_from = inner(at_from), step_to = inner(at_to);
  from += (part[d].begin - at_from[d].begin) * step_from;
  to += (part[d].begin - at_to[d].begin) * step_to;
  if (d + 1 == part.size()) {
    std::memcpy(to, from, static_cast<size_t>(part[d].size() * width));
    return;
  }
  for (int64_t i = 0; i < part[d].size(); ++i, from += step_from, to += step_to)
    copy_box(from, at_from, to, at_to, part, d + 1, width);
}
}  // namespace detail

YOTTA_INLINE void copy_overlap(const Tensor& from, const Box& at_from, Tensor& to,
                               const Box& at_to) {
  const Box part = overlap(at_from, at_to);
  if (product(shape_of(part)) == 0 || from.device() == Device::meta) return;
  detail::copy_box(static_cast<const std::byte*>(from.raw()), at_from,
                   static_cast<std::byte*>(to.raw()), at_to, part, 0, bytes_of(from.dtype()));
}

YOTTA_INLINE Tensor part_of_box(const Tensor& from, const Box& at_from, const Box& part) {
  Tensor made = Tensor::empty(shape_of(part), from.dtype());
  copy_overlap(from, at_from, made, part);
  return made;
}

YOTTA_INLINE BoxPieces pieces_of(const Box& box, const std::vector<Box>& others, DType dtype) {
  BoxPieces pieces;
  for (const Box& other : others) {
    pieces.boxes.push_back(overlap(box, other));
    pieces.counts.push_back(product(shape_of(pieces.boxes.back())));
  }
  const int64_t all = std::accumulate(pieces.counts.begin(), pieces.counts.end(), int64_t{0});
  pieces.numbers = Tensor::empty({all}, dtype);
  return pieces;
}

namespace detail {
template <class Real>
void multiply(const Tensor& a, const Tensor& b, Tensor& c) {
  const int64_t m = a.dim(0), k = a.dim(1), n = b.dim(1);
  matmul_reordered(row_major(a.data<Real>(), m, k), row_major(b.data<Real>(), k, n),
                   row_major(c.data<Real>(), m, n), Into::overwrite);
}
}  // namespace detail

YOTTA_INLINE Tensor local_matmul(const Tensor& a, const Tensor& b, Where where) {
  if (a.ndim() != 2 || b.ndim() != 2 || a.dim(1) != b.dim(0) || a.dtype() != b.dtype())
    fail(where, "a rank cannot multiply {} by {}: expected (i, j) and (j, k) of one type",
         a.describe(), b.describe());
  Tensor c = Tensor::empty({a.dim(0), b.dim(1)}, a.dtype());
  const int64_t bytes = bytes_of(a.dtype());
  charge({"matmul", a.dtype(), matmul_flops(a.dim(0), b.dim(1), a.dim(1)),
          static_cast<double>((a.numel() + b.numel()) * bytes),
          static_cast<double>(c.numel() * bytes)});
  if (c.device() == Device::meta) return c;
  if (a.dtype() == DType::f64)
    detail::multiply<double>(a, b, c);
  else
    detail::multiply<float>(a, b, c);
  return c;
}

namespace detail {
inline void expect_one_type(ConstData in, Data out, Where where) {
  if (in.dtype != out.dtype)
    fail(where, "a collective from {} to {}: both must have one type", name(in.dtype),
         name(out.dtype));
}
}  // namespace detail

YOTTA_INLINE void all_gather_uneven(const Communicator& group, ConstData in, Data out,
                                    Counts counts, Where where) {
  detail::expect_one_type(in, out, where);
  const auto body = [=](Channel& ring) {
    const int p = ring.size(), rank = ring.rank();
    copy_data(in, run_of(out, counts, rank));
    for (int step = 1; step < p; ++step)
      ring.send_recv(run_of(out, counts, wrap(rank + 1 - step, p)), wrap(rank + 1, p),
                     run_of(out, counts, wrap(rank - step, p)), wrap(rank - 1, p));
  };
  group.collective("all_gather", body, where);
}

YOTTA_INLINE void reduce_scatter_uneven(const Communicator& group, ConstData in, Data out,
                                        Counts counts, Where where) {
  detail::expect_one_type(in, out, where);
  const auto body = [=](Channel& ring) {
    const int p = ring.size(), rank = ring.rank();
    const int64_t longest = *std::max_element(counts.begin(), counts.end());
    Tensor buffers[2] = {scratch(longest, in), scratch(longest, in)};
    ConstData sum = run_of(in, counts, wrap(rank - 1, p));
    for (int step = 1; step < p; ++step) {
      const ConstData mine = run_of(in, counts, wrap(rank - 1 - step, p));
      const Data arriving = Data(buffers[step % 2]).part(0, mine.count);
      ring.send_recv(sum, wrap(rank + 1, p), arriving, wrap(rank - 1, p));
      reduce_into(arriving, mine, ReduceOp::sum);
      sum = arriving;
    }
    copy_data(sum, out);
  };
  group.collective("reduce_scatter", body, where);
}

}  // namespace yotta
