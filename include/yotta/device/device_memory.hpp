// Device memory: cudaMalloc and its family in both builds, and DeviceArray, which owns an array
// there.
//
//     host     std::vector<float> ----> DeviceArray<float> x(vector)      copied to the device
//     kernel                            launch(k, ..., x.data())
//     host     std::vector<float> <---- x.to_host()                       copied back
//
// On the CPU the memory is ordinary memory, 256-byte aligned as on a GPU, and every allocation is
// known by its address and size. Fresh memory holds no zeros: its bytes are 0xff, NaN in every
// float format.
// nvcc compiles this file too.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "yotta/device/kernel.hpp"
#if !defined(__CUDACC__)
#include "yotta/device/emulator/global_memory.hpp"
#include "yotta/device/emulator/stream_words.hpp"
#endif

namespace yotta {

[[noreturn]] inline void refuse_copy(size_t size, size_t given, Where where) {
  fail(where, "an array of {} elements cannot be filled from {}", size, given);
}

inline namespace YOTTA_DEVICE_BUILD {

// An array on the device.
template <class T>
class DeviceArray {
 public:
  // n elements, not initialised.
  explicit DeviceArray(size_t n, Where where = Where::current()) : size_(n) {
    if (n > 0) check_cuda(cudaMalloc(reinterpret_cast<void**>(&data_), n * sizeof(T)), where);
  }
  // A copy of elements of the host.
  explicit DeviceArray(std::span<const T> host, Where where = Where::current())
      : DeviceArray(host.size(), where) {
    copy_from(host, where);
  }
  explicit DeviceArray(const std::vector<T>& host, Where where = Where::current())
      : DeviceArray(std::span<const T>(host), where) {}
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  // Names the array, for messages: "a, row 65 of 65". columns: of the matrix that it holds.
  DeviceArray& named([[maybe_unused]] const char* name, [[maybe_unused]] size_t columns = 0) {
#if !defined(__CUDACC__)
    DeviceMemory::instance().name(data_, name, columns);
#endif
    return *this;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }

  // host must have size() elements.
  void copy_from(std::span<const T> host, Where where = Where::current()) {
    if (host.size() != size_) refuse_copy(size_, host.size(), where);
    if (size_ > 0)
      check_cuda(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), where);
  }
  void fill_zero(Where where = Where::current()) {
    if (size_ > 0) check_cuda(cudaMemset(data_, 0, size_ * sizeof(T)), where);
  }
  // Waits for the kernels launched before.
  std::vector<T> to_host(Where where = Where::current()) const {
    std::vector<T> host(size_);
    if (size_ > 0)
      check_cuda(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), where);
#if defined(YOTTA_CHECKED)
    emulator::refuse_unset_locals(data_, host, where);
#endif
    return host;
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace YOTTA_DEVICE_BUILD

}  // namespace yotta
