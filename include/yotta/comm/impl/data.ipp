// The bodies of data.hpp.
#pragma once

#include "yotta/comm/data.hpp"
#include "yotta/comm/engine/reduce_arithmetic.hpp"
#include "yotta/core/context.hpp"
#include "yotta/core/system/accelerator.hpp"

namespace yotta {

[[noreturn]] YOTTA_INLINE void fail_part(int64_t begin, int64_t end, int64_t count, Where where) {
  fail(where, "part {} to {} of {} elements: 0 <= begin <= end <= {} must hold", begin, end, count,
       count);
}
[[noreturn]] YOTTA_INLINE void fail_chunk(int64_t i, int64_t p, Where where) {
  fail(where, "chunk {} of {}: the chunks are 0 to {}; wrap(i, p) goes round a circle of ranks", i,
       p, p - 1);
}

YOTTA_INLINE void expect_apart(ConstData out, ConstData in, Where where) {
  if (out.bytes == nullptr || out.nbytes() == 0 || in.nbytes() == 0) return;
  if (out.bytes + out.nbytes() <= in.bytes || in.bytes + in.nbytes() <= out.bytes) return;
  fail(where,
       "send_recv of {} {} and {} {} in the same memory: what arrives overwrites what has not left "
       "yet; receive into another buffer",
       out.count, name(out.dtype), in.count, name(in.dtype));
}

YOTTA_INLINE void copy_data(ConstData from, Data to) {
  if (from.nbytes() == 0 || from.bytes == to.bytes || to.device == Device::meta) return;
  if (to.device == Device::cuda)
    accelerator()->copy(to.bytes, from.bytes, from.nbytes(), Transfer::on_device);
  else
    std::memmove(to.bytes, from.bytes, static_cast<size_t>(from.nbytes()));
}

YOTTA_INLINE void reduce_into(Data to, ConstData from, ReduceOp op) {
  if (CostSink* clock = context().clock) clock->reduce(context().lane, to.nbytes());
  if (to.device == Device::meta) return;
  visit(to.dtype, [&]<class T>(Type<T>) {
    T* a = reinterpret_cast<T*>(to.bytes);
    const T* b = reinterpret_cast<const T*>(from.bytes);
    if (to.device == Device::cuda)
      return run_kernel("a reduction", ReduceBody<T>{a, b, op}, to.count, Where::current());
    visit_op<T>(op, [&](auto combine) {
      for (int64_t i = 0; i < to.count; ++i) a[i] = combine(a[i], b[i]);
    });
  });
}

YOTTA_INLINE void divide(Data data, int p) {
  if (data.device == Device::meta) return;
  visit(data.dtype, [&]<class T>(Type<T>) {
    const DivideBody<T> body{reinterpret_cast<T*>(data.bytes), p};
    if (data.device == Device::cuda)
      return run_kernel("a mean", body, data.count, Where::current());
    for (int64_t i = 0; i < data.count; ++i) body(i, OneLane{});
  });
}

}  // namespace yotta
