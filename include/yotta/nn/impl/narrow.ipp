// The bodies of nn/narrow.hpp.
#pragma once

#include "yotta/nn/narrow.hpp"

#include <cstring>

namespace yotta {

namespace detail {

// A tensor as `outer` rows of `row` bytes: `outer` counts the dims before `dim`, a row is the rest.
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
  if (dim < 0 || dim >= x.ndim())
    fail(where, "{}: dim {} of {}; expected 0 to {}", operation, dim, x.describe(), x.ndim() - 1);
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

// The shape of all tensors together, or an error.
inline Shape cat_shape(std::span<const Tensor> tensors, int dim, Where where) {
  if (tensors.empty()) fail(where, "cat: no tensors; expected one or more");
  const Tensor& first = tensors[0];
  expect_dim("cat", first, dim, where);
  const auto at = static_cast<size_t>(dim);
  Shape shape = first.shape();
  for (size_t i = 1; i < tensors.size(); ++i) {
    Shape alike = tensors[i].shape();
    if (alike.size() == shape.size()) {
      shape[at] += alike[at];
      alike[at] = first.dim(dim);
    }
    if (alike != first.shape() || tensors[i].dtype() != first.dtype())
      fail(where, "cat: tensor {} is {} and tensor 0 is {}; types and all dims but {} must agree",
           i, tensors[i].describe(), first.describe(), dim);
  }
  return shape;
}

}  // namespace detail

YOTTA_INLINE Tensor narrow(const Tensor& x, int dim, int64_t start, int64_t length, Where where) {
  detail::expect_dim("narrow", x, dim, where);
  const int64_t size = x.dim(dim);
  if (start < 0 || length < 0 || length > size - start)
    fail(where, "narrow: start {} and length {} along dim {} of {}; the range must lie in 0 to {}",
         start, length, dim, x.describe(), size);
  if (length == size) return x;
  Shape shape = x.shape();
  shape[static_cast<size_t>(dim)] = length;
  const detail::Rows rows = detail::rows_at(x, dim);
  if (rows.outer == 1) {  // the rows of a flat view
    const int64_t width = x.numel() / size;
    return x.reshape({size, width}).rows(start, start + length).reshape(std::move(shape));
  }
  Tensor y = empty_beside(x, std::move(shape), x.dtype(), where);
  charge(copy_cost("narrow", x.dtype(), y.numel()));
  const int64_t unit = size == 0 ? 0 : rows.row / size, bytes = length * unit;
  detail::copy_rows(
      x, [&](int64_t i) { return i * rows.row + start * unit; }, y,
      [&](int64_t i) { return i * bytes; }, rows.outer, bytes);
  return y;
}

YOTTA_INLINE Tensor cat(std::span<const Tensor> tensors, int dim, Where where) {
  Shape shape = detail::cat_shape(tensors, dim, where);
  if (tensors.size() == 1) return tensors[0];
  Tensor y = empty_beside(tensors[0], std::move(shape), tensors[0].dtype(), where);
  charge(copy_cost("cat", y.dtype(), y.numel()));
  const detail::Rows rows = detail::rows_at(y, dim);
  int64_t start = 0;
  for (const Tensor& each : tensors) {
    const int64_t bytes = detail::rows_at(each, dim).row;
    detail::copy_rows(
        each, [&](int64_t i) { return i * bytes; }, y,
        [&](int64_t i) { return i * rows.row + start; }, rows.outer, bytes);
    start += bytes;
  }
  return y;
}

}  // namespace yotta
