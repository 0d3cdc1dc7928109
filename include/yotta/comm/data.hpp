// What collectives work on: a run of numbers of one type, how it is cut into chunks, how two are
// reduced.
//
//     17 numbers over 4 ranks: the first 17 % 4 chunks are one longer
//     chunk 0 [0 1 2 3 4]  chunk 1 [5 6 7 8]  chunk 2 [9 10 11 12]  chunk 3 [13 14 15 16]
//
// Data is a view, not an owner: it is made from a Tensor, a std::vector or a std::span and must not
// outlive it. ConstData is the same for what is only read. Counts are in elements, never in bytes.
// Data on Device::meta has a count and no address: it is sent, counted and timed like any other,
// but nothing is copied or computed.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "yotta/comm/comm_options.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta {

// Elements [begin, end) of `count`; chunk i of p. The checks are inline, the errors are not.
[[noreturn]] void fail_part(int64_t begin, int64_t end, int64_t count, Where where);
[[noreturn]] void fail_chunk(int64_t i, int64_t p, Where where);
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
void expect_apart(ConstData out, ConstData in, Where where);

// to = from; same count, type and device.
void copy_data(ConstData from, Data to);

// to = to (op) from, element by element. A clock charges it to the lane it runs on.
void reduce_into(Data to, ConstData from, ReduceOp op);

// data = data / p: what turns a sum over p ranks into a mean. Integers round towards zero.
void divide(Data data, int p);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/impl/data.ipp"
#endif
