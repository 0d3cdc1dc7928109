// Tensor: a shape, a type, and a shared buffer of numbers in row-major order.
//
//     Tensor x = Tensor::zeros({4, 3});        buffer  [ . . . | . . . | . . . | . . . ]
//     Tensor y = x.rows(1, 3);      // (2, 3)                    ^-------------^  same memory
//     Tensor z = y.reshape({6});    // (6)                       ^-------------^  same memory
//     Tensor w = z.clone();         // (6)     a buffer of its own
//
// Copying a Tensor copies the handle, as in PyTorch. Tensors are always contiguous: leading rows and
// reshapes are views, everything else is an explicit copy, so a pointer and a count say it all to a
// communication library and to a kernel. New tensors live on context().device and are counted as
// context().memory_kind. A tensor on Device::meta has no data: asking for it throws.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "yotta/core/memory.hpp"

#if YOTTA_BODIES_OF(core)
#include "yotta/core/cpu/convert.hpp"
#endif  // YOTTA_BODIES

namespace yotta {

using Shape = std::vector<int64_t>;

// "(2, 3)"
YOTTA_API std::string str(const Shape& shape);

// The numbers in a tensor of this shape; 1 for (). Throws if no memory could hold them: 2^59 numbers of 16 bytes.
YOTTA_API int64_t product(const Shape& shape, Where where = Where::current());

inline namespace YOTTA_FORM {

class Tensor {
 public:
  Tensor() = default;  // holds nothing: defined() is false

  // Values are not set (in debug builds they are NaN).
  YOTTA_API static Tensor empty(Shape shape, DType dtype = DType::f32,
                                Where where = Where::current());
  YOTTA_API static Tensor zeros(Shape shape, DType dtype = DType::f32,
                                Where where = Where::current());
  YOTTA_API static Tensor full(Shape shape, double value, DType dtype = DType::f32,
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
  YOTTA_API int64_t dim(int i, Where where = Where::current()) const;

  // "(2, 3) f32", with the device if it is not the cpu.
  YOTTA_API std::string describe() const;

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
  // The numbers on the device where a body runs, as a kernel or in a loop. Throws if they are elsewhere.
  template <class T>
  T* address(Device on, Where where = Where::current()) {
    return static_cast<T*>(checked(on, dtype_of<T>, where));
  }
  template <class T>
  const T* address(Device on, Where where = Where::current()) const {
    return static_cast<const T*>(checked(on, dtype_of<T>, where));
  }
  // Untyped, for those who move bytes; null on meta.
  void* raw() const { return bytes_; }

  // One element as a double: x.item({1, 2}). For tests and printing, not for loops.
  YOTTA_API double item(std::initializer_list<int64_t> index = {},
                        Where where = Where::current()) const;
  // All elements as doubles, row-major.
  YOTTA_API std::vector<double> values(Where where = Where::current()) const;

  // Views: the same memory. Rows of the leading dim; a reshape, of which one size may be -1.
  YOTTA_API Tensor rows(int64_t begin, int64_t end, Where where = Where::current()) const;
  YOTTA_API Tensor reshape(Shape shape, Where where = Where::current()) const;

  // Copies: memory of their own.
  YOTTA_API Tensor clone(Where where = Where::current()) const;
  YOTTA_API Tensor to(DType dtype, Where where = Where::current()) const;
  YOTTA_API Tensor to(Device device, Where where = Where::current()) const;

  // Overwrite with the values of a tensor of the same shape, converted if the types differ, from whichever
  // device it is on; only meta stays among itself.
  YOTTA_API void copy_from(const Tensor& from, Where where = Where::current());
  YOTTA_API void fill(double value, Where where = Where::current());
  YOTTA_API void zero();

 private:
  // copy_from where one side, or both, are on cuda. Types are converted where there is a way: on the device
  // between f32 and bf16, else on the host.
  YOTTA_API void transfer(const Tensor& from, Where where);
  // Its numbers, from the host's memory.
  YOTTA_API void set(const void* numbers);
  void* raw(DType wanted, Where where) const { return checked(Device::cpu, wanted, where); }
  YOTTA_API void* checked(Device on, DType wanted, Where where) const;

  std::shared_ptr<Buffer> buffer_;
  std::byte* bytes_ = nullptr;  // this view's first element
  Shape shape_;
  DType dtype_ = DType::f32;
  Device device_ = Device::cpu;
};

}  // namespace YOTTA_FORM

// Throws unless x has the shape that an operation expects.
YOTTA_API void expect_shape(const char* operation, const char* what, const Tensor& x,
                            const Shape& expected, Where where = Where::current());

#if YOTTA_BODIES_OF(core)

std::string str(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

int64_t product(const Shape& shape, Where where) {
  int64_t count = 1;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count) || count > (int64_t{1} << 59))
      fail(where, "a tensor of shape {} has more numbers than any memory holds", str(shape));
  return count;
}

Tensor Tensor::empty(Shape shape, DType dtype, Where where) {
  for (const int64_t size : shape)
    if (size < 0) fail(where, "a tensor of shape {} has a negative size", str(shape));
  Tensor made;
  made.device_ = context().device;
  made.buffer_ =
      std::make_shared<Buffer>(product(shape, where) * bytes_of(dtype), made.device_, where);
  made.bytes_ = static_cast<std::byte*>(made.buffer_->data());
  made.shape_ = std::move(shape);
  made.dtype_ = dtype;
  return made;
}

Tensor Tensor::zeros(Shape shape, DType dtype, Where where) {
  Tensor made = empty(std::move(shape), dtype, where);
  made.zero();
  return made;
}

Tensor Tensor::full(Shape shape, double value, DType dtype, Where where) {
  Tensor made = empty(std::move(shape), dtype, where);
  made.fill(value);
  return made;
}

int64_t Tensor::dim(int i, Where where) const {
  const int index = i < 0 ? i + ndim() : i;
  if (index < 0 || index >= ndim()) fail(where, "dim {} of a tensor {}", i, describe());
  return shape_[static_cast<size_t>(index)];
}

std::string Tensor::describe() const {
  if (!defined()) return "(undefined)";
  const std::string text = str(shape_) + " " + name(dtype_);
  return device_ == Device::cpu ? text : text + " on " + name(device_);
}

std::vector<double> Tensor::values(Where where) const {
  if (device_ == Device::cuda) return to(Device::cpu, where).values(where);
  std::vector<double> out(static_cast<size_t>(numel()));
  visit(dtype_, [&]<class T>(Type<T>) {
    for (int64_t i = 0; const T& value : span<T>(where))
      out[static_cast<size_t>(i++)] = static_cast<double>(value);
  });
  return out;
}

Tensor Tensor::clone(Where where) const {
  const DeviceScope scope(device_);
  Tensor made = empty(shape_, dtype_, where);
  made.copy_from(*this, where);
  return made;
}

Tensor Tensor::to(DType dtype, Where where) const {
  const DeviceScope scope(device_);
  Tensor made = empty(shape_, dtype, where);
  made.copy_from(*this, where);
  return made;
}

Tensor Tensor::to(Device device, Where where) const {
  const DeviceScope scope(device);
  Tensor made = empty(shape_, dtype_, where);
  made.copy_from(*this, where);
  return made;
}

void Tensor::copy_from(const Tensor& from, Where where) {
  if (from.shape_ != shape_ || (from.device_ == Device::meta) != (device_ == Device::meta))
    fail(where, "copy of {} into {}: shapes must agree, and both or none be on meta",
         from.describe(), describe());
  if (device_ == Device::meta) return;
  if (device_ == Device::cuda || from.device_ == Device::cuda) return transfer(from, where);
  if (from.dtype_ == dtype_) {
    std::memmove(bytes_, from.bytes_, static_cast<size_t>(nbytes()));
    return;
  }
  convert(bytes_, dtype_, from.bytes_, from.dtype_, numel());
}

void Tensor::fill(double value, Where where) {
  if (device_ == Device::meta) return;
  if (device_ == Device::cuda) {
    const DeviceScope scope(Device::cpu);
    return copy_from(full(shape_, value, dtype_, where), where);
  }
  visit(dtype_, [&]<class T>(Type<T>) {
    std::span<T> all = span<T>(where);
    std::fill(all.begin(), all.end(), static_cast<T>(value));
  });
}

void Tensor::transfer(const Tensor& from, Where where) {
  Accelerator& device = accelerator_or_fail(where);
  if (from.dtype_ == dtype_) {
    const Transfer way = from.device_ == Device::cpu ? Transfer::to_device
                         : device_ == Device::cpu    ? Transfer::to_host
                                                     : Transfer::on_device;
    return device.copy(bytes_, from.bytes_, nbytes(), way);
  }
  if (from.device_ == device_ && from.dtype_ == DType::f32 && dtype_ == DType::bf16)
    return run_kernel("conversion", Conversion<bfloat16, float>{bytes_, from.bytes_}, numel(),
                      where);
  if (from.device_ == device_ && from.dtype_ == DType::bf16 && dtype_ == DType::f32)
    return run_kernel("conversion", Conversion<float, bfloat16>{bytes_, from.bytes_}, numel(),
                      where);
  copy_from(from.to(Device::cpu, where).to(dtype_, where), where);
}

void* Tensor::checked(Device on, DType wanted, Where where) const {
  if (!defined()) fail(where, "this tensor holds nothing yet");
  if (device_ == Device::meta)
    fail(where, "{} has a shape but no data; what depends on values needs Device::cpu", describe());
  if (device_ != on)
    fail(where, "{} was read on {}; copy it with .to(Device::{})", describe(), yotta::name(on),
         yotta::name(on));
  if (wanted != dtype_)
    fail(where, "{} was read as {}; convert with .to(DType::{})", describe(), name(wanted),
         name(wanted));
  return bytes_;
}

void expect_shape(const char* operation, const char* what, const Tensor& x, const Shape& expected,
                  Where where) {
  if (x.shape() != expected)
    fail(where, "{}: {} is {}, expected {}", operation, what, x.describe(), str(expected));
}

double Tensor::item(std::initializer_list<int64_t> index, Where where) const {
  if (std::ssize(index) != ndim()) fail(where, "{} indices into {}", index.size(), describe());
  if (device_ == Device::cuda) return to(Device::cpu, where).item(index, where);
  int64_t offset = 0;
  for (int i = 0; const int64_t at : index) {
    const int64_t size = shape_[static_cast<size_t>(i++)];
    if (at < 0 || at >= size) fail(where, "index {} is outside {}", at, describe());
    offset = offset * size + at;
  }
  return visit(dtype_,
               [&]<class T>(Type<T>) { return static_cast<double>(data<T>(where)[offset]); });
}

Tensor Tensor::rows(int64_t begin, int64_t end, Where where) const {
  if (ndim() == 0 || begin < 0 || end < begin || end > shape_[0])
    fail(where, "rows {} to {} of a tensor {}", begin, end, describe());
  Tensor view = *this;
  view.shape_[0] = end - begin;
  const int64_t row_bytes = shape_[0] == 0 ? 0 : nbytes() / shape_[0];
  if (bytes_ != nullptr) view.bytes_ = bytes_ + begin * row_bytes;
  return view;
}

Tensor Tensor::reshape(Shape shape, Where where) const {
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& size : shape) {
    if (size == -1 && open == nullptr)
      open = &size;
    else
      known *= size;
  }
  if (open != nullptr) *open = known > 0 ? numel() / known : 0;
  if (product(shape) != numel())
    fail(where, "{} has {} elements, which do not reshape to {}", describe(), numel(), str(shape));
  Tensor view = *this;
  view.shape_ = std::move(shape);
  return view;
}

void Tensor::zero() {
  if (bytes_ == nullptr) return;  // every type's zero is zero bytes
  if (device_ == Device::cuda) return accelerator()->zero(bytes_, nbytes());
  std::memset(bytes_, 0, static_cast<size_t>(nbytes()));
}

void Tensor::set(const void* numbers) {
  if (device_ == Device::cpu) std::memcpy(bytes_, numbers, static_cast<size_t>(nbytes()));
  if (device_ == Device::cuda) accelerator()->copy(bytes_, numbers, nbytes(), Transfer::to_device);
}

#endif  // YOTTA_BODIES

}  // namespace yotta
