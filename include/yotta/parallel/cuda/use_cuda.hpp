// Device::cuda for a program: one call at its start.
//
//     const std::string why_not = use_cuda(0);         this process computes on GPU 0 from here on
//     if (!why_not.empty()) fmt::print("{}: computing on the CPU instead\n", why_not);
//     const DeviceScope scope(Device::cuda);              new tensors live there
//
// In builds with CUDA (YOTTA_HAVE_CUDA) nvcc compiles it: one .cu file of the program includes
// parallel/cuda/parallel_kernels.hpp. Such a program starts on any machine: without a driver the
// call says so. All other builds have the answer below.
#pragma once

#include <string>

namespace yotta {

enum class MatmulBy {
  cublas,
  course
};  // course: the kernels of lesson 03, slower, and yours to read

// Makes GPU `gpu` this process's Device::cuda, counted modulo those that it sees: for process
// number `gpu` of a host. Returns why it cannot, in one line; empty: done.
#ifdef YOTTA_HAVE_CUDA
std::string use_cuda(int gpu = 0, MatmulBy matmul = MatmulBy::cublas);
#else
inline std::string use_cuda(int /*gpu*/ = 0, MatmulBy /*matmul*/ = MatmulBy::cublas) {
  return "this program was built without CUDA (cmake --preset cuda builds with it)";
}
#endif

}  // namespace yotta
