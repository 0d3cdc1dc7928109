// The bodies of device/unchanged/launch_syntax.hpp.
#pragma once

#include "yotta/device/unchanged/launch_syntax.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "yotta/device/emulator/debug_info.hpp"
#include "yotta/device/emulator/impl/scheduler.ipp"
#include "yotta/device/emulator/lanes.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

struct KernelQuestion {
  bool asked = false;
  const void* answer = nullptr;
  KernelAttributes attributes = {};
  static KernelQuestion& current() {
    static thread_local KernelQuestion one;
    return one;
  }
};

// Throws if the launch that runs is not one that the attributes allow.
YOTTA_UNSEEN inline void check_attributes(const KernelAttributes& its) {
  const UncheckedScope unchecked;
  const Task& task = this_lane->block->task();
  // What a stopped lane holds is never freed, so words are made by who stops it.
  const auto contradicts = [](auto say) {
    this_lane->block->stop([say] {
      const auto [launch, kernel] = say();
      return fmt::format("a launch {}, and the kernel's {}", launch, kernel);
    });
  };
  if (its.most_threads > 0 && count_of(task.size) > its.most_threads)
    contradicts([threads = count_of(task.size), most = its.most_threads] {
      return std::pair(fmt::format("of {} threads in a block", threads),
                       fmt::format("__launch_bounds__ allows {}", most));
    });
  const uint64_t in_cluster = count_of(task.cluster);
  if (its.most_in_cluster > 0 && in_cluster > its.most_in_cluster)
    contradicts([in_cluster, most = its.most_in_cluster] {
      return std::pair(fmt::format("of {} blocks in a cluster", in_cluster),
                       fmt::format("__launch_bounds__ allows {}", most));
    });
  const bool same = its.cluster.x == task.cluster.x && its.cluster.y == task.cluster.y &&
                    its.cluster.z == task.cluster.z;
  if (its.cluster.x == 0 || same) return;
  if (!task.names_cluster)
    this_lane->block->stop([own = its.cluster]() -> std::string { throw OwnCluster{own}; });
  contradicts([named = task.cluster, own = its.cluster] {
    return std::pair(fmt::format("in clusters of {}", text(named)),
                     fmt::format("__cluster_dims__ says {}", text(own)));
  });
}
inline bool note_kernel(const void* inside, const KernelAttributes& its) {
  KernelQuestion::current() = {false, inside, its};
  return true;
}
__attribute__((noinline)) YOTTA_INLINE YOTTA_UNSEEN bool kernel_is_asked() {
  return this_lane == nullptr && note_kernel(__builtin_return_address(0), {});
}
__attribute__((noinline)) YOTTA_INLINE YOTTA_UNSEEN bool kernel_is_asked(KernelAttributes its) {
  if (this_lane == nullptr) return note_kernel(__builtin_return_address(0), its);
  check_attributes(its);
  return false;
}

// How much each kernel may have, by its address.
struct AllowedShared {
  std::mutex mutex;
  std::map<const void*, size_t> bytes;
  static AllowedShared& instance() {
    static auto* one = new AllowedShared;
    return *one;
  }
};

YOTTA_INLINE void allow_dynamic_shared(const void* kernel, size_t bytes) {
  AllowedShared& allowed = AllowedShared::instance();
  const std::lock_guard lock(allowed.mutex);
  allowed.bytes[kernel] = bytes;
}

inline bool is_allowed(const void* kernel, size_t bytes) {
  AllowedShared& allowed = AllowedShared::instance();
  const std::lock_guard lock(allowed.mutex);
  return allowed.bytes[kernel] >= bytes;
}

YOTTA_INLINE void check_dynamic_shared(const void* kernel, const LaunchShape& shape) {
  if (shape.shared_bytes == 0) return;
  const size_t of_arrays = needs_of(kernel, dim3(1), 0).shared;
  if (of_arrays + shape.shared_bytes <= 48 * 1024 || is_allowed(kernel, shape.shared_bytes)) return;
  fail_as<KernelError>(
      shape.where,
      "{} bytes of dynamic shared memory and {} of __shared__ arrays are more than the 48 KiB that "
      "every kernel may have: call cudaFuncSetAttribute(kernel, "
      "cudaFuncAttributeMaxDynamicSharedMemorySize, {}) first",
      shape.shared_bytes, of_arrays, shape.shared_bytes);
}

// The beginning of the kernel that the call leads to.
inline const void* kernel_of(const AnyCall& call) {
  KernelQuestion& question = KernelQuestion::current();
  question = {true, nullptr};
  call.run(call.self);
  const Image image = image_of(question.answer);
  return SharedArrays::of(image).kernel_at(image, question.answer);
}

YOTTA_INLINE void launch_any(const LaunchShape& shape, const AnyCall& call) {
  if (this_lane != nullptr)
    fail_as<KernelError>(shape.where,
                         "a kernel launches a kernel: the emulator has no dynamic parallelism. "
                         "Launch it from the host");
  const void* const kernel = kernel_of(call);
  const dim3 cluster = KernelQuestion::current().attributes.cluster;
  check_dynamic_shared(kernel, shape);
  const EmulatorOptions& options = emulator_options();
  launch_on(shape.stream, {.grid = shape.grid,
                           .size = shape.block,
                           .cluster = cluster.x > 0 ? cluster : dim3(),
                           .shared_bytes = shape.shared_bytes,
                           .seed = options.seed,
                           .kernel = kernel,
                           .call = call.run,
                           .arguments = call.self,
                           .argument_bytes = call.bytes,
                           .keep = call.keep,
                           .patience = options.patience,
                           .blocks_at_once = options.blocks_at_once,
                           .where = shape.where});
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
