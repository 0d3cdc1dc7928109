// Accelerator: what the library knows of Device::cuda without knowing CUDA.
//
//     g++ compiles                              nvcc compiles (or g++, for the emulator)
//     Tensor ── allocate, copy, zero ─────────► CudaAccelerator, device/cuda/cuda_accelerator.hpp
//     ops    ── KernelOf<Body>::launch ───────► the kernel of that body, nn/cuda/cuda_kernels.hpp
//
// Both are slots, empty until a program that is built with CUDA fills them, at its start. So one
// header of an op serves every build, and a program without CUDA says in one line what it lacks.
//
// An op's inner body is a functor, a struct of pointers and numbers. On the CPU the op runs it in a
// loop; on Device::cuda run_kernel hands it to the kernel that was compiled for its type.
//
// Everything on a device happens in order, on the stream of its rank, and returns at once. The host
// waits where it asks for values: copies to the host, and wait().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "yotta/core/error.hpp"
#include "yotta/core/system/build.hpp"
#include "yotta/core/system/late_checks.hpp"

// Functions of the host and of kernels alike.
#if defined(__CUDACC__)
#define YOTTA_HOST_DEVICE __host__ __device__
#else
#define YOTTA_HOST_DEVICE
#endif
// A functor's operator() that a loop or a kernel takes in whole.
#define YOTTA_BODY [[gnu::always_inline]] YOTTA_HOST_DEVICE inline

namespace yotta {

// What was recorded on a device, to be done again as a whole.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void launch(Where where) = 0;
};

enum class Transfer : uint8_t { to_device, to_host, on_device };

class Accelerator {
 public:
  virtual ~Accelerator() = default;
  virtual void* allocate(int64_t bytes, Where where) = 0;  // null for 0 bytes
  virtual void release(void* memory) noexcept = 0;
  virtual void copy(void* to, const void* from, int64_t bytes, Transfer transfer) = 0;
  // `rows` rows of `bytes` on the device, that lie to_row and from_row bytes apart.
  virtual void copy_rows(void* to, int64_t to_row, const void* from, int64_t from_row,
                         int64_t bytes, int64_t rows) = 0;
  virtual void zero(void* memory, int64_t bytes) = 0;
  // The host waits until all that was asked for has been done. Throws what late checks have found.
  virtual void wait(Where where = Where::current()) = 0;
  // Records what body() asks of the device, which does none of it yet. body() must not wait for
  // values, bring numbers of the host, or ask for more memory than a run of it just before has
  // left: each is refused with its reason. What it reads and writes elsewhere must outlive the
  // record.
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& body, Where where) = 0;
  // What the host asks for in between has this name in a profiler's timeline. Ranges lie in each
  // other.
  virtual void begin_range(const std::string& /*name*/) {}
  virtual void end_range() {}
  // Where kernels write down what late checks find.
  virtual LateFinding* finding(Where where) = 0;

  LateChecks late_checks;
};

// The one of this process; null: there is none, and why.
Accelerator*& accelerator();
std::string& why_no_accelerator();
Accelerator& accelerator_or_fail(Where where);

// Memory of a device that one op uses for itself, on no ledger, like the CPU's PackBuffer.
class DeviceScratch {
 public:
  explicit DeviceScratch(int64_t bytes, Where where)
      : memory_(accelerator_or_fail(where).allocate(bytes, where)) {}
  ~DeviceScratch() { accelerator()->release(memory_); }
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_;
};

// While it lives, a range: "layers.3 forward". Nothing where there is no device.
class RangeScope {
 public:
  RangeScope(const std::string& of, const char* what) : device_(accelerator()) {
    if (device_ != nullptr) device_->begin_range(of + " " + what);
  }
  ~RangeScope() {
    if (device_ != nullptr) device_->end_range();
  }
  RangeScope(const RangeScope&) = delete;
  RangeScope& operator=(const RangeScope&) = delete;

 private:
  Accelerator* device_;
};

// How many neighbouring numbers a body works on at once: in a kernel one a thread, on the CPU a
// register full (nn/cpu/vectors.hpp).
struct OneLane {};

// Where a body's kernel is: launch(body, items, where) runs it for items 0, 1, ..., items - 1.
template <class Body>
struct KernelOf {
  using Launch = void (*)(const Body& body, int64_t items, Where where);
  static inline Launch launch = nullptr;
};

// What this thread has gathered and not launched yet: a KernelBatch (kernel_batch.hpp).
class Gathered {
 public:
  virtual ~Gathered() = default;
  virtual void run(Where where) = 0;
};
Gathered*& gathered_kernels();  // this thread's; null: nothing is gathered
// What was gathered comes before what is to follow.
void launch_gathered(Where where);

// body for every item, by its kernel. `operation`: for the message if this build has none.
template <class Body>
void run_kernel(const char* operation, const Body& body, int64_t items, Where where) {
  if (items == 0) return;
  if (KernelOf<Body>::launch == nullptr)
    fail(where, "{}: this build has no kernel for it; copy its tensors with .to(Device::cpu)",
         operation);
  launch_gathered(where);
  KernelOf<Body>::launch(body, items, where);
}

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/system/impl/accelerator.ipp"
#endif
