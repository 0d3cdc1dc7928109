// What becomes of kernel<<<grid, block, shared_bytes, stream>>>(arguments...) in the emulator. The
// source step (source_step.hpp) writes
//
//     launch_call([=](auto... a) { kernel(a...); }, LaunchShape(grid, block, ...))(arguments...)
//
// so that a template's parameters are deduced from the arguments, as CUDA does. What such a call
// resolves to has no name that could be used to take its address, and the emulator needs the
// address: for the kernel's __shared__ arrays, and for messages. So each launch calls the kernel
// once on the host's stack. It begins with kernel_is_asked(), which notes where it was called from,
// and returns.
//
// What a kernel's attributes say, __launch_bounds__ and __cluster_dims__, may depend on a
// template's parameters. So the kernel itself tells it, to kernel_is_asked(): <<<>>> launches in
// its clusters, a launch that names none begins again in them, and each thread compares the launch
// with both.
//
// As on a GPU, dynamic shared memory with which a block has more than 48 KiB must be allowed first,
// by cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes).
// Reference: CUDA C++ Programming Guide, "Execution Configuration", "Shared Memory".
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "yotta/device/emulator/scheduler.hpp"
#include "yotta/device/kernel.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// What stands between <<< and >>>.
struct LaunchShape {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
  Where where;
  LaunchShape(dim3 grid_, dim3 block_, size_t shared_bytes_ = 0, cudaStream_t stream_ = nullptr,
              Where where_ = Where::current())
      : grid(grid_), block(block_), shared_bytes(shared_bytes_), stream(stream_), where(where_) {}
};

// What a kernel's attributes say; 0: nothing.
struct KernelAttributes {
  dim3 cluster{0, 0, 0};
  unsigned most_threads = 0, most_in_cluster = 0;
  constexpr KernelAttributes launch_bounds(unsigned threads, unsigned /*blocks*/ = 0,
                                           unsigned in_cluster = 0) const {
    return {cluster, threads, in_cluster};
  }
  constexpr KernelAttributes cluster_dims(unsigned x, unsigned y = 1, unsigned z = 1) const {
    return {{x, y, z}, most_threads, most_in_cluster};
  }
};

// True in the call that only asks where the kernel lies. In a launch a kernel with attributes is
// refused if the launch contradicts them.
bool kernel_is_asked();
bool kernel_is_asked(KernelAttributes its);

// A call of a kernel, without its types.
struct AnyCall {
  void (*run)(const void* self);
  const void* self;
  size_t bytes;
  Arguments keep;
};
void launch_any(const LaunchShape& shape, const AnyCall& call);

// How much dynamic shared memory a kernel may have. A launch that wants more throws KernelError.
void allow_dynamic_shared(const void* kernel, size_t bytes);
void check_dynamic_shared(const void* kernel, const LaunchShape& shape);

template <class Kernel, class... Values>
struct SourceCall {
  Kernel kernel;
  std::tuple<Values...> arguments;

  YOTTA_UNSEEN static void run(const void* self) {
    const auto& own = *static_cast<const SourceCall*>(self);
    own.call(std::index_sequence_for<Values...>{});
  }
  static const void* copy(const void* self) {
    return new SourceCall(*static_cast<const SourceCall*>(self));
  }
  static void drop(const void* self) { delete static_cast<const SourceCall*>(self); }
  static void pointers(const void* self, std::vector<const void*>& out) {
    std::apply([&](const auto&... each) { (add_pointers(each, out), ...); },
               static_cast<const SourceCall*>(self)->arguments);
  }
  template <size_t... I>
  YOTTA_UNSEEN void call(std::index_sequence<I...>) const {
    kernel(std::get<I>(arguments)...);
  }
};

template <class Kernel>
class PendingLaunch {
 public:
  PendingLaunch(Kernel kernel, const LaunchShape& shape) : kernel_(kernel), shape_(shape) {}

  template <class... Values>
  void operator()(Values&&... values) const {
    using Call = SourceCall<Kernel, std::decay_t<Values>...>;
    const Call call{kernel_, {std::forward<Values>(values)...}};
    launch_any(shape_, {Call::run, &call, sizeof call, {Call::copy, Call::drop, Call::pointers}});
  }

 private:
  Kernel kernel_;
  LaunchShape shape_;
};

template <class Kernel>
PendingLaunch<Kernel> launch_call(Kernel kernel, const LaunchShape& shape) {
  return {kernel, shape};
}

// extern __shared__ T name[] outside of functions: converts to the running block's memory.
template <class T>
struct DynamicArray {
  operator T*() const { return dynamic_shared<T>(); }
  template <class Other>
  explicit operator Other*() const {
    return reinterpret_cast<Other*>(dynamic_shared<T>());
  }
};

// Such an array as a pointer. Anything else stays what it is: a variable of a function may have the
// same name.
template <class T>
__attribute__((always_inline)) inline T* decayed(const DynamicArray<T>& array) {
  return array;
}
template <class T>
__attribute__((always_inline)) constexpr T&& decayed(T&& other) {
  return static_cast<T&&>(other);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/unchanged/impl/launch_syntax.ipp"
#endif
