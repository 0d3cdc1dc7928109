// Cut and join: part of a tensor along one of its dims, and parts side by side again.
//
//     x (B, T, C)          cut(x, 1, 2, 4)            join({a, b}, 1)
//     [ 0 1 2 3 4 5 ]      [ 2 3 ]                    [ 0 1 4 5 ]
//     [ 0 1 2 3 4 5 ]      [ 2 3 ]   (B, 2, C)        [ 0 1 4 5 ]
//
// Tensors are contiguous, so a cut along any dim but the first is a copy; where nothing has to move (the
// dims before it are 1, or all is asked for) it is a view. Any type: bytes are moved, not numbers.
// Cost: no FLOPs; what is copied, read once and written once.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "yotta/nn/op.hpp"

namespace yotta {

// n numbers read and written.
constexpr OpCost copy_cost(const char* name, DType dtype, int64_t n) {
  return op_cost(name, dtype, 0, n, n);
}

namespace detail {

// A tensor as `outer` rows of `row` bytes: what stands before `dim`, and the rest.
struct Rows {
  int64_t outer = 1, row = 0;
};
inline Rows rows_at(const Tensor& x, int dim) {
  Rows rows;
  for (int i = 0; i < dim; ++i) rows.outer *= x.dim(i);
  rows.row = rows.outer == 0 ? 0 : x.nbytes() / rows.outer;
  return rows;
}

inline void expect_dim(const char* operation, const Tensor& x, int dim, Where where) {
  if (dim < 0 || dim >= x.ndim()) fail(where, "{}: dim {} of {}", operation, dim, x.describe());
}

// `rows` rows of `bytes`: row i from byte from_at(i) of `from` to byte to_at(i) of `to`.
template <class FromAt, class ToAt>
void copy_rows(const Tensor& from, FromAt from_at, Tensor& to, ToAt to_at, int64_t rows,
               int64_t bytes) {
  if (from.device() == Device::meta || bytes == 0) return;
  const std::byte* source = static_cast<const std::byte*>(from.raw());
  std::byte* target = static_cast<std::byte*>(to.raw());
  if (from.device() != to.device())
    fail(Where::current(), "{} and {} are on two devices", from.describe(), to.describe());
  if (from.device() == Device::cuda) {
    for (int64_t i = 0; i < rows; ++i)
      accelerator()->copy(target + to_at(i), source + from_at(i), bytes, Transfer::on_device);
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(target + to_at(i), source + from_at(i), static_cast<size_t>(bytes));
}

}  // namespace detail

// x[..., begin to end, ...] along `dim`.
inline Tensor cut(const Tensor& x, int dim, int64_t begin, int64_t end,
                  Where where = Where::current()) {
  detail::expect_dim("cut", x, dim, where);
  const int64_t size = x.dim(dim);
  if (begin < 0 || end < begin || end > size)
    fail(where, "cut: {} to {} along dim {} of {}", begin, end, dim, x.describe());
  Shape shape = x.shape();
  shape[static_cast<size_t>(dim)] = end - begin;
  if (begin == 0 && end == size) return x;
  const detail::Rows rows = detail::rows_at(x, dim);
  if (rows.outer == 1) {  // the rows of a flat view
    const int64_t width = x.numel() / size;
    return x.reshape({size, width}).rows(begin, end).reshape(std::move(shape));
  }
  Tensor y = empty_beside(x, std::move(shape), x.dtype(), where);
  charge(copy_cost("cut", x.dtype(), y.numel()));
  const int64_t unit = size == 0 ? 0 : rows.row / size, bytes = (end - begin) * unit;
  detail::copy_rows(
      x, [&](int64_t i) { return i * rows.row + begin * unit; }, y,
      [&](int64_t i) { return i * bytes; }, rows.outer, bytes);
  return y;
}

// The parts side by side along `dim`; they agree in type and in all other dims. One part is itself.
inline Tensor join(std::span<const Tensor> parts, int dim, Where where = Where::current()) {
  if (parts.empty()) fail(where, "join: nothing to join");
  detail::expect_dim("join", parts[0], dim, where);
  if (parts.size() == 1) return parts[0];
  const auto at = static_cast<size_t>(dim);
  Shape shape = parts[0].shape();
  for (size_t i = 1; i < parts.size(); ++i) {
    Shape alike = parts[i].shape();
    if (alike.size() == shape.size()) {
      shape[at] += alike[at];
      alike[at] = parts[0].dim(dim);
    }
    if (alike != parts[0].shape() || parts[i].dtype() != parts[0].dtype())
      fail(where, "join: {} does not stand beside {} along dim {}", parts[i].describe(),
           parts[0].describe(), dim);
  }
  Tensor y = empty_beside(parts[0], std::move(shape), parts[0].dtype(), where);
  charge(copy_cost("join", y.dtype(), y.numel()));
  const detail::Rows rows = detail::rows_at(y, dim);
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    const int64_t bytes = detail::rows_at(part, dim).row;
    detail::copy_rows(
        part, [&](int64_t i) { return i * bytes; }, y,
        [&](int64_t i) { return i * rows.row + begin; }, rows.outer, bytes);
    begin += bytes;
  }
  return y;
}

}  // namespace yotta
