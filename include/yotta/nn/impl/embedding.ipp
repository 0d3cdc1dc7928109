// The bodies of nn/embedding.hpp.
#pragma once

#include "yotta/nn/embedding.hpp"

namespace yotta {

namespace detail {

YOTTA_INLINE void expect_ids(const char* operation, const Tensor& ids, int64_t V, Where where) {
  expect_dims(operation, "ids", ids, 1, "(N)", where);
  expect_dtype(operation, "ids", ids, DType::i32, where);
  expect_each_id(operation, "id", ids, 0, V, where);
}

inline void expect_positions(const char* operation, const Tensor& x, const Tensor& table, int64_t T,
                             const Positions& at, Where where) {
  expect_dims(operation, "x", x, 2, "(N, C)", where);
  expect_dims(operation, "positions", table, 2, "(T, C)", where);
  if (T <= 0 || x.dim(0) % T != 0)
    fail(where, "{}: {} rows are not whole sequences of {} tokens", operation, x.dim(0), T);
  at.expect_packing(operation, x.dim(0), x.device() == Device::cuda, where);
  if (x.dim(1) != table.dim(1) || at.first < 0 || at.end(T) > table.dim(0))
    fail(where, "{}: x is {}, positions is {}; positions {} to {} are needed", operation,
         x.describe(), table.describe(), at.first, at.end(T));
}

// For n = 0, 1, ..., columns shared out over threads.
template <class Number, class Row>
void add_rows(const char* operation, Device device, const AddRows<Number, Row>& body, Where where) {
  if (device == Device::cuda) return run_kernel(operation, body, body.C, where);
  const int64_t columns_per_thread = std::max<int64_t>(64, rows_per_thread(body.N));
  if constexpr (has_loops)
    parallel_for(body.C, columns_per_thread, [&](int64_t begin, int64_t end) {
      for (int64_t n = 0; n < body.N; ++n)
        for_lanes<Computed<Number>>(end - begin,
                                    [&](int64_t c, auto count) { body(n, begin + c, count); });
    });
}

}  // namespace detail

YOTTA_INLINE Tensor embedding_shard(const Tensor& ids, const Tensor& table, int64_t first,
                                    int64_t V, Where where) {
  expect_dims("embedding", "table", table, 2, "(V, C)", where);
  const int64_t rows = table.dim(0), C = table.dim(1);
  detail::expect_ids("embedding", ids, V, where);
  const int64_t N = ids.dim(0);
  charge(embedding_cost(table.dtype(), N * rows / std::max<int64_t>(1, V), C));
  Tensor y = empty_beside(table, {N, C}, table.dtype(), where);
  if (y.device() == Device::meta) return y;
  const detail::RowOfId row{ids.address<int32_t>(y.device(), where), first, rows};
  if (y.device() == Device::cuda) {
    visit_activation(table.dtype(), where, [&]<class Number>(Type<Number>) {
      const Number* from = table.address<Number>(Device::cuda, where);
      run_kernel("embedding",
                 detail::EmbeddingRow<Number>{C, from, row, y.address<Number>(Device::cuda)}, N,
                 where);
    });
    return y;
  }
  const int64_t row_bytes = C * bytes_of(table.dtype());  // any type: bytes are copied
  const std::byte* from = static_cast<const std::byte*>(table.raw());
  std::byte* to = static_cast<std::byte*>(y.raw());
  parallel_for(N, rows_per_thread(C), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t r = row(n);
      if (r < 0)
        std::memset(to + n * row_bytes, 0, static_cast<size_t>(row_bytes));
      else
        std::memcpy(to + n * row_bytes, from + r * row_bytes, static_cast<size_t>(row_bytes));
    }
  });
  return y;
}

YOTTA_INLINE Tensor embedding(const Tensor& ids, const Tensor& table, Where where) {
  expect_dims("embedding", "table", table, 2, "(V, C)", where);
  return embedding_shard(ids, table, 0, table.dim(0), where);
}

YOTTA_INLINE void embedding_shard_backward(const Tensor& dy, const Tensor& ids, Tensor& dtable,
                                           int64_t first, int64_t V, Where where) {
  expect_dims("embedding_backward", "dtable", dtable, 2, "(V, C)", where);
  const int64_t rows = dtable.dim(0), C = dtable.dim(1);
  if (ids.device() != Device::cuda)  // the forward pass has launched the check
    detail::expect_ids("embedding_backward", ids, V, where);
  const int64_t N = ids.dim(0);
  expect_shape("embedding_backward", "dy", dy, {N, C}, where);
  charge(embedding_backward_cost(dy.dtype(), N * rows / std::max<int64_t>(1, V), C));
  const Device device = dy.device();
  if (device == Device::meta) return;
  visit_activation(dy.dtype(), where, [&]<class Number>(Type<Number>) {
    const detail::AddRows<Number, detail::RowOfId> body{
        N,
        C,
        dy.address<Number>(device, where),
        {ids.address<int32_t>(device, where), first, rows},
        dtable.address<Computed<Number>>(device, where)};
    detail::add_rows("embedding_backward", device, body, where);
  });
}

YOTTA_INLINE void embedding_backward(const Tensor& dy, const Tensor& ids, Tensor& dtable,
                                     Where where) {
  expect_dims("embedding_backward", "dtable", dtable, 2, "(V, C)", where);
  embedding_shard_backward(dy, ids, dtable, 0, dtable.dim(0), where);
}

YOTTA_INLINE void add_positions(Tensor& x, const Tensor& positions, int64_t T, const Positions& at,
                                Where where) {
  detail::expect_positions("add_positions", x, positions, T, at, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  charge(add_positions_cost(x.dtype(), N, C));
  const Device device = x.device();
  if (device == Device::meta) return;
  visit_activation(x.dtype(), where, [&]<class Number>(Type<Number>) {
    const detail::AddPosition<Number> body{C,
                                           positions.address<Number>(device, where),
                                           {at, T, at.each()},
                                           x.address<Number>(device, where)};
    run_rows<Number>("add_positions", device, N, C, body, where);
  });
}

YOTTA_INLINE void positions_backward(const Tensor& dy, Tensor& dpositions, int64_t T,
                                     const Positions& at, Where where) {
  detail::expect_positions("positions_backward", dy, dpositions, T, at, where);
  const int64_t N = dy.dim(0), C = dy.dim(1);
  charge(positions_backward_cost(dy.dtype(), N, C));
  const Device device = dy.device();
  if (device == Device::meta) return;
  visit_activation(dy.dtype(), where, [&]<class Number>(Type<Number>) {
    Computed<Number>* const sums = dpositions.address<Computed<Number>>(device, where);
    const detail::AddRows<Number, detail::RowOfPosition> body{
        N, C, dy.address<Number>(device, where), {at, T, at.each()}, sums};
    detail::add_rows("positions_backward", device, body, where);
  });
}

}  // namespace yotta
