// Launches of fused kernels on a GPU: CUDA source through NVRTC, loaded and launched by the driver.
//
//     launch ──print_cuda──> source ──compile_cuda──> machine code ──cuModuleLoadData──> module
//     arguments ──cuMemcpyHtoD──> memory ──cuLaunchKernel, a block a task──> memory ──> results
//
// The source is the one that the emulator runs (tests/device/compile/cuda_functions_test.cpp). The
// driver, libcuda, comes with the GPU and is opened when it is first asked for; where it is not,
// why_no_gpu says so.
// Contract: kernels by rows alone; a matmul, a sum down columns and an all_reduce are refused.
// Tensors lie on the host. Each value has memory of its own.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "yotta/device/fusion_codegen.hpp"

namespace yotta {

// The functions of the CUDA driver that are called here, with the types of cuda.h: codes and
// devices are numbers, contexts, modules, functions and streams are pointers, and 0 is success. A
// table, so that tests can stand in for a GPU. find_functions has the names by which they are
// found.
struct GpuDriver {
  int (*init)(unsigned flags);
  int (*device_count)(int* count);
  int (*device_name)(char* name, int size, int device);
  int (*attribute)(int* value, int attribute, int device);
  int (*retain_context)(void** context, int device);
  int (*set_context)(void* context);
  int (*synchronize)();
  int (*load_module)(void** module, const void* image);
  int (*unload_module)(void* module);
  int (*get_function)(void** function, void* module, const char* name);
  int (*allocate)(unsigned long long* memory, size_t bytes);
  int (*release)(unsigned long long memory);
  int (*copy_in)(unsigned long long to, const void* from, size_t bytes);
  int (*copy_out)(void* to, unsigned long long from, size_t bytes);
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream,
                void** parameters, void** extra);
  int (*error_name)(int code, const char** name);
};

// Why nothing can run on a GPU here; empty if it can.
std::string why_no_gpu();
// The driver. Errors: there is no GPU.
const GpuDriver& gpu_driver(Where where = Where::current());
// What the first GPU is called, and the target that NVRTC compiles for: "sm_90".
struct GpuChip {
  std::string name, target;
};
GpuChip gpu_chip(const GpuDriver& driver = gpu_driver());

class GpuProgram {
 public:
  // Errors: NVRTC is not installed; a node that is no kernel by rows.
  GpuProgram(const Graph& graph, std::vector<Launch> launches,
             const GpuDriver& driver = gpu_driver(), Where where = Where::current());

  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments,
                                 Where where = Where::current()) const;
  // Of one run of all launches, without copies: the mean of `times` in a row, on what lies in
  // memory.
  double seconds(int times, Where where = Where::current()) const;

 private:
  struct Held;  // modules and memory
  void launch_all(Where where) const;

  Graph graph_;
  std::vector<Launch> launches_;
  const GpuDriver* driver_;
  std::shared_ptr<Held> held_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/compile/impl/gpu_program.ipp"
#endif
