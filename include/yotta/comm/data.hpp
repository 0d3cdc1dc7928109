// What collectives work on: a run of numbers of one type, how it is cut into chunks, how two are reduced.
//
//     17 numbers over 4 ranks: the first 17 % 4 chunks are one longer
//     chunk 0 [0 1 2 3 4]  chunk 1 [5 6 7 8]  chunk 2 [9 10 11 12]  chunk 3 [13 14 15 16]
//
// Data is a view, not an owner: it is made from a Tensor, a std::vector or a std::span and must not
// outlive it. ConstData is the same for what is only read. Counts are in elements, never in bytes.
// Data on Device::meta has a count and no address: it is sent, counted and timed like any other, but
// nothing is copied or computed.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "yotta/core/parallel_for.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta {

// Elements [begin, end) of `count`; chunk i of p. Inline checks, so that the way to the error is short.
[[noreturn]] inline void fail_part(int64_t begin, int64_t end, int64_t count, Where where) {
  fail(where, "part {} to {} of {} elements: 0 <= begin <= end <= {} must hold", begin, end, count,
       count);
}
[[noreturn]] inline void fail_chunk(int64_t i, int64_t p, Where where) {
  fail(where, "chunk {} of {}: the chunks are 0 to {}; wrap(i, p) goes round a circle of ranks", i,
       p, p - 1);
}
inline void expect_part(int64_t begin, int64_t end, int64_t count, Where where) {
  if (begin < 0 || end < begin || count < end) fail_part(begin, end, count, where);
}
inline void expect_chunk(int64_t i, int64_t p, Where where) {
  if (i < 0 || i >= p) fail_chunk(i, p, where);
}

struct ConstData {
  const std::byte* bytes = nullptr;
  int64_t count = 0;
  DType dtype = DType::u8;
  Device device = Device::cpu;

  ConstData() = default;
  ConstData(const std::byte* first, int64_t elements, DType type, Device on = Device::cpu)
      : bytes(first), count(elements), dtype(type), device(on) {}
  ConstData(const Tensor& tensor)
      : bytes(static_cast<const std::byte*>(tensor.raw())),
        count(tensor.numel()),
        dtype(tensor.dtype()),
        device(tensor.device()) {}
  template <class T>
  ConstData(std::span<const T> numbers)
      : bytes(reinterpret_cast<const std::byte*>(numbers.data())),
        count(std::ssize(numbers)),
        dtype(dtype_of<T>) {}
  template <class T>
  ConstData(const std::vector<T>& numbers) : ConstData(std::span<const T>(numbers)) {}

  int64_t nbytes() const { return count * bytes_of(dtype); }
  // Elements [begin, end).
  ConstData part(int64_t begin, int64_t end, Where where = Where::current()) const {
    expect_part(begin, end, count, where);
    const int64_t offset = bytes == nullptr ? 0 : begin * bytes_of(dtype);
    return {bytes + offset, end - begin, dtype, device};
  }
  // Chunk i of p.
  ConstData chunk(int64_t i, int64_t p, Where where = Where::current()) const {
    expect_chunk(i, p, where);
    return part(chunk_begin(count, p, i), chunk_begin(count, p, i + 1), where);
  }
};

struct Data {
  std::byte* bytes = nullptr;
  int64_t count = 0;
  DType dtype = DType::u8;
  Device device = Device::cpu;

  Data() = default;
  Data(std::byte* first, int64_t elements, DType type, Device on = Device::cpu)
      : bytes(first), count(elements), dtype(type), device(on) {}
  Data(Tensor& tensor)
      : bytes(static_cast<std::byte*>(tensor.raw())),
        count(tensor.numel()),
        dtype(tensor.dtype()),
        device(tensor.device()) {}
  template <class T>
  Data(std::span<T> numbers)
      : bytes(reinterpret_cast<std::byte*>(numbers.data())),
        count(std::ssize(numbers)),
        dtype(dtype_of<T>) {}
  template <class T>
  Data(std::vector<T>& numbers) : Data(std::span<T>(numbers)) {}

  operator ConstData() const { return {bytes, count, dtype, device}; }
  int64_t nbytes() const { return count * bytes_of(dtype); }
  Data part(int64_t begin, int64_t end, Where where = Where::current()) const {
    expect_part(begin, end, count, where);
    const int64_t offset = bytes == nullptr ? 0 : begin * bytes_of(dtype);
    return {bytes + offset, end - begin, dtype, device};
  }
  Data chunk(int64_t i, int64_t p, Where where = Where::current()) const {
    expect_chunk(i, p, where);
    return part(chunk_begin(count, p, i), chunk_begin(count, p, i + 1), where);
  }
};

// Throws if what is sent and what arrives lie in the same memory.
inline void expect_apart(ConstData out, ConstData in, Where where) {
  if (out.bytes == nullptr || out.nbytes() == 0 || in.nbytes() == 0) return;
  if (out.bytes + out.nbytes() <= in.bytes || in.bytes + in.nbytes() <= out.bytes) return;
  fail(where,
       "send_recv of {} {} and {} {} in the same memory: what arrives overwrites what has not left "
       "yet; receive into another buffer",
       out.count, name(out.dtype), in.count, name(in.dtype));
}

// Length of chunk i when `count` elements are cut into p chunks.
constexpr int64_t chunk_count(int64_t count, int64_t p, int64_t i) {
  return chunk_begin(count, p, i + 1) - chunk_begin(count, p, i);
}

// to = from; same count, type and device.
inline void copy_data(ConstData from, Data to) {
  if (from.nbytes() == 0 || from.bytes == to.bytes || to.device == Device::meta) return;
  if (to.device == Device::cuda)
    accelerator()->copy(to.bytes, from.bytes, from.nbytes(), Transfer::on_device);
  else
    std::memmove(to.bytes, from.bytes, static_cast<size_t>(from.nbytes()));
}

// NCCL's names. mean is a sum that is divided by the number of ranks at the end.
enum class ReduceOp : uint8_t { sum, mean, max, min, prod };
constexpr const char* name(ReduceOp op) {
  constexpr const char* names[] = {"sum", "mean", "max", "min", "prod"};
  return names[static_cast<int>(op)];
}

// The type that numbers of type T are combined in: small floats in f32, then rounded once.
template <class T>
using Wide = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

// Calls f(combine), where combine(x, y) is x (op) y on numbers of type T. A NaN on either side survives
// every operation, max and min included.
template <class T, class F>
void visit_op(ReduceOp op, F&& f) {
  const auto rounded = [&](auto combine) {
    f([=](T x, T y) {
      return static_cast<T>(combine(static_cast<Wide<T>>(x), static_cast<Wide<T>>(y)));
    });
  };
  using W = Wide<T>;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: return rounded([](W x, W y) { return x + y; });
    case ReduceOp::prod: return rounded([](W x, W y) { return x * y; });
    case ReduceOp::max: return rounded([](W x, W y) { return x > y || x != x ? x : y; });
    case ReduceOp::min: return rounded([](W x, W y) { return x < y || x != x ? x : y; });
  }
}

// The bodies of the kernels behind reduce_into and divide on Device::cuda.
template <class T>
struct ReduceBody {
  T* to;
  const T* from;
  ReduceOp op;
  YOTTA_HOST_DEVICE void operator()(int64_t i, OneLane) const {
    const auto x = static_cast<Wide<T>>(to[i]), y = static_cast<Wide<T>>(from[i]);
    auto result = x + y;
    if (op == ReduceOp::prod) result = x * y;
    if (op == ReduceOp::max) result = x > y || x != x ? x : y;
    if (op == ReduceOp::min) result = x < y || x != x ? x : y;
    to[i] = static_cast<T>(result);
  }
};
template <class T>
struct DivideBody {
  T* data;
  int by;
  YOTTA_HOST_DEVICE void operator()(int64_t i, OneLane) const {
    data[i] = static_cast<T>(static_cast<Wide<T>>(data[i]) / static_cast<Wide<T>>(by));
  }
};

// to = to (op) from, element by element. A clock charges it to the lane it runs on.
inline void reduce_into(Data to, ConstData from, ReduceOp op) {
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

// data = data / p: what turns a sum over p ranks into a mean. Integers round towards zero.
inline void divide(Data data, int p) {
  if (data.device == Device::meta) return;
  visit(data.dtype, [&]<class T>(Type<T>) {
    const DivideBody<T> body{reinterpret_cast<T*>(data.bytes), p};
    if (data.device == Device::cuda)
      return run_kernel("a mean", body, data.count, Where::current());
    for (int64_t i = 0; i < data.count; ++i) body(i, OneLane{});
  });
}

}  // namespace yotta
