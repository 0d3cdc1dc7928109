// Tensor: a shape, a type, and a shared buffer of numbers in row-major order.
//
//     Tensor x = Tensor::zeros({4, 3});        buffer  [ . . . | . . . | . . . | . . . ]
//     Tensor y = x.rows(1, 3);      // (2, 3)                    ^-------------^  same memory
//     Tensor z = y.reshape({6});    // (6)                       ^-------------^  same memory
//     Tensor w = z.clone();         // (6)     a buffer of its own
//
// Copying a Tensor copies the handle, as in PyTorch. Tensors are always contiguous: leading rows
// and reshapes are views, everything else is an explicit copy, so a pointer and a count say it all
// to a communication library and to a kernel. New tensors live on context().device and are counted
// as context().memory_kind. A tensor on Device::meta has no data: asking for it throws.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "yotta/core/memory.hpp"

namespace yotta {

using Shape = std::vector<int64_t>;

// "(2, 3)"
std::string str(const Shape& shape);

// The numbers in a tensor of this shape; 1 for (). Throws if no memory could hold them: 2^59
// numbers of 16 bytes.
int64_t product(const Shape& shape, Where where = Where::current());

inline namespace YOTTA_FORM {

class Tensor {
 public:
  Tensor() = default;  // holds nothing: defined() is false

  // Values are not set (in debug builds they are NaN).
  static Tensor empty(Shape shape, DType dtype = DType::f32, Where where = Where::current());
  static Tensor zeros(Shape shape, DType dtype = DType::f32, Where where = Where::current());
  static Tensor full(Shape shape, double value, DType dtype = DType::f32,
                     Where where = Where::current());
  // from<float>({1, 2, 3, 4}, {2, 2})
  template <class T>
  static Tensor from(const std::vector<T>& values, Shape shape, Where where = Where::current()) {
    if (product(shape) != std::ssize(values))
      fail(where, "{} values do not fill a tensor of shape {}", values.size(), str(shape));
    Tensor made = empty(std::move(shape), dtype_of<T>, where);
    made.set(values.data());
    return made;
  }

  bool defined() const { return buffer_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int ndim() const { return static_cast<int>(shape_.size()); }
  int64_t numel() const { return defined() ? product(shape_) : 0; }
  int64_t nbytes() const { return numel() * bytes_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  MemoryKind memory_kind() const { return buffer_->kind(); }
  // Whether both look at the same buffer.
  bool shares_memory(const Tensor& other) const { return defined() && buffer_ == other.buffer_; }

  // Size of a dimension; negative counts from the last: dim(-1) is the row length.
  int64_t dim(int i, Where where = Where::current()) const;

  // "(2, 3) f32", with the device if it is not the cpu.
  std::string describe() const;

  // The numbers, row-major, in the host's memory. T must be the tensor's own type.
  template <class T>
  T* data(Where where = Where::current()) {
    return static_cast<T*>(raw(dtype_of<T>, where));
  }
  template <class T>
  const T* data(Where where = Where::current()) const {
    return static_cast<const T*>(raw(dtype_of<T>, where));
  }
  template <class T>
  std::span<T> span(Where where = Where::current()) {
    return {data<T>(where), static_cast<size_t>(numel())};
  }
  template <class T>
  std::span<const T> span(Where where = Where::current()) const {
    return {data<T>(where), static_cast<size_t>(numel())};
  }
  // The numbers on the device where a body runs, as a kernel or in a loop. Throws if they are
  // elsewhere.
  template <class T>
  T* address(Device on, Where where = Where::current()) {
    return static_cast<T*>(checked(on, dtype_of<T>, where));
  }
  template <class T>
  const T* address(Device on, Where where = Where::current()) const {
    return static_cast<const T*>(checked(on, dtype_of<T>, where));
  }
  // Untyped, for code that moves bytes; null on meta.
  void* raw() const { return bytes_; }

  // One element as a double: x.item({1, 2}). For tests and printing, not for loops.
  double item(std::initializer_list<int64_t> index = {}, Where where = Where::current()) const;
  // All elements as doubles, row-major.
  std::vector<double> values(Where where = Where::current()) const;

  // Views: the same memory. Rows of the leading dim; a reshape, of which one size may be -1.
  Tensor rows(int64_t begin, int64_t end, Where where = Where::current()) const;
  Tensor reshape(Shape shape, Where where = Where::current()) const;

  // Copies: memory of their own.
  Tensor clone(Where where = Where::current()) const;
  Tensor to(DType dtype, Where where = Where::current()) const;
  Tensor to(Device device, Where where = Where::current()) const;

  // Overwrite with the values of a tensor of the same shape, converted if the types differ, from
  // whichever device it is on; only meta stays among itself.
  void copy_from(const Tensor& from, Where where = Where::current());
  void fill(double value, Where where = Where::current());
  void zero();

 private:
  // copy_from where one side, or both, are on cuda. Types are converted where there is a way: on
  // the device between f32 and bf16, else on the host.
  void transfer(const Tensor& from, Where where);
  // Its numbers, from the host's memory.
  void set(const void* numbers);
  void* raw(DType wanted, Where where) const { return checked(Device::cpu, wanted, where); }
  void* checked(Device on, DType wanted, Where where) const;

  std::shared_ptr<Buffer> buffer_;
  std::byte* bytes_ = nullptr;  // this view's first element
  Shape shape_;
  DType dtype_ = DType::f32;
  Device device_ = Device::cpu;
};

}  // namespace YOTTA_FORM

// Throws unless x has the shape that an operation expects.
void expect_shape(const char* operation, const char* what, const Tensor& x, const Shape& expected,
                  Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/impl/tensor.ipp"
#endif
