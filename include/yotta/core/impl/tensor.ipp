// The bodies of tensor.hpp.
#pragma once

#include "yotta/core/tensor.hpp"

#include <algorithm>
#include <cstring>

#include "yotta/core/cpu/convert.hpp"

namespace yotta {

YOTTA_INLINE std::string str(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

YOTTA_INLINE int64_t product(const Shape& shape, Where where) {
  int64_t count = 1;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count) || count > (int64_t{1} << 59))
      fail(where, "a tensor of shape {} has more numbers than any memory holds", str(shape));
  return count;
}

YOTTA_INLINE Tensor Tensor::empty(Shape shape, DType dtype, Where where) {
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

YOTTA_INLINE Tensor Tensor::zeros(Shape shape, DType dtype, Where where) {
  Tensor made = empty(std::move(shape), dtype, where);
  made.zero();
  return made;
}

YOTTA_INLINE Tensor Tensor::full(Shape shape, double value, DType dtype, Where where) {
  Tensor made = empty(std::move(shape), dtype, where);
  made.fill(value);
  return made;
}

YOTTA_INLINE int64_t Tensor::dim(int i, Where where) const {
  const int index = i < 0 ? i + ndim() : i;
  if (index < 0 || index >= ndim()) fail(where, "dim {} of a tensor {}", i, describe());
  return shape_[static_cast<size_t>(index)];
}

YOTTA_INLINE std::string Tensor::describe() const {
  if (!defined()) return "(undefined)";
  const std::string text = str(shape_) + " " + name(dtype_);
  return device_ == Device::cpu ? text : text + " on " + name(device_);
}

YOTTA_INLINE std::vector<double> Tensor::values(Where where) const {
  if (device_ == Device::cuda) return to(Device::cpu, where).values(where);
  std::vector<double> out(static_cast<size_t>(numel()));
  visit(dtype_, [&]<class T>(Type<T>) {
    for (int64_t i = 0; const T& value : span<T>(where))
      out[static_cast<size_t>(i++)] = static_cast<double>(value);
  });
  return out;
}

YOTTA_INLINE Tensor Tensor::clone(Where where) const {
  const DeviceScope scope(device_);
  Tensor made = empty(shape_, dtype_, where);
  made.copy_from(*this, where);
  return made;
}

YOTTA_INLINE Tensor Tensor::to(DType dtype, Where where) const {
  const DeviceScope scope(device_);
  Tensor made = empty(shape_, dtype, where);
  made.copy_from(*this, where);
  return made;
}

YOTTA_INLINE Tensor Tensor::to(Device device, Where where) const {
  const DeviceScope scope(device);
  Tensor made = empty(shape_, dtype_, where);
  made.copy_from(*this, where);
  return made;
}

YOTTA_INLINE void Tensor::copy_from(const Tensor& from, Where where) {
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

YOTTA_INLINE void Tensor::fill(double value, Where where) {
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

YOTTA_INLINE void Tensor::transfer(const Tensor& from, Where where) {
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

YOTTA_INLINE void* Tensor::checked(Device on, DType wanted, Where where) const {
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

YOTTA_INLINE void expect_shape(const char* operation, const char* what, const Tensor& x,
                               const Shape& expected, Where where) {
  if (x.shape() != expected)
    fail(where, "{}: {} is {}, expected {}", operation, what, x.describe(), str(expected));
}

YOTTA_INLINE double Tensor::item(std::initializer_list<int64_t> index, Where where) const {
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

YOTTA_INLINE Tensor Tensor::rows(int64_t begin, int64_t end, Where where) const {
  if (ndim() == 0 || begin < 0 || end < begin || end > shape_[0])
    fail(where, "rows {} to {} of a tensor {}", begin, end, describe());
  Tensor view = *this;
  view.shape_[0] = end - begin;
  const int64_t row_bytes = shape_[0] == 0 ? 0 : nbytes() / shape_[0];
  if (bytes_ != nullptr) view.bytes_ = bytes_ + begin * row_bytes;
  return view;
}

YOTTA_INLINE Tensor Tensor::reshape(Shape shape, Where where) const {
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

YOTTA_INLINE void Tensor::zero() {
  if (bytes_ == nullptr) return;  // every type's zero is zero bytes
  if (device_ == Device::cuda) return accelerator()->zero(bytes_, nbytes());
  std::memset(bytes_, 0, static_cast<size_t>(nbytes()));
}

YOTTA_INLINE void Tensor::set(const void* numbers) {
  if (nbytes() == 0) return;  // there may be no address
  if (device_ == Device::cpu) std::memcpy(bytes_, numbers, static_cast<size_t>(nbytes()));
  if (device_ == Device::cuda) accelerator()->copy(bytes_, numbers, nbytes(), Transfer::to_device);
}

}  // namespace yotta
