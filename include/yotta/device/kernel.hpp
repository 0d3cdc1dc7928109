// What a file with CUDA kernels includes. The same source is compiled by nvcc for a GPU, and by g++
// or clang for the emulator:
//
//     #include "yotta/device/kernel.hpp"
//
//     template <int Tile>
//     __global__ void smooth(const float* x, float* y, int n) {
//       __shared__ float tile[Tile];
//       ...
//       __syncthreads();
//     }
//
//     DeviceArray<float> x(host), y(n);
//     launch(smooth<256>, (n + 255) / 256, 256, 0, nullptr, x.data(), y.data(), n);
//
// launch(kernel, grid, block, shared_bytes, stream, arguments...) is <<<grid, block, shared_bytes,
// stream>>> as a function: grid and block are a number, {x, y} or {x, y, z}. Dynamic shared memory
// is dynamic_shared<T>(). launch_cooperative(...) is for kernels whose blocks wait for each other
// (cooperative_groups.hpp): all of them are there at once, or the launch is refused.
// launch_cluster(kernel, grid, cluster, block, ...) runs its blocks in clusters: block_cluster.hpp.
// Contract: on the CPU a launch without a stream (nullptr) returns when the kernel has ended, and
// throws KernelError where a GPU would do something undefined; one on a stream waits in it, and
// throws from the call that waits for it (streams.hpp). On a GPU both return at once, and throw if
// the launch was refused. Put device functions and kernels that headers share into `inline
// namespace YOTTA_DEVICE_BUILD` (emulator/device_build.hpp).
// nvcc compiles this file too.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <tuple>

#include "yotta/core/error.hpp"
#include "yotta/device/emulator/device_build.hpp"
#include "yotta/device/occupancy.hpp"
#if defined(__CUDACC__)
#include <cuda_runtime.h>
#else
#include "yotta/device/emulator/cuda_builtins.hpp"
#include "yotta/device/emulator/cuda_errors.hpp"
#include "yotta/device/emulator/scheduler.hpp"
#if defined(YOTTA_CHECKED)
#include "yotta/device/emulator/compiler_hooks.hpp"
#endif
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// The size of a grid, and the line that launches it.
struct Grid {
  dim3 size;
  Where where;
  template <std::convertible_to<dim3> Size>
  Grid(Size blocks, Where at = Where::current()) : size(blocks), where(at) {}
  Grid(unsigned x, unsigned y, Where at = Where::current()) : size(x, y), where(at) {}
  Grid(unsigned x, unsigned y, unsigned z, Where at = Where::current())
      : size(x, y, z), where(at) {}
};

// Throws if a call of the CUDA runtime has failed.
inline void check_cuda(cudaError_t code, Where where = Where::current()) {
  if (code != cudaSuccess) fail(where, "CUDA: {}", cudaGetErrorString(code));
}

#if defined(__CUDACC__)

// The block's dynamic shared memory, aligned to 128 bytes.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char yotta_dynamic_shared[];
  return reinterpret_cast<T*>(yotta_dynamic_shared);
}

// Lets a kernel have more dynamic shared memory than the 48 KiB that every kernel may.
inline void allow_shared(const void* kernel, size_t shared_bytes, Where where) {
  if (shared_bytes > 48 * 1024)
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes)),
               where);
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes, grid.where);
  kernel<<<grid.size, block, shared_bytes, stream>>>(static_cast<Arguments&&>(arguments)...);
  check_cuda(cudaGetLastError(), grid.where);
}

template <class... Parameters, class... Arguments>
void launch_cooperative(void (*kernel)(Parameters...), Grid grid, dim3 block, size_t shared_bytes,
                        cudaStream_t stream, Arguments&&... arguments) {
  const auto* const code = reinterpret_cast<const void*>(kernel);
  allow_shared(code, shared_bytes, grid.where);
  std::tuple<Parameters...> copies(static_cast<Arguments&&>(arguments)...);
  std::apply(
      [&](auto&... each) {
        void* pointers[] = {const_cast<void*>(static_cast<const void*>(&each))..., nullptr};
        check_cuda(
            cudaLaunchCooperativeKernel(code, grid.size, block, pointers, shared_bytes, stream),
            grid.where);
      },
      copies);
}

// Each `cluster` of blocks is there together.
template <class... Parameters, class... Arguments>
void launch_cluster(void (*kernel)(Parameters...), Grid grid, dim3 cluster, dim3 block,
                    size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes, grid.where);
  cudaLaunchAttribute shape = {};
  shape.id = cudaLaunchAttributeClusterDimension;
  shape.val.clusterDim.x = cluster.x;
  shape.val.clusterDim.y = cluster.y;
  shape.val.clusterDim.z = cluster.z;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.size;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &shape;
  config.numAttrs = 1;
  check_cuda(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), grid.where);
}

// What a block of a kernel needs; its registers are those that the compiler gave it for this GPU.
template <class... Parameters>
BlockNeeds block_needs(void (*kernel)(Parameters...), int threads, size_t shared_bytes,
                       Where where = Where::current()) {
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)), where);
  return {threads, attributes.sharedSizeBytes + shared_bytes, attributes.numRegs};
}

#else

template <class T>
T* dynamic_shared(Where where = Where::current()) {
  return reinterpret_cast<T*>(emulator::dynamic_shared_memory(where));
}

namespace emulator {

template <class... Parameters, class... Arguments>
void launch_task(void (*kernel)(Parameters...), Grid grid, dim3 block, size_t shared_bytes,
                 cudaStream_t stream, bool cooperative, std::optional<dim3> cluster,
                 Arguments&&... arguments) {
  using Call = emulator::Call<Parameters...>;
  const Call call{kernel, {std::forward<Arguments>(arguments)...}};
  const EmulatorOptions& options = emulator_options();
  const Task task{.grid = grid.size,
                  .size = block,
                  .cluster = cluster.value_or(dim3()),
                  .shared_bytes = shared_bytes,
                  .seed = options.seed,
                  .kernel = reinterpret_cast<const void*>(kernel),
                  .call = call.run,
                  .arguments = &call,
                  .argument_bytes = sizeof call,
                  .keep = {Call::copy, Call::drop, Call::pointers},
                  .patience = options.patience,
                  .cooperative = cooperative,
                  .blocks_at_once = options.blocks_at_once,
                  .names_cluster = cluster.has_value(),
                  .where = grid.where};
  launch_on(stream, task);
}

}  // namespace emulator

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  emulator::launch_task(kernel, grid, block, shared_bytes, stream, false, std::nullopt,
                        std::forward<Arguments>(arguments)...);
}

template <class... Parameters, class... Arguments>
void launch_cooperative(void (*kernel)(Parameters...), Grid grid, dim3 block, size_t shared_bytes,
                        cudaStream_t stream, Arguments&&... arguments) {
  emulator::launch_task(kernel, grid, block, shared_bytes, stream, true, std::nullopt,
                        std::forward<Arguments>(arguments)...);
}

template <class... Parameters, class... Arguments>
void launch_cluster(void (*kernel)(Parameters...), Grid grid, dim3 cluster, dim3 block,
                    size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  emulator::launch_task(kernel, grid, block, shared_bytes, stream, false, cluster,
                        std::forward<Arguments>(arguments)...);
}

// What a block of a kernel needs; its registers are not known (occupancy.hpp says what that means).
template <class... Parameters>
BlockNeeds block_needs(void (*kernel)(Parameters...), int threads, size_t shared_bytes) {
  return emulator::needs_of(kernel, dim3(static_cast<unsigned>(threads)), shared_bytes);
}

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
