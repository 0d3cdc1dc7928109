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
#include <string>

#include "yotta/core/error.hpp"
#include "yotta/core/system/build.hpp"

// Functions of the host and of kernels alike.
#if defined(__CUDACC__)
#define YOTTA_HOST_DEVICE __host__ __device__
#else
#define YOTTA_HOST_DEVICE
#endif
// A functor's operator() that a loop or a kernel takes in whole.
#define YOTTA_BODY [[gnu::always_inline]] YOTTA_HOST_DEVICE inline

namespace yotta {

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
  // The host waits until all that was asked for has been done.
  virtual void wait(Where where = Where::current()) = 0;
};

// The one of this process; null: there is none, and why.
Accelerator*& accelerator();
std::string& why_no_accelerator();
Accelerator& accelerator_or_fail(Where where);

// How many neighbouring numbers a body works on at once: in a kernel one a thread, on the CPU a
// register full (nn/cpu/vectors.hpp).
struct OneLane {};

// Where a body's kernel is: launch(body, items, where) runs it for items 0, 1, ..., items - 1.
template <class Body>
struct KernelOf {
  using Launch = void (*)(const Body& body, int64_t items, Where where);
  static inline Launch launch = nullptr;
};

// body for every item, by its kernel. `operation`: for the message if this build has none.
template <class Body>
void run_kernel(const char* operation, const Body& body, int64_t items, Where where) {
  if (items == 0) return;
  if (KernelOf<Body>::launch == nullptr)
    fail(where, "{}: this build has no kernel for it; copy its tensors with .to(Device::cpu)",
         operation);
  KernelOf<Body>::launch(body, items, where);
}

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/system/impl/accelerator.ipp"
#endif
